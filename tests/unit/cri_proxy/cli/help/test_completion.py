from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from tests.fakes.serving import served


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["completion", shell]) == 0
    assert f"made by: cri-proxy completion {shell}\n" in capsys.readouterr().out


def test_the_names_are_those_of_the_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "admin.sock"):
        assert run_command(["completion", "containers", "--admin", f"unix://{tmp_path}/admin.sock"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert "web" in names
    assert "web/c0" in names


def test_an_unknown_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err
