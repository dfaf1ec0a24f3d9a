import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.cli.help.commands import ACTIONS, COMMANDS, GROUPS, ROWS
from cri_proxy.cli.main import overview, run_command
from tests.fakes.serving import served

COMMAND = shlex.join([sys.executable, "-m", "cri_proxy.cli.main"])


WITHOUT_OUTPUT = {
    *("run", "costs", "gpu", "convert", "hints", "devices", "config-agent", "installer", "device-plugin", "extender"),
    *("exporter", "completion"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"example:\n  .*cri-proxy {name}", text)
    assert ("--output" in text) is (name not in WITHOUT_OUTPUT)


def test_the_overview_names_every_command() -> None:
    text = overview()
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []
    assert max(map(len, text.splitlines())) <= 80


def test_the_overview_lists_a_command_once_below_its_heading() -> None:
    headings = [line.removesuffix(":") for line in overview().splitlines() if re.fullmatch(r"[a-z ]+:", line)]
    assert headings == [*GROUPS, "options", "example"]
    assert headings[:4] == ["every day", "try and plan", "devices", "services"]
    assert len(set(COMMANDS)) == len(COMMANDS)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param([], "every day:", id="no command"),
        pytest.param(["status", "--colour"], "--colour", id="a wrong option"),
        pytest.param(["status", "--wat"], "--wat", id="an abbreviation"),
    ],
)
def test_wrong_usage_is_named(capsys: pytest.CaptureFixture[str], words: list[str], named: str) -> None:
    assert run_command(words) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("statsu", "unknown command 'statsu'; did you mean status?"),
        ("xyzzy", "unknown command 'xyzzy'; known: status,"),
        ("--polcy", "unknown option '--polcy'"),
    ],
)
def test_an_unknown_command_is_wrong_usage_with_a_hint(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([word]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["run", "--relay=x"], "argument --relay: "),
        (["run", "--colour"], "unrecog"),
        (["capture"], "the following arg"),
    ],
)
def test_wrong_usage_is_told_in_one_line_that_names_the_help(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cri-proxy {argv[0]}: {problem}")
    assert line.endswith(f"; see cri-proxy {argv[0]} --help")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cri-proxy ")


OURS = ("cri_proxy.", "policies.", "sysfs.")


def loaded_by(*words: str) -> set[str]:
    """The modules that a process has loaded when this command line has ended."""
    code = "import sys; from cri_proxy.cli.main import run_command; run_command(sys.argv[1:]); print(*sys.modules)"
    line = [sys.executable, "-c", code, *words]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=30)
    return set(done.stdout.splitlines()[-1].split())


def test_a_command_loads_no_other_and_nothing_heavy() -> None:
    heavy = {"grpc", "structlog", "yaml", "asyncio", "cri_proxy.cli.run"}
    assert loaded_by("status", "--help") & heavy == set()


def test_an_action_loads_none_that_it_does_not_use() -> None:
    assert "cri_proxy.cli.gpu_actions.publish" not in loaded_by("gpu", "score", "--help")


def test_the_overview_loads_no_command() -> None:
    """Its start-up is what a person waits for: about 20 modules of ours."""
    loaded = loaded_by("--help")
    assert [row.name for row in ROWS.values() if row.path in loaded] == []
    assert len([name for name in loaded if name.startswith(OURS)]) < 25


def test_status_loads_what_it_prints_and_not_what_decides(tmp_path: Path) -> None:
    with served(tmp_path / "admin.sock"):
        loaded = loaded_by("status", "--admin", f"unix://{tmp_path}/admin.sock")
    heavy = {"grpc", "structlog", "yaml", "asyncio", "cri_proxy.config", "cri_proxy.state", "policies.policy"}
    assert loaded & heavy == set()
    assert len([name for name in loaded if name.startswith(OURS)]) < 65


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    line = f"{COMMAND} --help | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, timeout=30)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")


def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        line = [sys.executable, "-m", "cri_proxy.cli.main", "hints", "compare", "--nodes", "1"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (
        1,
        "cri-proxy hints: the output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        (
            "hints compare --nodes 1 >&-",
            1,
            "cri-proxy hints: the output cannot be written: standard output is closed\n",
        ),
        ("--help >&-", 1, "cri-proxy: the output cannot be written: standard output is closed\n"),
        ("--version >/dev/full", 1, "cri-proxy: the output cannot be written: No space left on device\n"),
        ("hints compare --nodes 1 >&- 2>&-", 1, ""),
        ("statsu 2>&-", 2, ""),
    ],
)
def test_a_stream_that_is_closed_or_full_is_said_in_one_line(line: str, status: int, said: str) -> None:
    words = ["bash", "-c", f"{COMMAND} {line}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (status, said)


@pytest.mark.parametrize("name", [row.name for row in ACTIONS])
def test_every_action_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"example:\n  cri-proxy {name}" in text
    assert "--output" in text


@pytest.mark.parametrize("name", [name for name in COMMANDS if ROWS[name].actions])
def test_an_action_has_to_be_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([name]) == 2
    assert "ACTION" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["gpu", "allocated"], ["gpu", "allocate"], ["gpu", "score", "f", "--size", "2"]])
def test_wrong_usage_of_an_action_is_2(words: list[str]) -> None:
    assert run_command(words) == 2


@pytest.mark.parametrize(
    ("argv", "begins"),
    [
        (["help"], "usage: cri-proxy COMMAND"),
        (["help", "status"], "usage: cri-proxy status "),
        (["help", "devices", "list"], "usage: cri-proxy devices list "),
    ],
)
def test_help_of_a_command_is_that_of_its_option(
    argv: list[str], begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(argv) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_help_of_an_unknown_command_asks_which_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["help", "statsu"]) == 2
    assert "unknown command 'statsu'; did you mean status?" in capsys.readouterr().err
