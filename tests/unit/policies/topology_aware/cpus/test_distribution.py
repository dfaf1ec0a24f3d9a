"""Even parts over NUMA nodes, on two packages of two nodes of four CPUs."""

import pytest

from policies.topology_aware.cpus.distribution import pick_evenly
from policies.topology_aware.cpus.picker import CandidateCpus
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import four_nodes, tree_of

TREE = tree_of(four_nodes())


def parts(count: int, *, used: str = "", held: str = "", whole: bool = False) -> str:
    free = CpuSet.parse("0-15") - CpuSet.parse(used) - CpuSet.parse(held)
    candidates = CandidateCpus(TREE, free.mask, [16] * len(TREE.pools), CpuSet.parse(held).mask, whole=whole)
    return str(CpuSet(pick_evenly(candidates, TREE.root, count, CpuSet.parse(held).mask)))


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        pytest.param(4, "", "0-3", id="one node that can give all is enough"),
        pytest.param(6, "", "0-2,4-6", id="two halves"),
        pytest.param(7, "", "0-6", id="parts differ by one"),
        pytest.param(6, "0-1", "8-10,12-14", id="nodes near each other that can give even parts"),
        pytest.param(5, "0-1,8-15", "2-6", id="the larger part is on the node with more free CPUs"),
        pytest.param(9, "", "0-2,4-6,8-10", id="thirds where two nodes do not suffice"),
        pytest.param(5, "0-2,4-6,8-10,12-14", "", id="no even parts"),
    ],
)
def test_parts_are_even_on_the_fewest_nodes(count: int, used: str, expected: str) -> None:
    assert parts(count, used=used) == expected


def test_whole_cores_are_parted_core_by_core() -> None:
    assert parts(6, whole=True) == "0-5"
    assert parts(5, whole=True) == ""


def test_cpus_that_are_held_count_where_they_are() -> None:
    assert parts(4, held="0-1", used="8-15") == "2,4-6"
    assert parts(2, held="0-1", used="2-3,8-15") == "4-5"  # node 0 has its part already
    assert parts(1, held="0-3,8", used="4-7,12-15") == ""
