import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from tests.fakes.serving import served

WATCH = [sys.executable, "-m", "cri_proxy.cli.main", "status", "--watch", "--interval", "0.1"]
WITHIN_SECONDS = 30.0


@contextmanager
def watching(tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The terminal of a command that watches, and its process."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
    argv = [*WATCH, "--admin", f"{tmp_path}/a.sock"]
    with served(tmp_path / "a.sock"):
        child = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)  # what reads ours sees the end of the child
        try:
            yield ours, child
        finally:
            child.kill()
            child.wait(WITHIN_SECONDS)
            os.close(ours)


def test_on_a_terminal_keys_move_filter_and_quit(tmp_path: Path) -> None:
    with watching(tmp_path) as (ours, child):
        assert "package 0" in _until(ours, "q quit")
        os.write(ours, b"\x1b[B")
        assert "\x1b[7m" in _until(ours, "\x1b[7m")
        os.write(ours, b"e")
        assert "asked for" in _until(ours, "any other key: back")
        os.write(ours, b"x")
        _until(ours, "q quit")
        os.write(ours, b"q")
        assert "\x1b[?1049l" in _until(ours, "\x1b[?1049l")
        assert child.wait(WITHIN_SECONDS) == 0


def test_keys_that_come_at_once_all_count(tmp_path: Path) -> None:
    with watching(tmp_path) as (ours, child):
        _until(ours, "q quit")
        os.write(ours, b"\x1b[B\x1b[Ce")  # the arrow to the right has no meaning
        assert "asked for" in _until(ours, "any other key: back")
        os.write(ours, b"xq")
        _until(ours, "\x1b[?1049l")
        assert child.wait(WITHIN_SECONDS) == 0


def _until(terminal: int, wanted: str) -> str:
    """What the terminal is sent until this text. Raises AssertionError where it does not come in time."""
    seen, ends_at = "", monotonic() + WITHIN_SECONDS
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, ends_at - monotonic()))
        assert ready, f"{wanted!r} did not come after {seen[-400:]!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen
