"""Every parser, on sound, mangled, random and growing bytes: it answers or refuses as documented, within its budget.

The same inputs in every run. ``FUZZ_SECONDS=3600 pytest -o timeout=0 tests/fuzz`` goes on with fresh ones for so long
with each parser; ``-k frames`` with one. A find prints the number that makes it again.
"""

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.budget import ATTEMPTS, memory_of, rounds_of
from tests.fuzz.mangle import TOKENS, mangled
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

EXAMPLES = 25
NUMBERS = range(500)
REMEMBERED = range(100)  # whose memory is measured as well
SHORT_BYTES = 8192  # of the shortest of three inputs, each twice as long as the one before
NOTICED_ROUNDS = 100_000  # some milliseconds: what takes less in the longest one is not looked into
GROWTH = 3.0  # of the time where the input doubles: 2 is linear, 4 a square; both doublings, as bounds make steps
EACH = pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))


def numbers() -> Iterator[int]:
    """Those of every run, then fresh ones for as long as FUZZ_SECONDS says."""
    yield from NUMBERS
    end = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "0"))
    fresh = time.time_ns()
    while time.monotonic() < end:
        fresh += 1
        yield fresh


def survive(target: Target, data: bytes, name: str) -> float:
    """Run one input within its budget of rounds, and return these; an unexpected exception is given its name."""
    most = target.budget.rounds_for(data)
    try:
        rounds = rounds_of(target.run, data, enough=most)
    except Exception as error:
        error.add_note(f"{target.name}, {name}: {data[:200]!r}")
        raise
    assert rounds < most, f"{target.name}, {name}: {rounds:.0f} rounds, at most {most}, on {data[:200]!r}"
    return rounds


@EACH
def test_sound_input_is_taken_or_refused(target: Target) -> None:
    for at, seed in enumerate(target.seeds):
        survive(target, seed, f"seed {at}")


@EACH
def test_mangled_input_is_taken_or_refused(target: Target) -> None:
    for number in numbers():
        survive(target, mangled(target.seeds, number), f"mangled {number}")


@EACH
def test_random_input_is_taken_or_refused(target: Target) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=200))
    def check(data: bytes) -> None:
        survive(target, data, "random")

    check()


@EACH
def test_memory_is_bounded_by_the_length_of_the_input(target: Target) -> None:
    inputs = [*target.seeds, *(mangled(target.seeds, number) for number in REMEMBERED)]
    for data in inputs:
        most = target.budget.memory_for(data)
        assert memory_of(target.run, data, enough=most) < most, f"{target.name}: beyond {most} bytes on {data[:200]!r}"


def growing(target: Target) -> Iterator[tuple[bytes, bytes]]:
    """What an input begins with, and what it repeats after that."""
    heads = {b"", *(seed[: len(seed) // 2] for seed in target.seeds[:2])}
    parts = {*TOKENS, *target.grown, *(bytes([char]) for char in b"a0 ,:-[{\"'\n")}
    parts |= {seed[at : at + 24] for seed in target.seeds[:2] for at in range(0, min(len(seed), 96), 24)}
    yield from ((head, part) for head in sorted(heads) for part in sorted(parts - {b""}))


@EACH
def test_time_grows_no_faster_than_the_input(target: Target) -> None:
    check_growth(target)


def test_a_parser_that_takes_the_square_of_the_length_is_found() -> None:
    def square(data: bytes) -> None:
        assert all(sum(data[at:]) >= 0 for at in range(0, len(data), 64))

    with pytest.raises(AssertionError, match=r"^square"):
        check_growth(Target("square", square, (b"seed",)))


def check_growth(target: Target) -> None:
    for head, part in growing(target):
        short, middle, long = (head + part * (size // len(part)) for size in map(SHORT_BYTES.__mul__, (1, 2, 4)))
        third = survive(target, long, f"grown {part!r}")
        if third < NOTICED_ROUNDS:
            continue
        first = second = float("inf")
        for _ in range(ATTEMPTS):
            # Each twice: a short one that a busy machine makes longer would hide a square.
            first = min(first, rounds_of(target.run, short, attempts=2))
            second = min(second, rounds_of(target.run, middle, attempts=2))
            if grows_slowly(first, second, third):
                break
            third = min(third, rounds_of(target.run, long))
        assert grows_slowly(first, second, third), (
            f"{target.name}, {part!r} after {head!r}: {first:.0f}, {second:.0f}, {third:.0f}"
        )


def grows_slowly(first: float, second: float, third: float) -> bool:
    """Whether these times of an input, of one twice and of one four times as long are not those of a square."""
    is_step = first < third / 32  # a square would be a sixteenth: the short one was refused, or the long one not
    return is_step or min(second / first, third / second) < GROWTH
