import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.simulate.demo import CAPTIONS, SCENARIO


def test_the_demo_shows_every_pod_the_tree_and_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo"]) == 0
    out = capsys.readouterr().out
    assert "11. giant asks for more" in out
    assert "NUMA node #1" in out
    assert "pools, best first" in out
    assert "\x1b[" not in out  # not a terminal


def test_as_data_it_is_what_simulate_says_of_its_scenes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "demo.yaml").write_text(SCENARIO.read_text())
    answers = []
    for words in (["demo"], ["simulate", str(tmp_path / "demo.yaml")]):
        assert run_command([*words, "-o", "json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert [step["index"] for step in answers[0]["steps"]] == list(range(len(CAPTIONS)))


@pytest.mark.parametrize("pace", ["-1", "soon", "61", "nan"])
def test_a_pace_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str], pace: str) -> None:
    assert run_command(["demo", f"--pace={pace}"]) == 2
    assert "expected seconds" in capsys.readouterr().err
