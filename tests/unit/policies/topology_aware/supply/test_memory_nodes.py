from dataclasses import replace

from policies.topology_aware.supply.memory_nodes import KINDS, memory_nodes_of, node_ids
from sysfs.assemble import assemble
from sysfs.cpuset import NodeSet
from tests.fakes.machines import facts_of, small_machine
from tests.unit.policies.memory.build import DRAM, GIB, HBM, mask, movable_server, tiered

NODES = memory_nodes_of(tiered())


def test_nodes_are_sorted_by_kind() -> None:
    assert [str(NodeSet(NODES.of_kind(kind))) for kind in KINDS] == ["0-1", "2-3", "4"]
    assert NODES.kinds_in(mask("1,4")) == (DRAM, HBM)


def test_a_zone_holds_what_its_nodes_hold() -> None:
    assert NODES.capacity(mask("0,2,4")) == 21 * GIB


def test_nodes_without_memory_are_left_out() -> None:
    nodes = memory_nodes_of(small_machine(memory=["2Gi", "0"]))
    assert (list(node_ids(nodes.every)), nodes.capacity(mask("0-1"))) == ([0], 2 * GIB)


def test_the_nearest_nodes_come_first_and_equals_together() -> None:
    assert NODES.nearest(mask("0"), NODES.pmem) == mask("2")
    assert NODES.nearest(mask("0-1"), NODES.pmem) == mask("2-3")
    four = memory_nodes_of(small_machine(packages=4))
    assert four.nearest(mask("0"), four.dram) == mask("1-3")


def test_the_nearest_to_any_node_of_the_zone_win_over_those_that_another_sees_first() -> None:
    """Node 3 is 17 from node 1; from node 0 the nearest PMEM would be further away once node 2 is taken."""
    assert NODES.nearest(mask("0-2"), NODES.pmem) == mask("3")


def test_what_the_machine_says_nothing_of_is_passed_over_or_far() -> None:
    four = memory_nodes_of(small_machine(packages=4))
    assert four.nearest(mask("0,9"), four.dram) == mask("1-3")
    facts = facts_of(small_machine())
    silent = assemble(replace(facts, nodes=[replace(node, distances=()) for node in facts.nodes]))
    assert memory_nodes_of(silent).nearest(mask("0"), mask("1")) == mask("1")


def test_other_nodes_come_by_distance_and_those_at_the_same_by_the_order_asked_for() -> None:
    assert NODES.by_distance(mask("0"), NODES.every, lambda _: ()) == [4, 2, 1, 3]
    assert NODES.by_distance(mask("0-1"), NODES.pmem, lambda node: (-node,)) == [3, 2]
    assert NODES.by_distance(mask("0-1"), NODES.dram, lambda _: ()) == []


def test_node_numbers_may_be_of_any_size() -> None:
    assert list(node_ids(1 << 300 | 1)) == [0, 300]


def test_movable_memory_is_not_normal() -> None:
    nodes = memory_nodes_of(movable_server())
    assert (nodes.normal, nodes.pmem) == (mask("0-3"), mask("4-7"))
    assert [str(NodeSet(nodes.nearest(1 << n, nodes.pmem))) for n in range(4)] == ["4", "6", "5", "7"]
