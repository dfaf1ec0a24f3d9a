"""Plan a container's huge pages: how well a pool's nodes have them, and the zone in which it has them all."""

from collections.abc import Iterable
from dataclasses import dataclass

from policies.base import Reason, Request
from policies.preferences import HugePageNodes
from policies.topology_aware.memory import reasons
from policies.topology_aware.supply.hugepages import HugePageAccount
from policies.topology_aware.supply.memory_account import MemoryAccount, widest_zone

ON_ITS_NODES, WITH_MORE_NODES, NOT_THERE = 2, 1, 0


@dataclass(frozen=True, slots=True)
class HugePagePlan:
    """The zone with what huge pages add to it. ``refused``: a strict preference cannot be met."""

    zone: int
    reasons: tuple[Reason, ...] = ()
    refused: Reason | None = None


def huge_page_ranks(account: MemoryAccount, request: Request, zones: Iterable[int]) -> dict[int, int]:
    """Return how well pools with these home zones have the huge pages: 2 themselves, 1 with more nodes, 0 not."""
    layout, spread = account.huge_pages.layout(request.huge_pages), spread_nodes(account, request)
    elsewhere = NOT_THERE if layout.lacking(widest_zone(account.nodes, request)) else WITH_MORE_NODES
    return {zone: elsewhere if layout.lacking(zone | spread) else ON_ITS_NODES for zone in zones}


def spread_nodes(account: MemoryAccount, request: Request) -> int:
    """Return the nodes where huge pages that may be anywhere can be, which belong to the home zone; 0 for others."""
    if request.preferences.huge_pages is not HugePageNodes.SPREAD:
        return 0
    return _with_pages(account.huge_pages, request) & widest_zone(account.nodes, request)


def plan_huge_pages(account: MemoryAccount, request: Request, zone: int, pool_mems: int) -> HugePagePlan:
    """Widen a zone to the nearest nodes until all the container's huge pages are on its nodes.

    Under a strict preference only nodes of the pool are added.
    """
    wanted, pages = request.huge_pages, account.huge_pages
    layout = pages.layout(wanted)
    strict = request.preferences.strict_huge_pages
    within = widest_zone(account.nodes, request) & (pool_mems if strict else -1)
    found = zone | spread_nodes(account, request)
    while lacking := layout.lacking(found):
        candidates = 0
        for each in lacking:
            candidates |= pages.nodes_with(each.page_bytes)
        group = account.nodes.nearest(found, candidates & within)
        if not group:
            missing = lacking[0]
            if strict:
                return HugePagePlan(zone, refused=reasons.strict_huge_pages(missing, found))
            exist = bool(pages.nodes_with(missing.page_bytes))
            return HugePagePlan(found, (reasons.huge_pages_short(missing, found, exist=exist),))
        # One more node is enough where it has what is missing; otherwise all at this distance are added.
        alone = (1 << node for node in range(group.bit_length()) if group >> node & 1)
        found |= next((node for node in alone if not layout.lacking(found | node)), group)
    return HugePagePlan(found, (reasons.huge_pages(wanted, found, found & ~zone),))


def _with_pages(pages: HugePageAccount, request: Request) -> int:
    found = 0
    for wanted in request.huge_pages:
        found |= pages.nodes_with(wanted.page_bytes)
    return found
