import pytest

from cri_proxy.cli.main import run_command


@pytest.mark.parametrize("action", ["topology", "allocate", "score"])
def test_every_action_has_help_with_an_example(capsys: pytest.CaptureFixture[str], action: str) -> None:
    assert run_command(["gpu", action, "--help"]) == 0
    assert f"cri-proxy gpu {action}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["gpu"], ["gpu", "allocated"], ["gpu", "allocate"], ["gpu", "score", "f", "--size", "2"]]
)
def test_wrong_usage_is_2(words: list[str]) -> None:
    assert run_command(words) == 2
