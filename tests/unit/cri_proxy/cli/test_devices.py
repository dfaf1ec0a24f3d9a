import pytest

from cri_proxy.cli.devices import ACTIONS
from cri_proxy.cli.main import run_command


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_help_with_an_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", action, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"example:\n  cri-proxy devices {action}" in text
    assert "--output" in text


def test_an_action_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices"]) == 2
    assert "ACTION" in capsys.readouterr().err
