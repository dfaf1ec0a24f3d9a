"""What has happened since the start, counted: one dictionary of counters and one of histograms, read at a scrape."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from cri_proxy.metrics.catalog import OTHER, Metric, Values
from cri_proxy.metrics.exposition import Distribution, Sample


class Histogram:
    """Values of one series by bucket. Whoever measures often keeps it, and spares the search for it."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """``bounds`` are the upper bounds of the buckets, ascending."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def measure(self, value: float) -> None:
        """One more value, in the unit of the metric's name."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def distribution(self) -> Distribution:
        """What it holds now."""
        return Distribution(tuple(self._counts), self._total)


class Counters:
    """Counters and histograms by row and label values. Never raises: a value that the row does not know is 'other'."""

    def __init__(self, rows: Sequence[Metric]) -> None:
        """What these rows show from the start is there, at zero."""
        self._counts: dict[tuple[Metric, Values], float] = {}
        self._histograms: dict[tuple[Metric, Values], Histogram] = {}
        for metric in rows:
            for labels in metric.zeros:
                if metric.kind == "histogram":
                    self.histogram(metric, *labels)
                else:
                    self._counts[metric, labels] = 0

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """It has happened once more, or ``by`` more; ``labels`` are values in the order of the row's."""
        key = metric, bounded(metric, labels)
        self._counts[key] = self._counts.get(key, 0) + by

    def measure(self, metric: Metric, value: float, *labels: str) -> None:
        """One more value of a histogram, in the unit of its name."""
        self.histogram(metric, *labels).measure(value)

    def count(self, metric: Metric, *labels: str) -> float:
        """How often it has happened so far."""
        return self._counts.get((metric, labels), 0)

    def samples(self) -> Iterator[Sample]:
        """All of it, row by row."""
        for (metric, labels), count in sorted(self._counts.items(), key=_by_row):
            yield Sample(metric, count, labels)
        for (metric, labels), histogram in sorted(self._histograms.items(), key=_by_row):
            yield Sample(metric, histogram.distribution(), labels)

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """The series of these label values."""
        key = metric, bounded(metric, labels)
        if key not in self._histograms:
            self._histograms[key] = Histogram(metric.buckets)
        return self._histograms[key]


def _by_row(item: tuple[tuple[Metric, Values], object]) -> tuple[str, Values]:
    (metric, labels), _ = item
    return metric.name, labels


def bounded(metric: Metric, labels: Values) -> Values:
    """These values, those that a closed set does not name replaced by 'other'."""
    known = zip(metric.labels, labels, strict=False)
    return tuple(value if not label.values or value in label.values else OTHER for label, value in known)
