"""Match text with shell globs (path-wise with a separator) at a bounded cost: one pass, no backtracking. Pure.

``*`` any text, ``?`` any character, ``[a-z]`` one of these, ``[!a-z]`` or ``[^a-z]`` one that is not (POSIX 2.13,
glob(7)). A bracket that is never closed stands for itself. The owners of pods write patterns, so little of them is
cached; all places that the pattern can have reached are followed at once, as bits of an integer. ``Texts`` follows
them in many texts at once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from types import MappingProxyType

# Stars, a whole set, or one character. A ``]`` at the start of a set is a member; ``[*]`` is a plain star.
_TOKEN = re.compile(r"\*+|\[[!^]?+.[^\]]*+\]|.", re.DOTALL)
_MEMBER = re.compile("(.)-(.)|(.)", re.DOTALL)  # of a set: a range, or one character


def is_like(text: str, pattern: str, separator: str = "") -> bool:
    """Return whether the whole text matches. With a separator ``*``, ``?`` and sets stop at it, and ``**`` does not.

    >>> is_like("nginx-1", "ng*-[0-9]"), is_like("/dev/dri/card0", "/dev/*", "/")
    (True, False)
    """
    if not separator and "?" not in pattern and "[" not in pattern:
        return _has_parts(text, pattern.split("*"))
    places = _places(text)
    everywhere = (1 << len(text)) - 1
    inside = everywhere & ~places.get(separator, 0)
    reached = _reached(pattern, 1, inside, everywhere, lambda token: _of_token(token, places))
    return bool(reached >> len(text))  # no bit is higher


class Texts:
    """Several texts that patterns are matched with at once, in one pass for each pattern.

    >>> bin(Texts(["nginx-1", "redis", "nginx-2"]).matching("ng*-[0-9]"))
    '0b101'
    """

    def __init__(self, texts: Sequence[str]) -> None:
        # After each text there is one place that no pattern passes.
        self._chars = "".join([f"{text}\0" for text in texts])
        self._inside = _as_bits("".join(["1" * len(text) + "0" for text in texts]))
        every = (1 << len(self._chars)) - 1
        self._starts = ((every ^ self._inside) << 1 | 1) & every  # a text starts where another one has ended
        ends = accumulate(len(text) + 1 for text in texts)
        self._ends = itemgetter(*(len(self._chars) - end for end in reversed(list(ends)))) if texts else None
        self._found: dict[str, int] = {}  # where the characters of a token are

    def matching(self, pattern: str) -> int:
        """Return the texts that match as a whole: bit i for the i-th."""
        if self._ends is None:
            return 0
        reached = _reached(pattern, self._starts, self._inside, self._inside, self._places_of)
        return int("".join(self._ends(f"{reached:0{len(self._chars)}b}")), 2)

    def _places_of(self, token: str) -> int:
        found = self._found.get(token)
        if found is None:
            found = self._found[token] = _as_bits(self._chars.translate(_Ones(token)))
        return found


class _Ones(dict[int, str]):
    """A table for ``str.translate``: 1 for the characters that a token matches, else 0; each is looked at once."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __missing__(self, code: int) -> str:
        digit = self[code] = str(_of_token(self._token, {chr(code): 1}) & 1)
        return digit


def _as_bits(digits: str) -> int:
    """Return the integer whose bit i is the i-th digit, 0 or 1."""
    return int(digits[::-1] or "0", 2)


def _reached(pattern: str, start: int, inside: int, everywhere: int, places_of: Callable[[str], int]) -> int:
    """Return the places to which the pattern leads from the start; bit i is the place before the i-th character.

    ``inside`` are the characters that ``*``, ``?`` and sets pass, ``everywhere`` those that ``**`` does.
    """
    reached = start
    for token in _tokens(pattern):
        if token[0] == "*":
            passable = inside if token == "*" else everywhere
            # All places that follow a reached one across passable characters: the carry of an addition runs there.
            reached |= ((reached & passable) + passable) ^ passable
        elif token == "?":
            reached = (reached & inside) << 1
        else:
            passable = inside if len(token) > 1 else everywhere
            reached = (reached & passable & places_of(token)) << 1
        if not reached:
            break
    return reached


@lru_cache(maxsize=4)  # one text is compared with many patterns in turn
def _places(text: str) -> Mapping[str, int]:
    """Return where each character is in the text, as bits."""
    places = dict.fromkeys(text, 0)
    for i, char in enumerate(text):
        places[char] |= 1 << i
    return MappingProxyType(places)


@lru_cache(maxsize=128)  # the patterns of two lists of expressions
def _tokens(pattern: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(pattern))


def _has_parts(text: str, parts: list[str]) -> bool:
    """Return whether the text is these parts in this order with anything between them: what most patterns ask."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    here, end = len(first), len(text) - len(last)
    for part in middle:
        here = text.find(part, here, end)
        if here < 0:
            return False
        here += len(part)
    return True


def _of_token(token: str, places: Mapping[str, int]) -> int:
    """Return where the text has the character, or one of the set ``[...]``; beyond its end the bits are arbitrary."""
    if len(token) == 1:
        return places.get(token, 0)
    members = token[1:-1]
    is_negated = members[0] in "!^"  # a set has a member after it, see _TOKEN
    found = 0
    for low, high in _ranges(members[is_negated:]):
        if low == high:
            found |= places.get(low, 0)
            continue
        for char, here in places.items():
            if low <= char <= high:
                found |= here
    return ~found if is_negated else found


@lru_cache(maxsize=128)
def _ranges(members: str) -> frozenset[tuple[str, str]]:
    """Return the first and last character of each range in a set; a single character is a range too."""
    return frozenset((low or single, high or single) for low, high, single in _MEMBER.findall(members))
