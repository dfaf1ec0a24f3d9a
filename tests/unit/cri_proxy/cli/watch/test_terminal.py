import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.fakes.serving import served

WATCH = [sys.executable, "-m", "cri_proxy.cli.main", "status", "--watch", "--interval", "0.1"]


def test_on_a_terminal_keys_move_filter_and_quit(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
    with (
        served(tmp_path / "a.sock"),
        subprocess.Popen(
            [*WATCH, "--admin", f"{tmp_path}/a.sock"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        ) as child,
    ):
        seen = _until(ours, "q quit")
        assert "package 0" in seen
        os.write(ours, b"\x1b[B")
        assert "\x1b[7m" in _until(ours, "\x1b[7m")
        os.write(ours, b"e")
        assert "asked for" in _until(ours, "any other key: back")
        os.write(ours, b"x")
        _until(ours, "q quit")
        os.write(ours, b"q")
        assert child.wait(30) == 0
        assert "\x1b[?1049l" in _until(ours, "\x1b[?1049l")
    os.close(ours)
    os.close(theirs)


def _until(terminal: int, wanted: str) -> str:
    """What the terminal is sent until this text; the process ends within the wait of the test if it never comes."""
    seen = ""
    while wanted not in seen:
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen
