"""Where the memory of a grant belongs, and how its zone grows when the grant changes."""

from dataclasses import replace

from policies.base import CpuKind, Grant
from policies.topology_aware.memory.home import cold_start, home_of
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import NodeSet


def is_ours(grant: Grant) -> bool:
    """Whether we write the memory nodes of this container."""
    return bool(grant.mems) and grant.kind is not CpuKind.PRESERVE and not grant.request.preferences.preserve_memory


def home_zone(supply: Supply, grant: Grant) -> int:
    """Where the grant belongs in its pool: without DRAM while its cold start lasts; 0 where there is no such place."""
    if not is_ours(grant):
        return 0
    tree, nodes = supply.tree, supply.memory.nodes
    home = home_of(tree.machine, nodes, tree.named(grant.pool), grant.request, owns=bool(grant.owned))
    return cold_start(nodes, home, grant.request).zone if grant.is_cold else home.zone


def in_pool(supply: Supply, grant: Grant, pool: str) -> Grant:
    """The grant in another pool: its zone grows by the home zone there, so that no page moves."""
    moved = replace(grant, pool=pool)
    return replace(moved, mems=grant.mems | NodeSet(home_zone(supply, moved)))


def warmed(supply: Supply, grant: Grant) -> Grant:
    """The grant with its cold start over: DRAM comes to its zone.

    Nobody has to make room for that: a zone that grows leaves every promise as easy to keep as before.
    """
    warm = replace(grant, is_cold=False)
    return replace(warm, mems=grant.mems | NodeSet(home_zone(supply, warm)))
