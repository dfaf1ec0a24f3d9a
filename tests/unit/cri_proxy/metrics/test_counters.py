from cri_proxy.metrics import catalog
from cri_proxy.metrics.counters import Counters
from cri_proxy.metrics.exposition import Distribution, Sample
from cri_proxy.metrics.metric import OTHER
from tests.fakes.counters import count_of


def test_what_alerts_look_at_is_there_before_it_happens() -> None:
    assert Sample(catalog.UPDATES, 0, ("refused",)) in list(Counters(catalog.JOURNAL_ROWS).samples())


def test_what_happens_counts_under_its_labels() -> None:
    counters = Counters([])
    counters.add(catalog.UPDATES, "refused")
    counters.add(catalog.UPDATES, "refused", by=2)
    assert list(counters.samples()) == [Sample(catalog.UPDATES, 3, ("refused",))]
    assert count_of(counters, catalog.UPDATES, "confirmed") == 0


def test_a_value_that_a_closed_set_does_not_name_is_other() -> None:
    counters = Counters([])
    counters.add(catalog.GRANT_CHANGES, "a pod's own word")
    assert count_of(counters, catalog.GRANT_CHANGES, OTHER) == 1


def test_a_value_on_a_bound_counts_below_it_and_one_beyond_all_in_the_last() -> None:
    counters = Counters([])
    for seconds in (0.0005, 0.0006, 99.0):
        counters.measure(catalog.DECISION_SECONDS, seconds)
    (sample,) = counters.samples()
    assert sample.value == Distribution((1, 1, 0, 0, 0, 0, 0, 0, 1), 99.0011)


def test_a_kept_histogram_is_the_series_that_is_shown() -> None:
    counters = Counters(catalog.RELAY_ROWS)
    counters.histogram(catalog.HELD_SECONDS, "Version").measure(0.01)
    counters.measure(catalog.HELD_SECONDS, 0.01, "Version")
    (sample,) = (sample for sample in counters.samples() if sample.metric is catalog.HELD_SECONDS)
    assert isinstance(sample.value, Distribution)
    assert sum(sample.value.counts) == 2
