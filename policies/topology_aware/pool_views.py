"""The pools as ``status`` shows them."""

from policies.base import PoolView
from policies.topology_aware.supply.memory_packing import burden
from policies.topology_aware.supply.supply import Room, Supply
from sysfs.cpuset import CpuSet, NodeSet


def pool_views(supply: Supply, room: Room) -> tuple[PoolView, ...]:
    """Every pool with what is left in it, parents before children."""
    pools, memory = supply.tree.pools, supply.memory
    return tuple(
        PoolView(
            name=pool.name,
            parent=pools[pool.parent].name if pool.parent >= 0 else "",
            depth=pool.depth,
            kind=pool.kind,
            cpus=CpuSet(pool.cpus),
            shared=CpuSet(supply.shared[pool.index]),
            isolated_free=CpuSet(supply.free_isolated(pool.index)),
            reserved=CpuSet(pool.reserved),
            mems=NodeSet(pool.mems),
            shared_free_mcpu=max(0, room.free_mcpu[pool.index]),
            shared_granted_mcpu=supply.granted_mcpu[pool.index],
            memory_bytes=memory.nodes.capacity(pool.mems),
            memory_free_bytes=max(0, memory.nodes.capacity(pool.mems) - burden(memory.zones, pool.mems)),
        )
        for pool in pools
    )
