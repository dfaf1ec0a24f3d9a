import json
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command

GOOD = "machine: {cores: 2, memory: 1Gi}\nsteps:\n- create: {pod: a, containers: [{name: c}]}\n"
UNMET = GOOD + "- expect: cpus('a/c') == {}\n"
BROKEN = "machine: {cores: 2}\nsteps:\n- destroy: a\n"


def simulate(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = run_command(["simulate", *argv])
    streams = capsys.readouterr()
    return status, streams.out, streams.err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.yaml"


def test_one_scenario_is_one_object(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(GOOD)
    status, out, _ = simulate(capsys, str(file), "-o", "json")
    (step,) = json.loads(out)["steps"]
    assert (status, step["ok"], step["containers"]["a/c"]["cpus"]) == (0, True, "0-1")


def test_several_are_an_array_in_which_a_broken_one_has_its_place(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(f"{GOOD}---\n{BROKEN}")
    status, out, _ = simulate(capsys, str(file), str(file), "-o", "json")
    answers = json.loads(out)
    assert (status, [list(answer) for answer in answers]) == (1, [["steps", "warnings"], ["error"]] * 2)
    assert f"{file}:7: a step: unknown key 'destroy'" in answers[1]["error"]


def test_a_broken_one_alone_goes_to_standard_error(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(BROKEN)
    status, out, err = simulate(capsys, str(file), "-o", "json")
    assert (status, out) == (1, "")
    assert "unknown key 'destroy'" in err


def test_an_unmet_expectation_is_a_no(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(UNMET)
    status, out, _ = simulate(capsys, str(file))
    assert status == 1
    assert "NO: cpus('a/c') == {}: left is 0-1, right is nothing" in out


def test_nothing_to_play_is_a_no(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("# only a comment\n")
    assert simulate(capsys, str(file))[0] == 1


def test_no_file_at_all_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(capsys)[0] == 2


def test_a_scenario_may_come_by_standard_input() -> None:
    command = [sys.executable, "-m", "cri_proxy.cli.main", "simulate", "-"]
    done = subprocess.run(command, input=GOOD, capture_output=True, text=True, check=True)
    assert "a/c: CPUs 0-1 shared" in done.stdout
