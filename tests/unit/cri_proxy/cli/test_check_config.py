"""The check-config command."""

import json
from pathlib import Path

import pytest

from cri_proxy.cli.check_config import Change, check, compare, render_report
from cri_proxy.cli.main import run_command
from cri_proxy.config.load import parse_config
from cri_proxy.http.routes import config_json
from tests.fakes.serving import served
from tests.fakes.views import FixedDaemon

TEXT = "adopt: leave\nreservedResources: {cpu: 750m}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(TEXT)
    return tmp_path / "c.yaml"


def test_without_a_daemon_it_is_held_against_the_defaults(path: Path, tmp_path: Path) -> None:
    report = check(path, tmp_path / "a.sock")
    assert (report.valid, report.against) == (True, "defaults")
    assert report.changes == (Change("reservedResources.cpu", "none", "750m"), Change("adopt", "pin", "leave"))


def test_with_a_daemon_it_is_held_against_what_that_runs(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", FixedDaemon(parse_config("adopt: leave"))):
        report = check(path, tmp_path / "a.sock")
    assert report.changes == (Change("reservedResources.cpu", "none", "750m"),)
    assert "against the running daemon" in render_report(report)


def test_what_the_file_does_not_say_is_told_apart(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(f"{TEXT}http: off"))):
        report = check(path, tmp_path / "a.sock")
    assert report.changes == (Change("http", "off", "127.0.0.1:8891", is_in_file=False),)
    assert "unless the daemon's command line says so:\n  http  off ->" in render_report(report)


def test_no_difference_is_said(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(TEXT))):
        assert run_command(["check-config", str(path), "--admin", f"{tmp_path}/a.sock"]) == 0
    assert capsys.readouterr().out == f"{path}: valid\nthe same as the running daemon\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [("adopt: pin\nadpot: x", ":2: adpot: unknown option; did you mean adopt?"), ("imageListen: /a", "needs imageEnd")],
)
def test_a_configuration_that_is_not_valid_is_a_clear_no(
    path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(text)
    assert run_command(["check-config", str(path)]) == 1
    assert problem in capsys.readouterr().out


def test_json_names_line_and_key(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("log: {level: loud}")
    assert run_command(["check-config", str(path), "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], report["line"], report["key"]) == (False, 1, "log.level")


def test_an_option_that_one_side_does_not_know_counts_as_not_set() -> None:
    new = config_json(parse_config("adopt: leave"))
    assert Change("adopt", "none", "leave") in compare({}, new, frozenset({"adopt"}))


def test_what_was_left_out_is_shown(path: Path, tmp_path: Path) -> None:
    path.write_text("policy: {Active: none}\nrdt: {}")
    assert "warning: rdt:" in render_report(check(path, tmp_path / "a.sock"))
