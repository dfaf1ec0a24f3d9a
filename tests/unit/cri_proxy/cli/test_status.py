import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.cli.output import redrawn
from tests.fakes.serving import served


def test_the_tree_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["status", "--admin", f"unix://{tmp_path}/a.sock"]) == 0
    assert "socket #0" in capsys.readouterr().out


def test_json_is_the_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["status", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 0
    assert json.loads(capsys.readouterr().out)["containers"][0]["exclusive"] == "2-3"


def test_without_a_daemon_it_is_a_clear_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["status", "--admin", f"{tmp_path}/a.sock"]) == 1
    assert "is the daemon running" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_an_interval_is_a_time(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["status", "--interval", text]) == 2
    assert "expected seconds" in capsys.readouterr().err


def test_watching_ends_quietly_when_interrupted(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "cri_proxy.cli.main", "status", "--watch", "--interval", "0.05"]
    with (
        served(tmp_path / "a.sock"),
        subprocess.Popen(
            [*argv, "--admin", f"{tmp_path}/a.sock"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child,
    ):
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("worker-1")
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(30) == 130
        assert child.stderr.read() == ""


def test_a_picture_is_drawn_over_the_last_one_without_blanking_it() -> None:
    drawn = redrawn("a\nb", 24)
    assert drawn == "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"
    assert "\x1b[2J" not in drawn


def test_what_does_not_fit_the_window_is_counted() -> None:
    lines = redrawn("\n".join(str(i) for i in range(30)), 10).split("\n")
    assert len(lines) == 10
    assert lines[8].startswith("... 22 more lines")
