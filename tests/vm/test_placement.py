"""The installed package in front of a true containerd on a machine of two packages with two NUMA nodes each."""

import pytest

from sysfs.cpuset import CpuSet, NodeSet
from tests.vm.report import Report, Seen

ISOLATED = CpuSet.parse("3,7")
RESERVED = CpuSet.parse("0")
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def seen(two_packages: Report) -> dict[str, Seen]:
    """All containers, once all of them ran."""
    return two_packages.steps["placement"]


def others(seen: dict[str, Seen], name: str) -> CpuSet:
    return CpuSet.of(cpu for other, look in seen.items() if other != name for cpu in look.cpus)


def nodes(look: Seen) -> NodeSet:
    return NodeSet.of(cpu // 4 for cpu in look.cpus)


def test_one_whole_cpu_is_one_that_the_kernel_isolates(seen: dict[str, Seen]) -> None:
    isolated = seen["whole/one"]
    assert len(isolated.cpus) == 1
    assert isolated.cpus <= ISOLATED


def test_two_whole_cpus_are_the_two_threads_of_a_core(seen: dict[str, Seen]) -> None:
    low, high = seen["whole/two"].cpus
    assert (low % 2, high) == (0, low + 1)
    assert not seen["whole/two"].cpus & ISOLATED


@pytest.mark.parametrize("name", ["whole/one", "whole/two"])
def test_exclusive_cpus_are_in_nobody_elses_set(seen: dict[str, Seen], name: str) -> None:
    assert seen[name].cpus.isdisjoint(others(seen, name))


def test_a_mixed_container_has_two_cpus_of_its_own_and_shares_the_rest(seen: dict[str, Seen]) -> None:
    mixed = seen["whole/mixed"].cpus
    assert len(mixed) > 2
    assert len(mixed - others(seen, "whole/mixed")) >= 2


def test_shared_containers_never_run_on_isolated_or_reserved_cpus(seen: dict[str, Seen]) -> None:
    for name in ("together/alone", "together/front", "together/back", "apart/front", "apart/back"):
        assert seen[name].cpus.isdisjoint(ISOLATED | RESERVED), name


def test_system_pods_run_on_the_reserved_cpu(seen: dict[str, Seen]) -> None:
    assert seen["system/agent"].cpus == RESERVED


def test_memory_comes_from_the_nodes_of_the_cpus(seen: dict[str, Seen]) -> None:
    placed = {name: look for name, look in seen.items() if name != "system/agent"}
    assert {name: look.mems for name, look in placed.items()} == {name: nodes(look) for name, look in placed.items()}


def test_containers_with_affinity_sit_on_the_same_cpus(seen: dict[str, Seen]) -> None:
    front, back = seen["together/front"], seen["together/back"]
    assert (front.cpus, front.mems) == (back.cpus, back.mems)
    assert len({node // 2 for node in nodes(front)}) == 1  # without a CPU limit: a package wide


def test_containers_with_anti_affinity_sit_on_different_nodes(seen: dict[str, Seen]) -> None:
    assert nodes(seen["apart/front"]).isdisjoint(nodes(seen["apart/back"]))
