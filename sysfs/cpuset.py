"""``CpuSet`` and ``NodeSet``: immutable sets of CPU and NUMA node ids, with the kernel's list format.

The text form is the kernel's *list format* (Documentation/admin-guide/cputopology.rst, "0-3,8"). The parser raises on
garbage: a malformed list must never read as "no CPUs".
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import compress, islice
from operator import is_, not_, or_
from typing import Self, TypeVar

# The kernel's NR_CPUS is 8192 on x86-64 and may be raised. A far larger number in a list is garbage, and each number
# costs a mask of its width: a page of them must be read in milliseconds.
MAX_ID = 1 << 16
# Every second id of them, as text, takes 192 KiB.
MAX_TEXT_CHARACTERS = 1 << 18
_MAX_DIGITS = 20
_SHOWN_CHARACTERS = 60
# Differences of two tuples that are looked for one by one: of more, all others are looked up.
_MOST_SHIFTS = 8
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class CpuSetError(ValueError):
    """A malformed CPU or node list; ``text`` is the input, ``problem`` what is wrong with it."""

    def __init__(self, text: str, problem: str) -> None:
        """Keep the text and the problem apart, so that callers can name the file or option."""
        super().__init__(f"expected a list like '0-3,8', got {shown(text)}: {problem}")
        self.text = text
        self.problem = problem


def shown(text: str) -> str:
    """Return the text for an error: quoted, and cut when long."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...")


def _parse_id(part: str, text: str) -> int:
    if not (part.isascii() and part.isdigit()):
        raise CpuSetError(text, f"{shown(part)} is not a number")
    if len(part) > _MAX_DIGITS:
        raise CpuSetError(text, f"a number of {len(part)} digits is larger than {MAX_ID}")
    value = int(part)
    if value > MAX_ID:
        raise CpuSetError(text, f"{value} is larger than {MAX_ID}")
    return value


@dataclass(frozen=True, slots=True)
class IdSet:
    """A set of ids as one integer of any width: bit n is set when n is a member."""

    mask: int = 0

    @classmethod
    def of(cls, ids: Iterable[int]) -> Self:
        """Return the set of these ids.

        >>> str(CpuSet.of([3, 1, 2]))
        '1-3'
        """
        return cls.of_masks(1 << i for i in ids)

    @classmethod
    def of_masks(cls, masks: Iterable[int]) -> Self:
        """Return the union of these masks.

        >>> str(CpuSet.of_masks([0b1, 0b110]))
        '0-2'
        """
        return cls(reduce(or_, masks, 0))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the kernel's list format; an empty text is the empty set. Raises CpuSetError.

        >>> CpuSet.parse("0-3,8").mask
        271
        """
        if len(text) > MAX_TEXT_CHARACTERS:
            raise CpuSetError(text, f"longer than {MAX_TEXT_CHARACTERS} characters")
        mask = 0
        stripped = text.strip()
        for item in stripped.split(",") if stripped else ():
            first, dash, last = item.strip().partition("-")
            low = _parse_id(first, text)
            high = _parse_id(last, text) if dash else low
            if high < low:
                raise CpuSetError(text, f"range {shown(item.strip())} runs backwards")
            mask |= (1 << (high + 1)) - (1 << low)
        return cls(mask)

    def __str__(self) -> str:
        """Return the kernel's list format, ascending; '' for the empty set."""
        parts = []
        mask, first = self.mask, 0
        while mask:  # by runs, not by ids: a set may be as wide as MAX_ID
            gap = (mask & -mask).bit_length() - 1
            mask, first = mask >> gap, first + gap
            length = (~mask & (mask + 1)).bit_length() - 1
            parts.append(str(first) if length == 1 else f"{first}-{first + length - 1}")
            mask, first = mask >> length, first + length
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        mask = self.mask
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, member: int) -> bool:
        return bool(self.mask >> member & 1)

    def __and__(self, other: Self) -> Self:
        return type(self)(self.mask & other.mask)

    def __or__(self, other: Self) -> Self:
        return type(self)(self.mask | other.mask)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.mask & ~other.mask)

    def __le__(self, other: Self) -> bool:
        return not self.mask & ~other.mask

    def isdisjoint(self, other: Self) -> bool:
        """Return True when no id is in both sets."""
        return not self.mask & other.mask


class CpuSet(IdSet):
    """A set of logical CPUs (hardware threads) by their Linux number."""

    __slots__ = ()


class NodeSet(IdSet):
    """A set of NUMA nodes by their Linux number."""

    __slots__ = ()


def grouped(cpus: Iterable[tuple[_Key, int]]) -> dict[_Key, CpuSet]:
    """Return the CPUs of each key, given pairs of key and CPU.

    >>> grouped([("a", 0), ("b", 1), ("a", 2)])
    {'a': CpuSet('0,2'), 'b': CpuSet('1')}
    """
    masks: dict[_Key, int] = {}
    for key, cpu in cpus:
        masks[key] = masks.get(key, 0) | 1 << cpu
    return {key: CpuSet(mask) for key, mask in masks.items()}


def gathered(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return the values of each key in the order given, the keys in that of their first values.

    >>> gathered([("a", 0), ("b", 1), ("a", 2)])
    {'a': [0, 2], 'b': [1]}
    """
    found: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def changes_between(old: tuple[_Value, ...], new: tuple[_Value, ...]) -> tuple[tuple[_Value, ...], tuple[_Value, ...]]:
    """Return the objects that are in the first of these alone, and those in the second alone.

    Those in both have the same order. A thousand of which few differ are compared in C.

    >>> a, b, c = ["a"], ["b"], ["c"]
    >>> changes_between((a, b, c), (a, c, ["b"]))
    ((['b'],), (['b'],))
    """
    gone, come = list[_Value](), list[_Value]()
    for _ in range(_MOST_SHIFTS):
        same = bytes(map(is_, old, new))
        start = same.find(False)
        while start >= 0 and (end := same.find(True, start)) > 0:  # as many others in the place of some
            _add_apart(old[start:end], new[start:end], gone, come)
            start = same.find(False, end)
        rest = len(same) if start < 0 else start
        old, new = old[rest:], new[rest:]
        if old[:1] and old[0] is next(islice(new, 1, None), None):  # one more, behind which all are shifted
            come.append(new[0])
            new = new[1:]
        elif new[:1] and new[0] is next(islice(old, 1, None), None):
            gone.append(old[0])
            old = old[1:]
        else:
            break
    _add_apart(old, new, gone, come)
    return tuple(gone), tuple(come)


def _add_apart(old: tuple[_Value, ...], new: tuple[_Value, ...], gone: list[_Value], come: list[_Value]) -> None:
    """Add the objects that are in one of these alone."""
    kept = set(map(id, old)).intersection(map(id, new))  # the tuples keep all of them alive
    gone += compress(old, map(not_, map(kept.__contains__, map(id, old))))
    come += compress(new, map(not_, map(kept.__contains__, map(id, new))))
