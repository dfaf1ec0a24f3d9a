import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.cli.watch.events import moment
from tests.fakes.serving import served

NOON = 1_700_000_000.0 - 1_700_000_000.0 % 86_400 + 43_200


@pytest.mark.parametrize(
    ("text", "before_noon"),
    [("30m", 1800), ("2h", 7200), ("7d", 604_800), ("90s", 90), ("today", 43_200), ("yesterday", 129_600)],
)
def test_a_moment_is_so_long_ago(text: str, before_noon: float) -> None:
    assert NOON - moment(text)(NOON) == before_noon


@pytest.mark.parametrize(
    "text", ["2023-11-14 12:00", "2023-11-14T12:00", "2023-11-14 12:00:00", "2023-11-14T12:00:00Z"]
)
def test_a_moment_is_a_time_in_utc(text: str) -> None:
    assert moment(text)(0) == NOON


@pytest.mark.parametrize("text", ["", "soon", "1w", "-2h", "2023-13-01"])
def test_what_is_no_moment_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["events", f"--since={text}"]) == 2
    assert "expected a time as 30m" in capsys.readouterr().err


def test_events_are_printed_and_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    admin = ["--admin", f"unix://{tmp_path}/a.sock"]
    with served(tmp_path / "a.sock"):
        assert run_command(["events", "--since", "2023-11-14", *admin]) == 0
        assert "2023-11-14 22:13:20  default/web/c0: placed in socket #0 on CPUs 2-3\n" in capsys.readouterr().out
        assert run_command(["events", "--since", "2023-11-14", "--pod", "db*", *admin]) == 0
        assert "nothing has happened" in capsys.readouterr().out
        assert run_command(["events", "--since", "2023-11-14", "-n", "default", "-o", "json", *admin]) == 0
        assert json.loads(capsys.readouterr().out)["events"][0]["what"] == "placed"
        assert run_command(["events", *admin]) == 0
        assert "nothing has happened since" in capsys.readouterr().out


def test_following_prints_text_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["events", "--follow", "-o", "json"]) == 2
    assert "poll with -o json" in capsys.readouterr().err
