"""Match text with shell globs (path-wise with a separator) at a bounded cost: one pass, no backtracking. Pure.

``*`` any text, ``?`` any character, ``[a-z]`` one of these, ``[!a-z]`` or ``[^a-z]`` one that is not (POSIX 2.13,
glob(7)). A bracket that is never closed stands for itself. The owners of pods write patterns, so little of them is
cached; all places that the pattern can have reached are followed at once, as bits of an integer.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter

# Stars, a whole set, or one character. A ``]`` at the start of a set is a member; ``[*]`` is a plain star.
_TOKEN = re.compile(r"\*+|\[[!^]?+.[^\]]*+\]|.", re.DOTALL)
_MEMBER = re.compile("(.)-(.)|(.)", re.DOTALL)  # of a set: a range, or one character


def is_like(text: str, pattern: str, separator: str = "") -> bool:
    """Return whether the whole text matches. With a separator ``*``, ``?`` and sets stop at it, and ``**`` does not.

    >>> is_like("nginx-1", "ng*-[0-9]"), is_like("/dev/dri/card0", "/dev/*", "/")
    (True, False)
    """
    return bool(_alone(text, separator).matching(pattern))


@lru_cache(maxsize=4)  # one text is compared with many patterns in turn
def _alone(text: str, separator: str) -> "Texts":
    return Texts((text,), separator)


class Texts:
    """Several texts that patterns are matched with at once, in one pass for each pattern.

    >>> bin(Texts(["nginx-1", "redis", "nginx-2"]).matching("ng*-[0-9]"))
    '0b101'
    """

    def __init__(self, texts: Sequence[str], separator: str = "") -> None:
        """``separator`` is a character, or '' for none."""
        # After each text there is one place that no pattern passes.
        self._chars = "".join([f"{text}\0" for text in texts])
        self._everywhere = _as_bits("".join(["1" * len(text) + "0" for text in texts]))
        every = (1 << len(self._chars)) - 1
        self._starts = ((every ^ self._everywhere) << 1 | 1) & every  # a text starts where another one has ended
        ends = accumulate(len(text) + 1 for text in texts)
        self._ends = itemgetter(*(len(self._chars) - end for end in reversed(list(ends)))) if texts else None
        self._found: dict[str, int] = {}  # where the characters of a token are
        self._inside = self._everywhere & ~(self._places_of(separator) if separator else 0)

    def matching(self, pattern: str) -> int:
        """Return the texts that match as a whole: bit i for the i-th."""
        if self._ends is None:
            return 0
        return int("".join(self._ends(f"{self._reached(pattern):0{len(self._chars)}b}")), 2)

    def _reached(self, pattern: str) -> int:
        """Return the places to which the pattern leads from the starts; bit i is the place before the i-th character.

        ``*``, ``?`` and sets pass what is inside of separators, ``**`` passes everything.
        """
        reached = self._starts
        for token in _tokens(pattern):
            if token[0] == "*":
                passable = self._inside if token == "*" else self._everywhere
                # All places that follow a reached one across passable characters: the carry of an addition runs there.
                reached |= ((reached & passable) + passable) ^ passable
            elif token == "?":
                reached = (reached & self._inside) << 1
            else:
                passable = self._inside if len(token) > 1 else self._everywhere
                reached = (reached & passable & self._places_of(token)) << 1
            if not reached:
                break
        return reached

    def _places_of(self, token: str) -> int:
        found = self._found.get(token)
        if found is None:
            found = self._found[token] = _as_bits(self._chars.translate(_Ones(token)))
        return found


class _Ones(dict[int, str]):
    """A table for ``str.translate``: 1 for the characters that a set, or a character, matches, else 0."""

    def __init__(self, token: str) -> None:
        is_set = len(token) > 1
        self._is_negated = is_set and token[1] in "!^"  # a member follows, see _TOKEN
        members = _MEMBER.findall(token[1 + self._is_negated : -1]) if is_set else [("", "", token)]
        self._ranges = [(low or single, high or single) for low, high, single in members]

    def __missing__(self, code: int) -> str:
        is_member = any(low <= chr(code) <= high for low, high in self._ranges)
        digit = self[code] = "01"[is_member != self._is_negated]
        return digit


def _as_bits(digits: str) -> int:
    """Return the integer whose bit i is the i-th digit, 0 or 1."""
    return int(digits[::-1] or "0", 2)


@lru_cache(maxsize=128)  # the patterns of two lists of expressions
def _tokens(pattern: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(pattern))
