"""``Steps``, long work as a generator that its caller may pause at each ``yield``; run it at once, bunch its items."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Every ``yield`` ends a step; the return value is the result.

The work must read only frozen values, or values copied in the first step: others may change between two steps.
"""

BUNCH: Final = 25
"""Containers, or items of that size, per step: about a millisecond."""


def at_once(work: Steps[T]) -> T:
    """Run all steps at once and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def bunches(items: Sequence[T], most: int = BUNCH) -> Iterator[Sequence[T]]:
    """Split the items into bunches of a step each, of ``most`` items.

    >>> [len(bunch) for bunch in bunches(range(60))]
    [25, 25, 10]
    """
    return (items[i : i + most] for i in range(0, len(items), most))
