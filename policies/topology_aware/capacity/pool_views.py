"""Build the view of every pool: its CPUs, what is left of them, and of its memory. Pure."""

from policies.base import PoolView
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply, room_of
from sysfs.cpuset import CpuSet, NodeSet


def pool_views(supply: Supply) -> tuple[PoolView, ...]:
    """Return every pool with what is left in it, parents before children."""
    # What a container finds without taking the last CPU of sharers without a request.
    room = room_of(supply, keep_busy=True)
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
            memory_free_bytes=max(0, memory.nodes.capacity(pool.mems) - promised_inside(memory.zones, pool.mems)),
        )
        for pool in pools
    )
