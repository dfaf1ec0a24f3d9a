"""Write samples as Prometheus text for ``GET /metrics``.

Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format", version 0.0.4. The tests hold it
against prometheus-client, which would load an HTTP server and TLS into the daemon (docs/adr/0007-metrics-text.md).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite, isnan
from typing import Final

from cri_proxy.metrics.metric import Metric, Values

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_ESCAPED_VALUE: Final = {**_ESCAPED, ord('"'): r"\""}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's state: ``counts`` per bucket, not cumulative; the last one is above every bound."""

    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one moment; ``labels`` are values in the order of the metric's labels."""

    metric: Metric
    value: float | Distribution
    labels: Values = ()


def exposition(samples: Iterable[Sample]) -> bytes:
    """Return the whole answer: each metric once with its text and type, its series below it in the given order.

    Raises ValueError for a sample with other labels than its row, or with other buckets.
    """
    by_metric: dict[Metric, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    lines: list[str] = []
    for metric, found in by_metric.items():
        lines.append(f"# HELP {metric.name} {metric.text.translate(_ESCAPED)}\n# TYPE {metric.name} {metric.kind}\n")
        lines += (line for sample in found for line in _lines(sample))
    return "".join(lines).encode()


def _lines(sample: Sample) -> Iterator[str]:
    metric, value = sample.metric, sample.value
    named = zip(metric.labels, sample.labels, strict=True)
    pairs = sorted(f'{label.name}="{text.translate(_ESCAPED_VALUE)}"' for label, text in named)
    if not isinstance(value, Distribution):
        yield _line(metric.name, pairs, value)
        return
    bounds = (*map(str, metric.buckets), "+Inf")
    for bound, below in zip(bounds, accumulate(value.counts), strict=True):
        yield _line(f"{metric.name}_bucket", sorted((*pairs, f'le="{bound}"')), below)
    yield _line(f"{metric.name}_count", pairs, sum(value.counts))
    yield _line(f"{metric.name}_sum", pairs, value.total)


def _line(name: str, pairs: list[str], value: float) -> str:
    series = f"{name}{{{','.join(pairs)}}}" if pairs else name
    number = repr(float(value)) if isfinite(value) else "NaN" if isnan(value) else f"{value:+}".replace("inf", "Inf")
    return f"{series} {number}\n"
