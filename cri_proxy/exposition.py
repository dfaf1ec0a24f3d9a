"""Samples as Prometheus' text format, written by ``prometheus-client`` (docs/adr/0007: loaded by the first scrape).

Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format", version 0.0.4.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cri_proxy.metrics import Metric, Values

if TYPE_CHECKING:  # two megabytes and 30 ms that a daemon which nobody scrapes does without
    from prometheus_client.metrics_core import Metric as Family

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


@dataclass(frozen=True, slots=True)
class _Answer:
    """What ``generate_latest`` asks for its families."""

    families: tuple["Family", ...]

    def collect(self) -> Iterator["Family"]:
        yield from self.families


def render(samples: Iterable[Sample]) -> bytes:
    """The whole answer: each metric once with its text and type, its series below it in the order that they came.

    Raises ValueError for a sample with other labels than its row.
    """
    from prometheus_client.exposition import generate_latest

    by_metric: dict[Metric, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    return generate_latest(_Answer(tuple(_family(metric, found) for metric, found in by_metric.items())))


def _family(metric: Metric, samples: Iterable[Sample]) -> "Family":
    from prometheus_client import core

    family = core.Metric(metric.name.removesuffix("_total"), metric.text, metric.kind)
    names = [label.name for label in metric.labels]
    for sample in samples:
        labels = dict(zip(names, sample.labels, strict=True))
        if isinstance(sample.value, Distribution):
            _add_distribution(family, metric, labels, sample.value)
        else:
            family.add_sample(metric.name, labels, sample.value)
    return family


def _add_distribution(family: "Family", metric: Metric, labels: dict[str, str], value: Distribution) -> None:
    below = 0
    for bound, count in zip((*(str(b) for b in metric.buckets), "+Inf"), value.counts, strict=True):
        below += count
        family.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, below)
    family.add_sample(f"{metric.name}_count", labels, below)
    family.add_sample(f"{metric.name}_sum", labels, value.total)
