from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.simulate.machine import with_offline
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

DESCRIPTION = {
    "packages": 2,
    "dies": 2,
    "cores": 2,
    "threads": 2,
    "efficiency": "12-15",
    "isolated": "6-7",
    "memory_nodes": [{"memory": "8Gi", "kind": "pmem", "near": {1: 17}}],
    "pci": [{"address": "0000:10:00.0", "class": 0x020000, "node": 1}],
}
MACHINE = describe(DESCRIPTION)


@given(st.sets(st.integers(0, 15), max_size=15))
def test_the_machine_is_the_one_that_is_described_with_these_cpus_offline(cpus: set[int]) -> None:
    offline = CpuSet.of(cpus)
    assert with_offline(MACHINE, offline) == describe(DESCRIPTION | {"offline": str(offline)})


def test_nothing_changes_when_nothing_goes() -> None:
    assert with_offline(MACHINE, CpuSet.of([99])) is MACHINE


def test_what_went_once_stays_away_when_more_go() -> None:
    once = with_offline(MACHINE, CpuSet.of([1]))
    assert with_offline(once, CpuSet.of([2])) == with_offline(MACHINE, CpuSet.of([1, 2]))
