"""Find the known word that an unknown one was probably meant to be: "did you mean ...?"."""

from collections.abc import Iterable


def similar(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the known word that is most like this one; '' where the likeness of none is ``least`` (0 to 1) or more.

    >>> similar("pinCPUs", ("pinCPU", "pinMemory"))
    'pinCPU'
    """
    from difflib import get_close_matches  # 0.3 MB of the daemon and its helpers, needed only after a mistake

    return next(iter(get_close_matches(word, list(known), 1, least)), "")
