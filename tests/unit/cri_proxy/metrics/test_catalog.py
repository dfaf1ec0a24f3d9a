import re

import pytest

from cri_proxy.metrics.catalog import CPU_KINDS, DECISIONS, INVENTORY_DEVICES, JOURNAL_ROWS, TABLE
from cri_proxy.metrics.metric import OTHER, Metric
from cri_proxy.node.ledger.ledger import ACTIVE
from policies.base import CpuKind
from policies.devices import DEVICE_TYPES

UNITS = (
    *("seconds", "bytes", "cpus", "containers", "connections", "calls", "fds", "generation", "blocks", "tasks"),
    *("files", "devices"),
)
CLAIMS = ("live", "ready", "healthy", "successful", "kept")
OF_PODS = {"pod", "container", "container_id", "namespace", "pod_uid", "uid", "id", "image", "name", "cpus", "mems"}
names = pytest.mark.parametrize("metric", TABLE, ids=[metric.name for metric in TABLE])


@names
def test_a_name_says_whose_it_is_and_its_unit(metric: Metric) -> None:
    assert re.fullmatch(r"(cri_proxy|process)(_[a-z]+)+", metric.name)
    assert metric.name.rpartition("_")[2] in (*UNITS, *CLAIMS, "total", "info")


@names
def test_a_counter_alone_ends_in_total(metric: Metric) -> None:
    assert metric.name.endswith("_total") == (metric.kind == "counter")


@names
def test_a_metric_has_a_text_that_is_a_sentence(metric: Metric) -> None:
    assert metric.text[0].isupper() or metric.text[0].isdigit()
    assert metric.text.endswith(".")


@names
def test_no_label_is_without_a_bound_and_none_comes_from_pods(metric: Metric) -> None:
    assert [label.name for label in metric.labels if not label.values and not label.bound] == []
    assert OF_PODS & {label.name for label in metric.labels} == set()


@names
def test_a_histogram_has_ascending_buckets_and_nothing_else_has_any(metric: Metric) -> None:
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert bool(metric.buckets) == (metric.kind == "histogram")


@names
def test_what_is_shown_from_the_start_is_of_the_closed_sets(metric: Metric) -> None:
    for zero in metric.zeros:
        assert len(zero) == len(metric.labels)
        assert all(value in label.values for label, value in zip(metric.labels, zero, strict=True) if label.values)


def test_every_name_is_there_once() -> None:
    assert len({metric.name for metric in TABLE}) == len(TABLE)


def test_every_counter_of_the_journal_is_there_before_its_first_event() -> None:
    assert [metric.name for metric in JOURNAL_ROWS if not metric.zeros] == []


def test_the_closed_sets_are_those_of_the_code() -> None:
    assert OTHER in DECISIONS.labels[1].values
    assert CPU_KINDS[-1] == "unused"
    states = next(metric for metric in TABLE if metric.name == "cri_proxy_containers").labels
    assert set(states[0].values) == ACTIVE
    assert set(states[1].values) == {kind.value for kind in CpuKind}
    assert INVENTORY_DEVICES.labels[0].values is DEVICE_TYPES
