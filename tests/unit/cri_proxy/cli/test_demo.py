"""``cri-proxy demo``."""

import pytest

from cri_proxy.cli.main import run_command


def test_the_demo_shows_every_pod_the_tree_and_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo"]) == 0
    out = capsys.readouterr().out
    assert "11. giant asks for more" in out
    assert "NUMA node #1" in out
    assert "pools, best first" in out
    assert "\x1b[" not in out  # not a terminal


@pytest.mark.parametrize("pace", ["-1", "soon", "61", "nan"])
def test_a_pace_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str], pace: str) -> None:
    assert run_command(["demo", f"--pace={pace}"]) == 2
    assert "expected seconds" in capsys.readouterr().err
