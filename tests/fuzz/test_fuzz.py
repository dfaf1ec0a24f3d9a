"""Every parser, on sound, mangled and random bytes: it answers or refuses as documented, in bounded time.

The same inputs in every run. ``FUZZ_SECONDS=3600 pytest -o timeout=0 tests/fuzz`` goes on with fresh ones for so long
with each parser; ``-k frames`` with one. A find prints the number that makes it again.
"""

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mangle import mangled
from tests.fuzz.targets import TARGETS, Target

EXAMPLES = 25
NUMBERS = range(500)
EACH = pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))


def numbers() -> Iterator[int]:
    """Those of every run, then fresh ones for as long as FUZZ_SECONDS says."""
    yield from NUMBERS
    end = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "0"))
    fresh = time.time_ns()
    while time.monotonic() < end:
        fresh += 1
        yield fresh


def survive(target: Target, data: bytes, name: str) -> None:
    """Run one input; an unexpected exception is given the input's name."""
    start = time.process_time()
    try:
        target.run(data)
    except Exception as error:
        error.add_note(f"{target.name}, {name}: {data[:200]!r}")
        raise
    assert time.process_time() - start < target.seconds, f"{target.name}, {name}: took too long on {data[:200]!r}"


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
