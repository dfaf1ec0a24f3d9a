"""Work that is long for the event loop, done slice by slice: between two slices the loop belongs to others. No I/O."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Every ``yield`` is the end of a slice; what is returned is the result.

What is looked at must not change between two slices: the work begins with taking hold of values that are frozen.
"""

BUNCH: Final = 25
"""Containers, and what is as large, that are gone through in one slice: about a millisecond."""


def at_once(work: Slices[T]) -> T:
    """The result, all slices done in one go."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def bunches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, a slice's worth at a time.

    >>> [len(bunch) for bunch in bunches(range(60))]
    [25, 25, 10]
    """
    return (items[i : i + BUNCH] for i in range(0, len(items), BUNCH))
