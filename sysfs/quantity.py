"""Parse Kubernetes quantities (``2Gi``, ``750m``, ``1e3``) to whole bytes or milli-CPUs, rounded up. Pure.

Source: the Kubernetes API reference, "Quantity": a decimal number with a binary suffix (Ki to Ei), a decimal suffix
(n u m, k M G T P E) or a decimal exponent. Results are rounded up, as Kubernetes does.
"""

import re

# Two digits of an exponent: 1e999999999 would be a number of 400 MB.
_FORM = re.compile(r"([+-]?)(\d+|\d*\.\d+|\d+\.)(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?")
# Suffix to multiplier and divisor: whole numbers, so that nothing is rounded before the end.
_FACTORS = (
    {"": (1, 1), "n": (1, 10**9), "u": (1, 10**6), "m": (1, 1000)}
    | {suffix: (1000**power, 1) for power, suffix in enumerate("kMGTPE", 1)}
    | {suffix + "i": (1024**power, 1) for power, suffix in enumerate("KMGTPE", 1)}
)
MAX_LENGTH = 64
BINARY_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


class QuantityError(ValueError):
    """A malformed quantity; ``text`` is the input."""

    def __init__(self, text: str, expected: str) -> None:
        """``expected`` is an example of a valid one."""
        super().__init__(f"expected a quantity like {expected}, got {text[:MAX_LENGTH]!r}")
        self.text = text


def parse_bytes(text: str) -> int:
    """Return whole bytes, rounded up, not negative. Raises QuantityError.

    >>> parse_bytes("2Gi"), parse_bytes("512M")
    (2147483648, 512000000)
    """
    return _parse(text, 1, "2Gi or 512M")


def parse_mcpu(text: str) -> int:
    """Return thousandths of a CPU, rounded up, not negative. Raises QuantityError.

    >>> parse_mcpu("750m"), parse_mcpu("2"), parse_mcpu("0.5")
    (750, 2000, 500)
    """
    return _parse(text, 1000, "750m or 2")


def bytes_text(count: int) -> str:
    """Format a number of bytes in the largest unit that shows it exactly.

    Kubernetes names the resources of huge pages so: ``hugepages-2Mi``.

    >>> bytes_text(100 * 1024**2), bytes_text(1500), bytes_text(64 << 10)
    ('100Mi', '1500', '64Ki')
    """
    for size, unit in BINARY_UNITS:
        if count and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def _parse(text: str, per_unit: int, expected: str) -> int:
    """Return the quantity in units of 1/``per_unit``, rounded up."""
    stripped = text.strip()
    # isascii, as \d takes the digits of every script.
    match = _FORM.fullmatch(stripped) if len(stripped) <= MAX_LENGTH and stripped.isascii() else None
    if match is None:
        raise QuantityError(text, expected)
    sign, number, exponent, suffix = match.groups()
    whole, _, decimals = number.partition(".")
    # Not by fractions, which bring the decimal library: half a megabyte and 5 ms of each start.
    value = int(whole + decimals)
    if sign == "-" and value:
        raise QuantityError(text, expected)
    power = int(exponent or 0)
    times, part = _FACTORS[suffix or ""]
    dividend: int = value * per_unit * times * 10 ** max(power, 0)
    divisor: int = part * 10 ** (len(decimals) + max(-power, 0))
    return -(-dividend // divisor)
