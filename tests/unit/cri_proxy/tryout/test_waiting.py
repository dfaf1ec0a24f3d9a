"""Waiting with a bound."""

import asyncio
from collections.abc import Iterator

import pytest

from cri_proxy.tryout.errors import TryoutError
from cri_proxy.tryout.waiting import until


async def next_of(answers: Iterator[int | None]) -> int | None:
    """One answer after the other."""
    return next(answers)


def test_the_first_answer_that_is_one_is_given_even_when_it_is_zero() -> None:
    answers = iter([None, 0, 7])
    assert asyncio.run(until("a number", lambda: next_of(answers), seconds=5)) == 0


def test_a_claim_that_never_holds_is_an_error_that_names_it() -> None:
    with pytest.raises(TryoutError, match="the moon is green: not so after 0"):
        asyncio.run(until("the moon is green", lambda: next_of(iter([None])), seconds=0))
