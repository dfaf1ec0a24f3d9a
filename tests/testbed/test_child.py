import signal
import sys
from pathlib import Path

import pytest

from tests.fakes.waiting import holds
from tests.testbed.child import Child, run
from tests.testbed.errors import TryoutError

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def python(code: str, directory: Path) -> Child:
    return Child([sys.executable, "-c", code], log=directory / "log")


async def test_a_program_that_listens_ends_by_its_signal(tmp_path: Path) -> None:
    assert await python("import time; time.sleep(60)", tmp_path).end() == -signal.SIGTERM


async def test_a_program_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    child = python(DEAF, tmp_path)
    await holds("it ignores the signal", lambda: "deaf" in child.tail(), seconds=30)
    assert await child.end(grace_seconds=0.1) == -signal.SIGKILL


async def test_a_program_that_ended_says_so_with_its_last_words(tmp_path: Path) -> None:
    child = python("raise SystemExit('no such planet')", tmp_path)
    await child.end(number=signal.SIGCONT, grace_seconds=30)
    with pytest.raises(TryoutError, match="ended with status 1\nno such planet"):
        child.require_running()


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TryoutError, match="no-such-program: No such file"):
        Child(["no-such-program"], log=tmp_path / "log")


def test_a_short_program_gives_what_it_prints() -> None:
    assert run(["echo", "hello"], seconds=30) == "hello\n"


def test_a_short_program_that_fails_is_an_error_with_its_words() -> None:
    with pytest.raises(TryoutError, match="exit status 2\nnever"):
        run(["sh", "-c", "echo never >&2; exit 2"], seconds=30)
