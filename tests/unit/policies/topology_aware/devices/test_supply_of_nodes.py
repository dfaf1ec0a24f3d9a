from policies.base import CpuKind, Grant
from policies.claims import CpuClaim
from policies.topology_aware.devices.supply import MOST_CPUS, NodeRoom, Shortage, node_room, sets_by_room
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.allocations import choosing, gpus_on
from tests.unit.policies.build import four_nodes, request

MACHINE = four_nodes()
GI = 1 << 30


def room(mcpu: int, *grants: Grant, **keys: object) -> NodeRoom:
    wanted = request("new/c", mcpu, **keys)  # type: ignore[arg-type]  # by name
    return node_room(choosing(MACHINE, gpus_on(0), wanted, *grants), MACHINE.nodes)


def owner(cpus: str, node: int) -> Grant:
    return Grant(request("o/c", 1000), "root", CpuKind.EXCLUSIVE, CpuSet.parse(cpus), mems=NodeSet.of([node]))


def test_nodes_lack_the_cpus_that_others_own() -> None:
    has = room(3000, owner("0-2", 0))
    assert has.shortage(0b01) == Shortage(True, 2)
    assert has.shortage(0b10) == has.shortage(0b11) == Shortage()


def test_nodes_lack_memory() -> None:
    each = MACHINE.nodes[0].memory_bytes
    has = room(1000, memory_limit_bytes=each + GI)
    assert has.shortage(0b01) == Shortage(True, 0, GI)
    assert has.shortage(0b11) == Shortage()


def test_of_many_cpus_a_share_is_counted() -> None:
    assert room(400_000).shortage(0b1).is_short
    wide = describe({"packages": 2, "nodes": 1, "cores": 64, "threads": 1})
    has = node_room(choosing(wide, gpus_on(0), request("new/c", 100_000)), wide.nodes)
    assert has.shortage(0b01) == Shortage(True, MOST_CPUS - 41)  # 64 of the 100, in the share of 64
    assert has.shortage(0b11) == Shortage()


def test_each_of_many_cpus_that_another_allocator_chose_is_counted() -> None:
    wide = describe({"packages": 2, "nodes": 1, "cores": 64, "threads": 1})
    wanted = request("new/c", 100_000, claim=CpuClaim(CpuSet.parse("0-99"), "an annotation"))
    has = node_room(choosing(wide, gpus_on(0), wanted), wide.nodes)
    assert [has.shortage(nodes).cpus for nodes in (0b01, 0b10, 0b11)] == [36, 64, 0]


def test_cpus_that_another_allocator_chose_are_where_they_are() -> None:
    has = room(1000, claim=CpuClaim(CpuSet.parse("3-4,8"), "an annotation"))
    assert [has.shortage(nodes).cpus for nodes in (0b0001, 0b0011, 0b0111, 0b1000)] == [2, 1, 0, 3]


def test_no_node_lacks_nothing() -> None:
    assert room(400_000).shortage(0) == Shortage()


def test_lacking_nothing_is_best_and_fewer_cpus_next() -> None:
    assert Shortage() < Shortage(True, 0, 5 * GI) < Shortage(True, 1) < Shortage(True, 2)


def test_sets_with_the_most_room_come_first() -> None:
    has = room(6000, owner("0-2", 0))
    order = [nodes for _, nodes in sets_by_room(has, (0, 1, 2), 2, lambda nodes: nodes != 0b011)]
    assert order == [0b110, 0b101]
