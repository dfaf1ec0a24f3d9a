"""The memory of a container in the pool of its CPUs, and its grant with it."""

from policies.base import CpuKind, Grant
from policies.topology_aware.memory.plan import MemoryPlan, memory_in, with_memory
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import context_of, four_nodes, request, tree_of

TREE = tree_of(four_nodes())


def test_an_owner_has_the_memory_at_its_cpus_and_a_sharer_that_of_its_pool() -> None:
    socket = TREE.named("socket #0")
    zones = [
        memory_in(context_of(TREE, request(mcpu=mcpu)), socket, (), CpuSet.parse(owned))
        for mcpu, owned in ((1000, "4"), (500, ""))
    ]
    assert [plan.mems for plan in zones if isinstance(plan, MemoryPlan)] == [NodeSet.parse("1"), NodeSet.parse("0-1")]


def test_a_container_that_moves_and_is_widened_is_in_the_placement_once() -> None:
    moved = Grant(request("s/c", 500), "socket #0", CpuKind.SHARED)
    widened = Grant(request("s/c", 500), "socket #0", CpuKind.SHARED, mems=NodeSet.parse("0-3"))
    wanted = request("a/c", 1000)
    own = Grant(wanted, "NUMA node #1", CpuKind.EXCLUSIVE, CpuSet.parse("4"))
    plan = MemoryPlan(NodeSet.parse("1"), widened=(widened,))
    placed = with_memory(context_of(TREE, wanted, moved), own, (moved,), plan)
    assert (placed.moved, placed.grant.mems) == ((widened,), NodeSet.parse("1"))
