"""Counters and histograms by metric and labels, in memory: callers add, a scrape reads; unknown labels are 'other'."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from cri_proxy.metrics.exposition import Distribution, Sample
from cri_proxy.metrics.metric import OTHER, Metric, Values


class Histogram:
    """Values of one series by bucket. A caller that measures often keeps it, to save the lookup."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """``bounds`` are the upper bounds of the buckets, ascending."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def measure(self, value: float) -> None:
        """Add a value, in the unit of the metric's name."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def distribution(self) -> Distribution:
        """Return its state now."""
        return Distribution(tuple(self._counts), self._total)


class Counters:
    """Counters and histograms by metric and label values. Never raises: an unknown label value counts as 'other'."""

    def __init__(self, rows: Sequence[Metric]) -> None:
        """Start the series that these metrics show from the start at zero."""
        self._counts: dict[tuple[Metric, Values], float] = {}
        self._histograms: dict[tuple[Metric, Values], Histogram] = {}
        for metric in rows:
            for labels in metric.zeros:
                if metric.kind == "histogram":
                    self.histogram(metric, *labels)
                else:
                    self._counts[metric, labels] = 0

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add one, or ``by``; ``labels`` are values in the order of the metric's labels."""
        key = metric, bounded(metric, labels)
        self._counts[key] = self._counts.get(key, 0) + by

    def measure(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram, in the unit of its name."""
        self.histogram(metric, *labels).measure(value)

    def samples(self) -> Iterator[Sample]:
        """Return every series, metric by metric."""
        for (metric, labels), count in sorted(self._counts.items(), key=_by_row):
            yield Sample(metric, count, labels)
        for (metric, labels), histogram in sorted(self._histograms.items(), key=_by_row):
            yield Sample(metric, histogram.distribution(), labels)

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """Return the series of these label values."""
        key = metric, bounded(metric, labels)
        if key not in self._histograms:
            self._histograms[key] = Histogram(metric.buckets)
        return self._histograms[key]


def _by_row(item: tuple[tuple[Metric, Values], object]) -> tuple[str, Values]:
    (metric, labels), _ = item
    return metric.name, labels


def bounded(metric: Metric, labels: Values) -> Values:
    """Return these values, with 'other' for those that a closed set does not contain."""
    known = zip(metric.labels, labels, strict=False)
    return tuple(value if not label.values or value in label.values else OTHER for label, value in known)
