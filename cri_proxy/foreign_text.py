"""Cut and clean text that others wrote: the runtime's refusals, annotations, a command's output, names of processes.

``admit`` is the gate before such text is recorded: in decisions, their history, failures. ``visible`` is for what is
kept as it came (names, words of a command): everything that prints for people escapes it, whatever it is.
"""

import json
import re
from collections.abc import Callable
from string import hexdigits
from typing import Final

# Refusals of containerd and runc have a few hundred bytes; 256 pods that fail are remembered, each with several.
WORDS_BYTES: Final = 2048
# A sentence around such words, in the log and in a history: it must not be cut a second time.
SENTENCE_BYTES: Final = 2 * WORDS_BYTES

_NOTE_BYTES: Final = 48  # room for the note of how much was cut
_SUSPECT: Final = re.compile(r"[^ -~]+")
_HEX: Final = re.compile(r"[0-9A-Fa-f]+")
_NOTE_START: Final = "... ("
_NOTE_END: Final = " more bytes were cut)"
_LONG_HEX: Final = 8  # words such as "added" and "face" are hexadecimal digits, too


def admit(text: str, most_bytes: int = WORDS_BYTES, *, goes_on: bool = False) -> str:
    r"""Return foreign text as it may be recorded: visible, and of at most this many bytes of UTF-8.

    What is longer ends in a note of how much was cut. Admitted twice, it stays the same. ``goes_on``: this is only
    the beginning of it, and the length of the rest is not known.

    >>> admit("runc: \x1b[2Jno\n"), admit("x" * 400_000, 60)
    ('runc: \\x1b[2Jno\\n', 'xxxxxxxxxxxx... (399988 more bytes were cut)')
    """
    return _fitting(text, most_bytes, visible, goes_on=goes_on)


def shorten(text: str) -> str:
    """Return text of at most ``SENTENCE_BYTES``, as ``admit`` does, but with its characters as they are."""
    return _fitting(text, SENTENCE_BYTES, str)


def visible(text: str) -> str:
    r"""Return the text with an escape for every character that does not print, line ends included.

    Those are, as for ``repr``, control characters (C0, C1, DEL), format characters (bidirectional marks, joiners,
    zero widths), lone surrogates, line and paragraph separators, spaces other than the plain one, and code points
    without a character.

    >>> visible("\x1b[31mdone\u202e\r\n café")
    '\\x1b[31mdone\\u202e\\r\\n café'
    """
    return _escaped(text, _as_python)


def visible_lines(text: str) -> str:
    """Return the text as ``visible`` does, except that its line ends stay."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    r"""Return a JSON document in which every character of a string that does not print is escaped as JSON does.

    >>> visible_json('{"reason": "\u202e"}')
    '{"reason": "\\u202e"}'
    """
    # Outside of strings JSON consists of ASCII, and of line ends if it is indented.
    return "\n".join(_escaped(line, _as_json) for line in text.split("\n"))


def without_ids(text: str) -> str:
    """Return the text with ``#`` for each number and each id, to compare failures that repeat.

    >>> without_ids('container "4f6a00d1" of pod 7d9f-b6c5: exit status 137, added no device')
    'container "#" of pod #-#: exit status #, added no device'
    """
    return _HEX.sub(_without_id, text)


def is_same_failure(one: str, other: str) -> bool:
    """Return whether two messages, as ``admit`` leaves them, say the same apart from ids and numbers.

    >>> is_same_failure("task 4f6a00d1: exit status 1", "task 77aa: exit status 127")
    True
    """
    if one == other:
        return True
    (ones, is_one_cut), (others, is_other_cut) = _comparable(one), _comparable(other)
    # A longer id moves the cut.
    return ones == others or (is_one_cut and others.startswith(ones)) or (is_other_cut and ones.startswith(others))


def _comparable(text: str) -> tuple[str, bool]:
    """Return the text without ids, up to where it was cut, and whether it was."""
    start = text.rfind(_NOTE_START) if text.endswith(_NOTE_END) else -1
    if start < 0:
        return without_ids(text), False
    return without_ids(text[:start].rstrip(hexdigits)), True  # it may end in a part of an id


def _without_id(found: re.Match[str]) -> str:
    digits = found[0]
    return digits if digits.isalpha() and len(digits) < _LONG_HEX else "#"


def _fitting(text: str, most_bytes: int, shown: Callable[[str], str], *, goes_on: bool = False) -> str:
    """Return the text as ``shown``, cut where that has more bytes than this."""
    if len(text) <= most_bytes and not goes_on:  # every character takes at least one
        whole = shown(text)
        if _size(whole) <= most_bytes:
            return whole
    kept = _kept(text, most_bytes - _NOTE_BYTES, shown)
    least = "at least " if goes_on else ""
    return f"{shown(text[:kept])}{_NOTE_START}{least}{_size(text[kept:])}{_NOTE_END}"


def _kept(text: str, most_bytes: int, shown: Callable[[str], str]) -> int:
    """Return how many characters fit into this many bytes."""
    head = text[:most_bytes]
    if head.isascii() and head.isprintable():
        return len(head)
    size = 0
    for i, character in enumerate(head):
        size += _size(shown(character))
        if size > most_bytes:
            return i
    return len(head)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text

    def replaced(found: re.Match[str]) -> str:
        piece = found[0]
        if piece.isprintable():
            return piece
        return "".join(c if c.isprintable() else escape(c) for c in piece)

    return _SUSPECT.sub(replaced, text)


def _as_python(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _as_json(character: str) -> str:
    return json.dumps(character)[1:-1]
