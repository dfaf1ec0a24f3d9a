"""A whole try-out on the embedded runtime, from the first pod to an empty directory."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tryout.session import EMBEDDED, Plan, hold_session, log_tail


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory of a short name: the path of a socket in it has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="cri-proxy-", dir="/tmp") as name:
        yield Path(name)


async def test_every_container_is_told_and_confirmed_and_nothing_is_left(scratch: Path) -> None:
    said: list[str] = []
    confirmed = await hold_session(Plan(EMBEDDED, scratch=scratch), say=said.append)
    text = "\n".join(said)
    assert confirmed, text
    assert "default/database/engine" in text
    assert "confirmed by the model." in text
    assert " demo" not in text  # it has seen what the demo shows
    assert list(scratch.iterdir()) == []


async def test_an_interrupted_session_leaves_nothing(scratch: Path) -> None:
    """It is interrupted by whoever listens to its first words."""

    async def story() -> None:
        session = asyncio.current_task()
        assert session is not None
        plan = Plan(EMBEDDED, keeps_serving=True, scratch=scratch)
        await hold_session(plan, say=lambda _: void(session.cancel()))

    with pytest.raises(asyncio.CancelledError):
        await asyncio.gather(story())
    assert list(scratch.iterdir()) == []


def test_the_last_words_are_the_end_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntwo\nthree\n")
    assert log_tail(tmp_path / "log", lines=2) == "two\nthree"
    assert log_tail(tmp_path / "none") == ""


def void(_: object) -> None:
    """Drops a value that a callback must not give."""
