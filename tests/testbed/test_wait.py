import asyncio
from collections.abc import Iterator

import pytest

from tests.testbed.errors import TryoutError
from tests.testbed.wait import finish, until


async def next_of(answers: Iterator[int | None]) -> int | None:
    return next(answers)


async def test_the_first_answer_that_is_one_is_given_even_when_it_is_zero() -> None:
    answers = iter([None, 0, 7])
    assert await until("a number", lambda: next_of(answers), seconds=5) == 0


async def test_a_claim_that_never_holds_is_an_error_that_names_it() -> None:
    with pytest.raises(TryoutError, match="the moon is green: not so after 0"):
        await until("the moon is green", lambda: next_of(iter([None])), seconds=0)


async def test_cleaning_up_ends_although_we_are_cancelled_and_the_cancellation_is_not_lost() -> None:
    done: list[str] = []

    async def clean_up() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done.append("clean")

    async def story() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await finish(clean_up())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.gather(story())
    assert done == ["clean"]


async def test_what_cleaning_up_raises_is_raised() -> None:
    async def clean_up() -> None:
        raise TryoutError("mount", "stays")

    with pytest.raises(TryoutError, match="mount: stays"):
        await finish(clean_up())
