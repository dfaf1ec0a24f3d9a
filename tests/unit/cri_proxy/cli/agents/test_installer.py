"""The command: what it needs, and a way back on a host where nothing was begun."""

import argparse
from pathlib import Path

import pytest

from cri_proxy.cli.agents import installer
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.errors import CommandFailed, CriProxyError


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


def test_where_nothing_was_begun_there_is_nothing_to_turn_back(tmp_path: Path) -> None:
    assert installer.run(parsed("--host", str(tmp_path), "--turn-back")) == 0


def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    place = tmp_path / "opt/cri-proxy/installer"
    place.mkdir(parents=True)
    (place / "journal.json").write_text("{")
    with pytest.raises(CriProxyError, match="cannot be read"):
        installer.run(parsed("--host", str(tmp_path), "--turn-back"))
