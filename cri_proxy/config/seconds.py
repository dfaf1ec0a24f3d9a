"""Periods in the configuration."""

import re

LONGEST_PERIOD_SECONDS = 86_400.0
SHORTEST_PERIOD_SECONDS = 1.0

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)


def optional_period_seconds(text: str) -> float:
    """Every how many seconds something is done, 0 for never. Raises ValueError.

    >>> optional_period_seconds("0"), optional_period_seconds("2.5")
    (0.0, 2.5)
    """
    seconds = float(text) if _NUMBER.fullmatch(text.strip()) else -1.0
    if seconds and not SHORTEST_PERIOD_SECONDS <= seconds <= LONGEST_PERIOD_SECONDS:
        raise ValueError(f"expected 0 (never), or seconds from 1 to {LONGEST_PERIOD_SECONDS:.0f}, got {text!r}")
    return seconds
