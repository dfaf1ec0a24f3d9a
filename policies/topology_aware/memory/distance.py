"""Compare pools by how far the memory is that a container would use there, whatever else the pool's zone has.

The kernel allocates from the nearest node of the zone first (Documentation/admin-guide/mm/numa_memory_policy.rst).
So an expander, PMEM or HBM beside a node does not count for that node's CPUs as long as nearer memory has room.
"""

from collections.abc import Mapping, Sequence

from policies.base import Request
from policies.hardware.pools import Pool
from policies.topology_aware.supply.memory_account import MemoryAccount, promised_bytes
from policies.topology_aware.supply.memory_nodes import node_ids


def memory_distances(
    account: MemoryAccount, request: Request, pools: Sequence[Pool], zones: Sequence[int]
) -> tuple[float, ...]:
    """Return for each pool, with its zone, how much farther its memory is than the nearest, on average over the bytes.

    What does not fit beside the promises of others counts as far as the farthest node of the zone. A container that is
    promised nothing is looked at as if it needed little.
    """
    free = account.free_bytes()
    wanted = promised_bytes(request) or 1
    return tuple(_distance(pool, zone, wanted, free) for pool, zone in zip(pools, zones, strict=True))


def _distance(pool: Pool, zone: int, wanted: int, free: Mapping[int, int]) -> float:
    left, total, farthest = wanted, 0, 0
    for distance, nodes in pool.distances:
        if not nodes & zone:
            continue
        farthest = distance
        here = min(left, sum(free[node] for node in node_ids(nodes & zone)))
        total += here * distance
        left -= here
        if not left:
            break
    return (total + left * farthest) // wanted / 100
