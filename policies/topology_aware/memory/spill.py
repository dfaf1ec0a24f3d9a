"""Compute where a container without a memory limit may spill to: its zone is planned for its request alone.

The kernel takes memory from the node of the CPU first, then from the nearest one that is allowed
(Documentation/admin-guide/mm/numa_memory_policy.rst): a wide set costs no locality while there is room near.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policies.base import CpuKind, Grant, Reason
from policies.topology_aware.memory import reasons
from policies.topology_aware.memory.home import default_kinds_of, is_ours
from policies.topology_aware.options import SPILL, TopologyAwareOptions
from policies.topology_aware.supply.memory_nodes import MemoryNodes
from sysfs.cpuset import NodeSet


def spill_of(nodes: MemoryNodes, grant: Grant, options: TopologyAwareOptions) -> NodeSet:
    """Return all nodes that it may spill to, its zone included; empty for a container that stays within its zone.

    One that asks for kinds of memory spills within these: the kernel would take nearer memory of another kind first.
    """
    if options.unlimited_memory != SPILL or not _is_unlimited(grant):
        return NodeSet()
    kinds = grant.request.preferences.memory_kinds
    every = nodes.of_kinds(kinds) if kinds else default_kinds_of(nodes, nodes.every)
    # A cold start withholds DRAM: the kernel would take it before PMEM, which is farther.
    every = (every & ~nodes.dram if grant.is_cold else every) | grant.mems.mask & nodes.every
    return NodeSet(every) if every.bit_count() > 1 else NodeSet()


def spilling(nodes: MemoryNodes, grant: Grant, options: TopologyAwareOptions, held: NodeSet = NodeSet()) -> Grant:
    """Return the grant with the nodes that it may spill to, and those that it ``held`` while it ran: no page moves."""
    spill = spill_of(nodes, grant, options) | NodeSet(held.mask & nodes.every)
    return grant if spill == grant.spill else replace(grant, spill=spill)


def respilled(nodes: MemoryNodes, grants: Iterable[Grant], options: TopologyAwareOptions) -> Iterator[Grant]:
    """Yield the grants whose spill is not the option's present one, as after it has changed, with that one."""
    for grant in grants:
        if grant.spill or _is_unlimited(grant):
            now = spilling(nodes, grant, options)
            if now is not grant:
                yield now


def spill_reasons(nodes: MemoryNodes, grant: Grant, options: TopologyAwareOptions) -> tuple[Reason, ...]:
    """Return what the option does for a container without a limit, where there are nodes besides its zone."""
    if not _is_unlimited(grant) or not nodes.every & ~grant.mems.mask:
        return ()
    beyond = grant.spill.mask & ~grant.mems.mask
    if beyond:
        return (reasons.spills(grant.mems.mask, beyond),)
    return (reasons.stays(grant.mems.mask),) if options.unlimited_memory != SPILL else ()


def _is_unlimited(grant: Grant) -> bool:
    return grant.request.memory_limit_bytes is None and is_ours(grant) and grant.kind is not CpuKind.RESERVED
