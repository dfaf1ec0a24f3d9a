"""Prometheus' text format, version 0.0.4, written from rows and samples (docs/adr: why not by prometheus-client).

Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cri_proxy.metrics import Metric, Values

_EXACT: Final = 1e15  # below it every whole number is one as a float too
_WORDS: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's state: ``counts`` per bucket, each without those below it, the last above every bound."""

    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one moment; ``labels`` are values in the order of the row's labels."""

    metric: Metric
    value: float | Distribution
    labels: Values = ()


def render(samples: Iterable[Sample]) -> bytes:
    """The whole answer: each metric once with its text and type, its series below it in the order that they came."""
    families: dict[Metric, list[str]] = {}
    for sample in samples:
        lines = families.get(sample.metric)
        if lines is None:
            lines = families[sample.metric] = _head(sample.metric)
        lines += _lines(sample)
    return ("\n".join(line for lines in families.values() for line in lines) + "\n").encode()


def _head(metric: Metric) -> list[str]:
    text = metric.text.replace("\\", r"\\").replace("\n", r"\n")
    return [f"# HELP {metric.name} {text}", f"# TYPE {metric.name} {metric.kind}"]


def _lines(sample: Sample) -> list[str]:
    metric = sample.metric
    pairs = [f'{label.name}="{_escaped(value)}"' for label, value in zip(metric.labels, sample.labels, strict=True)]
    value = sample.value
    if not isinstance(value, Distribution):
        return [f"{metric.name}{_braced(pairs)} {number(value)}"]
    lines, below = [], 0
    for bound, count in zip((*(number(b) for b in metric.buckets), "+Inf"), value.counts, strict=True):
        below += count
        bucket = _braced([*pairs, f'le="{bound}"'])
        lines.append(f"{metric.name}_bucket{bucket} {below}")
    return [
        *lines,
        f"{metric.name}_sum{_braced(pairs)} {number(value.total)}",
        f"{metric.name}_count{_braced(pairs)} {below}",
    ]


def _braced(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escaped(value: str) -> str:
    r"""A label's value between its quotes.

    >>> _escaped('a "b" \\ c')
    'a \\"b\\" \\\\ c'
    """
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number(value: float) -> str:
    """A value as the format wants it; whole numbers without a point.

    >>> number(3.0), number(0.25), number(1e30), number(float("inf"))
    ('3', '0.25', '1e+30', '+Inf')
    """
    if abs(value) < _EXACT and value == int(value):
        return str(int(value))
    return _WORDS.get(repr(float(value)), repr(float(value)))
