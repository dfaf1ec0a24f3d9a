import io
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.config.load import load_config
from tests.house.tree import ROOT

PEER = ROOT / "configs" / "nri-plugins.yaml"


def test_the_printed_file_is_loaded_with_the_same_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["convert", str(PEER)]) == 0
    written = tmp_path / "cri-proxy.yaml"
    written.write_text(capsys.readouterr().out)
    assert load_config(written).config == load_config(PEER).config
    assert load_config(written).warnings == ()


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("policy: {Active: none}"))
    assert run_command(["convert", "-"]) == 0
    assert "policy: none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [("policy: nosuch", "expected one of"), ("adpot: pin", "unknown option"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read_is_named(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "peer.yaml"
    if text is not None:
        file.write_text(text)
    assert run_command(["convert", str(file)]) == 1
    printed = capsys.readouterr()
    assert (printed.out, str(file) in printed.err, problem in printed.err) == ("", True, True)
