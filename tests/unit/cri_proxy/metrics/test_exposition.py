"""The text format, read back by Prometheus' own Python client and held against what that writes."""

import math
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import core
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Distribution, Sample, exposition
from cri_proxy.metrics.metric import Metric

Series = tuple[str, tuple[tuple[str, str], ...]]


def read(text: bytes) -> Iterator[tuple[Series, float]]:
    families = text_string_to_metric_families(text.decode())
    return (((s.name, tuple(sorted(s.labels.items()))), s.value) for family in families for s in family.samples)


def parsed(*samples: Sample) -> dict[Series, float]:
    return dict(read(exposition(samples)))


def test_a_family_is_told_once_with_its_text_and_type() -> None:
    text = exposition(
        [Sample(catalog.UPDATES, 1, ("refused",)), Sample(catalog.READY, 1), Sample(catalog.UPDATES, 2, ("x",))]
    )
    assert text.count(b"# TYPE cri_proxy_updates_total counter\n") == 1
    assert text.index(b'{outcome="x"} 2.0') < text.index(b"# HELP cri_proxy_ready")


class Library:
    """The same samples as the families of Prometheus' Python client, which has a writer of its own."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[core.Metric]:
        for metric in dict.fromkeys(sample.metric for sample in self._samples):
            family = core.Metric(metric.name.removesuffix("_total"), metric.text, metric.kind)
            for sample in self._samples:
                if sample.metric is metric:
                    self._add(family, sample)
            yield family

    @staticmethod
    def _add(family: core.Metric, sample: Sample) -> None:
        labels = dict(zip((label.name for label in sample.metric.labels), sample.labels, strict=True))
        if not isinstance(sample.value, Distribution):
            family.add_sample(sample.metric.name, labels, sample.value)
            return
        sums = [sum(sample.value.counts[: i + 1]) for i in range(len(sample.value.counts))]
        for bound, count in zip((*map(str, sample.metric.buckets), "+Inf"), sums, strict=True):
            family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
        family.add_sample(f"{family.name}_count", labels, sums[-1])
        family.add_sample(f"{family.name}_sum", labels, sample.value.total)


def samples_of(metric: Metric) -> st.SearchStrategy[Sample]:
    numbers = st.integers(0, 1 << 50) | st.floats()
    counts = st.tuples(*[st.integers(0, 99)] * (len(metric.buckets) + 1))
    values = st.builds(Distribution, counts, numbers) if metric.kind == "histogram" else numbers
    return st.builds(Sample, st.just(metric), values, st.tuples(*[st.text()] * len(metric.labels)))


@given(st.lists(st.sampled_from(catalog.TABLE).flatmap(samples_of), max_size=6))
def test_every_answer_means_what_the_library_writes_of_it(samples: list[Sample]) -> None:
    ours, theirs = exposition(samples), generate_latest(Library(samples))
    assert repr(list(read(ours))) == repr(list(read(theirs)))  # NaN differs from itself
    assert [line for line in ours.splitlines() if line[:1] == b"#"] == [
        line for line in theirs.splitlines() if line[:1] == b"#"
    ]


@pytest.mark.parametrize(("number", "text"), [(1, "1.0"), (2.5, "2.5"), (math.inf, "+Inf"), (-math.inf, "-Inf")])
def test_numbers_are_written_as_prometheus_reads_them(number: float, text: str) -> None:
    assert exposition([Sample(catalog.UPDATES, number, ("refused",))]).rsplit(b" ")[-1] == f"{text}\n".encode()


@given(st.text(), st.floats(allow_nan=False))
def test_any_label_and_any_number_survives(pool: str, value: float) -> None:
    (found,) = parsed(Sample(catalog.POOL_MEMORY, value, (pool,))).items()
    assert found == (("cri_proxy_pool_memory_capacity_bytes", (("pool", pool),)), value)


def test_a_histograms_buckets_add_up() -> None:
    counts = (1, 0, 2, *[0] * (len(catalog.DECISION_BUCKETS) - 2))
    found = parsed(Sample(catalog.DECISION_SECONDS, Distribution(counts, 0.5)))
    name = "cri_proxy_decision_duration_seconds"
    assert found[f"{name}_bucket", (("le", "0.002"),)] == found[f"{name}_bucket", (("le", "+Inf"),)] == 3
    assert (found[f"{name}_count", ()], found[f"{name}_sum", ()]) == (3, 0.5)


def test_a_label_too_few_is_a_mistake_that_shows() -> None:
    with pytest.raises(ValueError, match="shorter"):
        exposition([Sample(catalog.POOL_MEMORY, 1)])
