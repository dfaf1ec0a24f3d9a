import pytest

from sysfs.descriptions.machine import describe
from sysfs.errors import MachineSourceError
from sysfs.model import MemoryKind

PLAIN = {"packages": 2, "memory": "4Gi"}


def far(**keys: object) -> dict[str, object]:
    return {"memory": "16Gi", "near": {0: 17}, **keys}


def test_memory_nodes_stand_after_the_others_and_hang_off_the_near_ones() -> None:
    node = describe({**PLAIN, "memory_nodes": [far()]}).nodes[2]
    assert (node.id, str(node.cpus), node.memory_bytes, str(node.near)) == (2, "", 16 << 30, "0")


def test_other_distances_follow_from_the_way_over_the_near_node() -> None:
    machine = describe({**PLAIN, "memory_nodes": [far(), far(near={1: 17})]})
    assert [d for _, d in machine.nodes[2].distances] == [17, 28, 10, 35]


@pytest.mark.parametrize(("keys", "kind"), [({}, "pmem"), ({"memory": "1Gi"}, "hbm"), ({"kind": "dram"}, "dram")])
def test_the_kind_is_told_or_follows_from_the_size(keys: dict[str, object], kind: str) -> None:
    assert describe({**PLAIN, "memory_nodes": [far(**keys)]}).nodes[2].kind == MemoryKind(kind)


def test_movable_memory_is_not_normal() -> None:
    nodes = describe({**PLAIN, "memory_nodes": [far(movable=True), far()]}).nodes
    assert [n.is_normal_memory for n in nodes] == [True, True, False, True]


def test_a_matrix_of_all_nodes_makes_near_unnecessary() -> None:
    matrix = [[10, 21, 28], [21, 10, 17], [28, 17, 10]]
    node = describe({**PLAIN, "distances": matrix, "memory_nodes": [{"memory": "1Gi"}]}).nodes[2]
    assert str(node.near) == "1"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"near": None}, "near, or list all nodes in distances"),
        ({"near": {2: 17}}, "memory_nodes[0].near"),
        ({"near": {0: 10}}, "memory_nodes[0].near"),
        ({"near": [0]}, "memory_nodes[0].near"),
        ({"near": {}}, "memory_nodes[0].near"),
        ({"near": {True: 17}}, "memory_nodes[0].near"),
        ({"kind": "flash"}, "memory_nodes[0].kind: expected one of dram, pmem, hbm, got 'flash'"),
        ({"memory": None}, "memory_nodes[0]: memory is missing; give a quantity"),
        ({"movable": 1}, "memory_nodes[0].movable"),
        ({"cpus": 1}, "memory_nodes[0]: unknown key 'cpus'"),
    ],
)
def test_an_invalid_value_is_refused_by_its_place(keys: dict[str, object], message: str) -> None:
    with pytest.raises(MachineSourceError) as caught:
        describe({**PLAIN, "memory_nodes": [far(**keys)]})
    assert message in str(caught.value)


def test_there_is_a_limit_to_nodes() -> None:
    with pytest.raises(MachineSourceError, match="at most 1024 nodes"):
        describe({"memory_nodes": [{"memory": "1Gi", "near": {0: 17}}] * 1024})


def test_huge_pages_are_numbers_of_pages_by_size() -> None:
    machine = describe({**PLAIN, "memory_nodes": [far()], "hugepages": {"1Gi": 1, "2Mi": [4, 0, 8]}})
    sizes = [[(pages.page_bytes >> 20, pages.count) for pages in node.huge_pages] for node in machine.nodes]
    assert sizes == [[(2, 4), (1024, 1)], [(1024, 1)], [(2, 8)]]


@pytest.mark.parametrize(
    "value",
    [["2Mi"], {"2M": 1}, {"3Mi": 1}, {"4Ki": 1}, {"2Mi": -1}, {"2Mi": True}, {"2Mi": [1]}, {"2Mi": "8"}, {"1Gi": 9999}],
)
def test_huge_pages_that_no_machine_has_are_refused(value: object) -> None:
    with pytest.raises(MachineSourceError, match="hugepages"):
        describe({**PLAIN, "hugepages": value})
