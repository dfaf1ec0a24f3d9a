"""Suggest the known word that an unknown one was probably meant to be: "did you mean ...?". Pure."""

from collections.abc import Iterable
from typing import Final

_SHOWN_CHARACTERS: Final = 40

TYPING_ERROR: Final = 0.85
"""The likeness of words that differ by a slip: the names of other things are less alike than this."""


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None, least: float = 0.6) -> str:
    """Return the question after the most similar word, else ``otherwise``, by default all known words.

    >>> did_you_mean("pinCPUs", ("pinCPU", "pinMemory")), did_you_mean("x", ("pinCPU", "pinMemory"))
    ('did you mean pinCPU?', 'known: pinCPU, pinMemory')
    """
    words = tuple(known)
    if near := similar(word, words, least):
        return question(near)
    return f"known: {', '.join(words)}" if otherwise is None else otherwise


def none_of(word: str, known: Iterable[str]) -> str:
    """Return the problem with a word that is none of the known ones, and which of them was probably meant.

    >>> none_of("PCI", ("PCIe", "NUMANode"))
    "expected one of PCIe, NUMANode, got 'PCI'; did you mean PCIe?"
    """
    words = tuple(known)
    problem = f"expected one of {', '.join(words)}, got {short_repr(word)}"
    return "; ".join(filter(None, (problem, did_you_mean(word, words, ""))))


def short_repr(text: str) -> str:
    """Return a text in quotes for an error, cut where it is long.

    >>> short_repr("many"), short_repr("9" * 4300)
    ("'many'", "'999999999999999999999999999999999999999…'")
    """
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")


def question(near: str) -> str:
    """Return the question after a word.

    >>> question("pinCPU")
    'did you mean pinCPU?'
    """
    return f"did you mean {near}?"


def similar(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the known word that is most like this one; '' where the likeness of none is ``least`` (0 to 1) or more.

    >>> similar("pinCPUs", ("pinCPU", "pinMemory"))
    'pinCPU'
    """
    from difflib import get_close_matches  # 0.3 MB of the daemon and its helpers, needed only after a mistake

    return next(iter(get_close_matches(word, list(known), 1, least)), "")
