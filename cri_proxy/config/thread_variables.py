"""Names of the option ``threadCounts.variables``: defaults, bound and parser. Pure.

Apart from what sets the variables, which needs the messages of the CRI: helper processes load the options only.
"""

import re
from typing import Final

VARIABLES: Final = (
    *("GOMAXPROCS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS", "JULIA_NUM_THREADS"),
)
MAX_VARIABLES: Final = 32  # each is looked up and written at every create
# A name as POSIX has it (XBD 8.1), in either case; far longer than any that is read.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
# What the dynamic loader and shells read: a number there breaks every program of a container.
_LOADED: Final = ("LD_", "PATH", "IFS", "ENV", "BASH_ENV")


def variable_name(text: str) -> str:
    """Return the name of a variable that may be set to a number. Raises ValueError.

    >>> variable_name("GOMAXPROCS")
    'GOMAXPROCS'
    """
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"expected the name of an environment variable, letters, digits and _, at most 64, got {text!r:.80}"
        )
    if text.startswith(_LOADED[0]) or text in _LOADED:
        raise ValueError(f"expected the name of an environment variable for a number of threads, got {text}")
    return text
