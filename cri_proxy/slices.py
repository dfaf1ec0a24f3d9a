"""Split long work for the event loop into slices, between which other tasks run. No I/O."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Every ``yield`` ends a slice; the return value is the result.

The work must read only frozen values, or values copied in the first slice: others may change between two slices.
"""

BUNCH: Final = 25
"""Containers, or items of that size, per slice: about a millisecond."""


def at_once(work: Slices[T]) -> T:
    """Run all slices at once and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def bunches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split the items into bunches of a slice each.

    >>> [len(bunch) for bunch in bunches(range(60))]
    [25, 25, 10]
    """
    return (items[i : i + BUNCH] for i in range(0, len(items), BUNCH))
