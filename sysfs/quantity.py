"""Kubernetes quantities (``2Gi``, ``750m``, ``1e3``) as whole bytes and milli-CPUs (pure).

Source: the Kubernetes API reference, "Quantity": a decimal number with a binary suffix (Ki to Ei), a decimal suffix
(n u m, k M G T P E) or a decimal exponent. Results are rounded up, as Kubernetes does.
"""

import re
from fractions import Fraction
from math import ceil

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?")
_FACTORS = (
    {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
    | {suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)}
    | {suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)}
)
MAX_LENGTH = 64


class QuantityError(ValueError):
    """A quantity that cannot be read: ``text`` is what was given."""

    def __init__(self, text: str, expected: str) -> None:
        """``expected`` names a good example."""
        super().__init__(f"expected a quantity like {expected}, got {text[:MAX_LENGTH]!r}")
        self.text = text


def parse_quantity(text: str, expected: str = "2Gi or 500m") -> Fraction:
    """The exact value. Raises QuantityError.

    >>> parse_quantity("1.5k")
    Fraction(1500, 1)
    """
    stripped = text.strip()
    match = _FORM.fullmatch(stripped) if len(stripped) <= MAX_LENGTH and stripped.isascii() else None
    if match is None:
        raise QuantityError(text, expected)
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _FACTORS[suffix or ""]
    return Fraction(number) * scale


def parse_bytes(text: str) -> int:
    """Whole bytes, rounded up, not negative. Raises QuantityError.

    >>> parse_bytes("2Gi"), parse_bytes("512M")
    (2147483648, 512000000)
    """
    value = parse_quantity(text, "2Gi or 512M")
    if value < 0:
        raise QuantityError(text, "2Gi or 512M")
    return ceil(value)


def parse_mcpu(text: str) -> int:
    """Thousandths of a CPU, rounded up, not negative. Raises QuantityError.

    >>> parse_mcpu("750m"), parse_mcpu("2"), parse_mcpu("0.5")
    (750, 2000, 500)
    """
    value = parse_quantity(text, "750m or 2")
    if value < 0:
        raise QuantityError(text, "750m or 2")
    return ceil(value * 1000)
