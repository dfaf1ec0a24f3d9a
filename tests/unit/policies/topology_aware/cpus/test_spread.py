import pytest

from policies.topology_aware.cpus.picker import CandidateCpus, pick_cpus
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import tree_of

PLENTY = 1 << 20
IN_A_ROW = [[10, 21, 31, 41], [21, 10, 21, 31], [31, 21, 10, 21], [41, 31, 21, 10]]


def spilled(description: dict[str, object], count: int, used: str) -> str:
    """Pick CPUs of the whole machine, of which those in ``used`` are not free."""
    machine = describe(description)
    tree = tree_of(machine)
    candidates = CandidateCpus(tree, (machine.online - CpuSet.parse(used)).mask, [PLENTY] * len(tree.pools))
    return str(CpuSet(pick_cpus(candidates, tree.root, count)))


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        pytest.param(4, "0,4", "2-3,6-7", id="whole cores of two nodes before threads of broken ones"),
        pytest.param(5, "0,4", "1-3,6-7", id="the odd thread is on a core that is shared already"),
        pytest.param(6, "0,4", "1-3,5-7", id="broken cores where there is nothing else"),
    ],
)
def test_what_spills_to_another_node_is_on_whole_cores_first(count: int, used: str, expected: str) -> None:
    assert spilled({"packages": 2, "cores": 2, "threads": 2}, count, used) == expected


def test_two_nodes_that_suffice_are_taken_instead_of_the_largest_and_two_more() -> None:
    four_nodes: dict[str, object] = {"packages": 2, "nodes": 2, "cores": 4}
    assert spilled(four_nodes, 6, "3,7,8,12-13") == "0-2,4-6"


def test_near_sockets_are_taken_where_far_ones_give_as_much() -> None:
    row: dict[str, object] = {"packages": 4, "cores": 4, "distances": IN_A_ROW}
    assert spilled(row, 6, "3,7,10-11,15") == "0-2,4-6"
    assert spilled(row, 6, "3,6-7,11,15") == "8-10,12-14"
