"""Shell globs whose cost is bounded: one pass over the pattern, whatever its shape (pure).

``*`` any text, ``?`` any character, ``[a-z]`` one of these, ``[!a-z]`` or ``[^a-z]`` one that is not (POSIX 2.13,
glob(7)). A bracket that is never closed stands for itself. The owners of pods write patterns, so little of them is
cached and nothing backtracks: all places that the pattern can have reached are
followed at once, as the bits of an integer.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

_STAR, _STARS, _ANY = "*", "**", "?"


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
    for token in _parsed(pattern, with_stars=bool(separator)):
        if token == _STARS or (token == _STAR and not separator):
            reached = _onwards(reached, everywhere)
        elif token == _STAR:
            reached = _onwards(reached, inside)
        elif token == _ANY:
            reached = (reached & inside) << 1
        elif len(token) > 1:
            reached = (reached & inside & _of_set(token, places)) << 1
        else:
            reached = (reached & places.get(token, 0)) << 1
        if not reached:
            return False
    return bool(reached >> len(text) & 1)


@lru_cache(maxsize=4)  # one text is held against many patterns in turn
def _places(text: str) -> Mapping[str, int]:
    """Return where each character is in the text, as bits."""
    places = dict.fromkeys(text, 0)
    for i, char in enumerate(text):
        places[char] |= 1 << i
    return MappingProxyType(places)


@lru_cache(maxsize=128)  # the patterns of two lists of expressions
def _parsed(pattern: str, *, with_stars: bool) -> tuple[str, ...]:
    return tuple(_tokens(pattern, with_stars=with_stars))


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


def _onwards(reached: int, passable: int) -> int:
    """Return these places and all that follow them across passable characters: the carry of an addition runs there."""
    return (((reached & passable) + passable) ^ passable) | reached


def _of_set(token: str, places: Mapping[str, int]) -> int:
    """Return where the text has a character of the set ``[...]``; beyond its end the bits are arbitrary."""
    members = token[1:-1]
    is_negated = members[0] in "!^" and len(members) > 1
    singles, ranges = _members(members[1:] if is_negated else members)
    found = 0
    for char in singles:
        found |= places.get(char, 0)
    for low, high in ranges:
        for char, here in places.items():
            if low <= char <= high:
                found |= here
    return ~found if is_negated else found


@lru_cache(maxsize=128)
def _members(members: str) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Return the characters and the ranges that a set names."""
    singles: set[str] = set()
    ranges: set[tuple[str, str]] = set()
    i = 0
    while i < len(members):
        if i + 2 < len(members) and members[i + 1] == "-":
            ranges.add((members[i], members[i + 2]))
            i += 3
        else:
            singles.add(members[i])
            i += 1
    return frozenset(singles), frozenset(ranges)


def _tokens(pattern: str, *, with_stars: bool) -> Iterator[str]:
    """Yield the pattern in parts: ``*``, ``**``, ``?``, a whole set, or one character; ``[*]`` is a plain star."""
    i = 0
    while i < len(pattern):
        char = pattern[i]
        step = 1
        if char == "*":
            while pattern[i + step : i + step + 1] == "*":
                step += 1
            char = _STARS if step > 1 and with_stars else _STAR
        elif char == "[":
            end = _end_of_set(pattern, i)
            step = end - i if end else 1
            char = pattern[i : i + step]
        yield char
        i += step


def _end_of_set(pattern: str, start: int) -> int:
    """Return the place behind the ``]`` of the set that begins here, or 0. A ``]`` at the start is a member."""
    first = start + 1
    if pattern[first : first + 1] in ("!", "^"):
        first += 1
    close = pattern.find("]", first + 1)
    return close + 1 if close >= 0 else 0
