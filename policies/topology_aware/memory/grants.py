"""Where the memory of a grant belongs, and how its zone grows when the grant changes."""

from dataclasses import replace

from policies.base import CpuKind, Grant
from policies.topology_aware.memory.home import cold_start, home_of
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import NodeSet


def is_ours(grant: Grant) -> bool:
    """Return whether the memory nodes of this container are ours to write."""
    return bool(grant.mems) and grant.kind is not CpuKind.PRESERVE and not grant.request.preferences.preserve_memory


def home_zone(supply: Supply, grant: Grant) -> int:
    """Return the home zone of the grant in its pool, without DRAM while its cold start lasts; 0 if there is none."""
    if not is_ours(grant):
        return 0
    tree, nodes = supply.tree, supply.memory.nodes
    home = home_of(tree.machine, nodes, tree.named(grant.pool), grant.request, owns=bool(grant.owned))
    return cold_start(nodes, home, grant.request).zone if grant.is_cold else home.zone


def in_pool(supply: Supply, grant: Grant, pool: str) -> Grant:
    """Return the grant in another pool. Its zone grows by the home zone there, so that no page moves."""
    moved = replace(grant, pool=pool)
    return replace(moved, mems=grant.mems | NodeSet(home_zone(supply, moved)))


def after_cold_start(supply: Supply, grant: Grant) -> Grant:
    """Return the grant after its cold start, with DRAM in its zone.

    Others need not make room: a zone that grows leaves every promise as easy to keep as before.
    """
    grant = replace(grant, is_cold=False)
    return replace(grant, mems=grant.mems | NodeSet(home_zone(supply, grant)))
