from policies.base import CpuKind, Grant, PoolView
from policies.topology_aware.capacity.pool_views import pool_views
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import four_nodes, request, supply_of, tree_of


def test_a_pool_shows_what_is_left_in_it() -> None:
    tree = tree_of(four_nodes(isolated="3"), "0")
    node = NodeSet.parse("0")
    owner = Grant(
        request("o/c", memory_request_bytes=5), "NUMA node #0", CpuKind.EXCLUSIVE, CpuSet.parse("1"), mems=node
    )
    sharer = Grant(request("s/c"), "NUMA node #0", CpuKind.SHARED, shared_mcpu=300)
    supply = supply_of(tree, owner, sharer)
    views = pool_views(supply)
    assert views[2] == PoolView(
        name="NUMA node #0",
        parent="socket #0",
        depth=2,
        kind="node",
        cpus=CpuSet.parse("0-3"),
        shared=CpuSet.parse("2"),
        isolated_free=CpuSet.parse("3"),
        reserved=CpuSet.parse("0"),
        mems=node,
        shared_free_mcpu=700,
        shared_granted_mcpu=300,
        memory_bytes=2 << 30,
        memory_free_bytes=(2 << 30) - 5,
    )
    assert [v.parent for v in views[:2]] == ["", "root"]
