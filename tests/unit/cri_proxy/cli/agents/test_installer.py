"""The command: what it needs, and a way back on a host where nothing was begun."""

import argparse
from pathlib import Path

import pytest

from cri_proxy.cli.agents import installer
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.errors import CommandFailed, CriProxyError
from cri_proxy.installer.journal import InstallJournal, InstallPhase, JournalFile


def parsed(*words: str) -> argparse.Namespace:
    return command_parser("installer", load_command("installer")).parse_args(words)


def test_it_needs_the_name_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    with pytest.raises(CommandFailed, match="NODE_NAME"):
        installer.run(parsed())


def test_it_runs_in_a_pod_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODE_NAME", "n1")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CriProxyError, match="serviceaccount: cannot open"):
        installer.run(parsed("--host", str(tmp_path), "--once"))


def test_where_nothing_was_begun_there_is_nothing_to_turn_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert installer.run(parsed("--host", str(tmp_path), "--turn-back")) == 0
    assert "nothing to turn back" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("phase", "reason", "base", "told"),
    [
        (InstallPhase.DONE, "", "", "nothing to turn back: 2.0 is installed"),
        (InstallPhase.FORWARD, "", "", "turned back: the host is as it was before the installation; why: the inst"),
        (InstallPhase.FORWARD, "", "1.0", "turned back: 1.0 is installed; why: the installation was not done in time"),
        (InstallPhase.FAILED, "no disk", "", "turned back: the host is as it was before the installation; why: no d"),
        (InstallPhase.BACK, "", "", "turned back: the host is as it was before the installation\n"),
    ],
)
def test_it_says_how_the_host_is_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], phase: InstallPhase, reason: str, base: str, told: str
) -> None:
    file = JournalFile(tmp_path)
    with file.locked():
        file.save(InstallJournal("2.0", (), phase, reason=reason, base_release=base))
    assert installer.run(parsed("--host", str(tmp_path), "--turn-back")) == 0
    assert capsys.readouterr().out.startswith(told)


def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    place = tmp_path / "opt/cri-proxy/installer"
    place.mkdir(parents=True)
    (place / "journal.json").write_text("{")
    with pytest.raises(CriProxyError, match="cannot be read"):
        installer.run(parsed("--host", str(tmp_path), "--turn-back"))
