"""Write samples as Prometheus text for ``GET /metrics``: prometheus-client's lines are kept, numbers filled in.

Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format", version 0.0.4.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cri_proxy.metrics.metric import Metric, Values

if TYPE_CHECKING:  # loading it takes 7 MB and 30 ms, which a daemon without scrapes saves
    from prometheus_client.metrics_core import Metric as Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


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


class Exposition:
    """Writes an answer per scrape, and keeps the text of the last one without its numbers.

    From one scrape to the next the numbers change and the series hardly ever do. The library writes a metric again
    only if its series have changed.
    """

    def __init__(self) -> None:
        """Start without a text."""
        self._forms: dict[Metric, _Form] = {}

    def render(self, samples: Iterable[Sample]) -> bytes:
        """Return the whole answer: each metric once with its text and type, its series below it in the given order.

        Raises ValueError for a sample with other labels than its row, or with other buckets.
        """
        from prometheus_client.utils import floatToGoString

        by_metric: dict[Metric, list[Sample]] = {}
        for sample in samples:
            by_metric.setdefault(sample.metric, []).append(sample)
        self._forms = {metric: self._form(metric, found) for metric, found in by_metric.items()}
        parts: list[str] = []
        for metric, form in self._forms.items():
            parts.append(form.head)
            numbers = [number for sample in by_metric[metric] for number in _numbers(sample)]
            for series, number in zip(form.series, numbers, strict=True):
                parts += (series, floatToGoString(number), "\n")  # type: ignore[no-untyped-call]
        return "".join(parts).encode()

    def _form(self, metric: Metric, samples: Sequence[Sample]) -> "_Form":
        known, labels = self._forms.get(metric), tuple([sample.labels for sample in samples])
        return known if known is not None and known.labels == labels else _written(metric, labels)


@dataclass(frozen=True, slots=True)
class _Form:
    """The library's text of a metric with series of these ``labels``; the lines of ``series`` lack their numbers."""

    labels: tuple[Values, ...]
    head: str
    series: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """A registry for ``generate_latest``."""

    families: tuple["Family", ...]

    def collect(self) -> Iterator["Family"]:
        yield from self.families


def _numbers(sample: Sample) -> tuple[float, ...]:
    """Return the numbers of a sample's lines: for a histogram the cumulative buckets, the count and the sum."""
    value = sample.value
    if not isinstance(value, Distribution):
        return (value,)
    below, buckets = 0, []
    for count in value.counts:
        below += count
        buckets.append(below)
    return (*buckets, below, value.total)


def _written(metric: Metric, labels: tuple[Values, ...]) -> _Form:
    """Return the metric as the library writes it with zeros, which are then removed."""
    from prometheus_client import core
    from prometheus_client.exposition import generate_latest

    family = core.Metric(metric.name.removesuffix("_total"), metric.text, metric.kind)
    names = [label.name for label in metric.labels]
    for values in labels:
        labelled = dict(zip(names, values, strict=True))
        if metric.kind != "histogram":
            family.add_sample(metric.name, labelled, 0)
            continue
        for bound in (*map(str, metric.buckets), "+Inf"):
            family.add_sample(f"{metric.name}_bucket", {**labelled, "le": bound}, 0)
        family.add_sample(f"{metric.name}_count", labelled, 0)
        family.add_sample(f"{metric.name}_sum", labelled, 0)
    text, kind, *lines = generate_latest(_Answer((family,))).decode().removesuffix("\n").split("\n")
    return _Form(labels, f"{text}\n{kind}\n", tuple(line.removesuffix("0.0") for line in lines))
