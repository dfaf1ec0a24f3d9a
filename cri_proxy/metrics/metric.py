"""``Metric`` and ``Label``: the values of a row of the catalog, and short constructors of rows."""

from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]
Values = tuple[str, ...]

OTHER: Final = "other"
"""The label value that replaces every value outside a closed set."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label: ``values`` are all possible values; where the machine decides, ``bound`` is what limits them."""

    name: str
    values: Values = ()
    bound: str = ""


@dataclass(frozen=True, slots=True, eq=False)  # a row is itself: as a key it costs no comparison of its text
class Metric:
    """One row. ``buckets`` are a histogram's upper bounds; ``zeros`` are label values that are shown from the start.

    A counter that appears with its first event hides that event from ``increase()``, so every series that an alert
    uses starts at zero.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    zeros: tuple[Values, ...] = ()


def counter(name: str, text: str, *labels: Label, zeros: tuple[Values, ...] | None = None) -> Metric:
    """Return a row of a counter; ``zeros`` None: every combination of label values starts at zero."""
    return Metric(name, "counter", text, labels, zeros=_every(labels) if zeros is None else zeros)


def gauge(name: str, text: str, *labels: Label) -> Metric:
    """Return a row of a gauge."""
    return Metric(name, "gauge", text, labels)


def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: Label) -> Metric:
    """Return a row of a histogram with these upper bounds of its buckets."""
    return Metric(name, "histogram", text, labels, buckets, _every(labels))


def _every(labels: tuple[Label, ...]) -> tuple[Values, ...]:
    """Return all possible label values; () if the machine determines them."""
    return tuple(product(*(label.values for label in labels)))
