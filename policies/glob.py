"""Match text with shell globs (path-wise with a separator) at a bounded cost: one pass, no backtracking. Pure.

``*`` any text, ``?`` any character, ``[a-z]`` one of these, ``[!a-z]`` or ``[^a-z]`` one that is not (POSIX 2.13,
glob(7)). A bracket that is never closed stands for itself. The owners of pods write patterns, so little of them is
cached; all places that the pattern can have reached are followed at once, as bits of an integer.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
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
    reached = 1  # bit i: the pattern so far can stand for the first i characters
    for token in _tokens(pattern):
        if token[0] == "*":
            passable = inside if token == "*" else everywhere
            # All places that follow a reached one across passable characters: the carry of an addition runs there.
            reached |= ((reached & passable) + passable) ^ passable
        elif token == "?":
            reached = (reached & inside) << 1
        elif len(token) > 1:
            reached = (reached & inside & _of_set(token, places)) << 1
        else:
            reached = (reached & places.get(token, 0)) << 1
        if not reached:
            return False
    return bool(reached >> len(text))  # no bit is higher


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


def _of_set(token: str, places: Mapping[str, int]) -> int:
    """Return where the text has a character of the set ``[...]``; beyond its end the bits are arbitrary."""
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
