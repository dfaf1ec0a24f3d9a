"""The huge pages promised to containers: an account of each page size, laid out on the nodes as memory is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from policies.base import HugePageLimit
from policies.topology_aware.supply.memory_nodes import MemoryNodes
from policies.topology_aware.supply.memory_packing import Packing, ZonePromise, in_order
from sysfs.model import Machine

_NOTHING: Mapping[int, tuple[ZonePromise, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class HugePageAccount:
    """A snapshot of all promises of huge pages, by page size.

    ``pools`` are the memory nodes with the bytes of their pages as capacity, ``zones`` the sums promised in each zone.
    """

    pools: Mapping[int, MemoryNodes]
    zones: Mapping[int, tuple[ZonePromise, ...]] = field(default_factory=lambda: _NOTHING)

    def changed(self, promises: Iterable[tuple[int, HugePageLimit]], sign: int) -> "HugePageAccount":
        """Return the account with these promises made (1) or released (-1): pairs of a zone and a limit."""
        zones = dict(self.zones)
        for zone, pages in promises:
            sums = dict(zones.get(pages.page_bytes, ()))
            sums[zone] = sums.get(zone, 0) + sign * pages.limit_bytes
            zones[pages.page_bytes] = in_order((zone, amount) for zone, amount in sums.items() if amount)
        return replace(self, zones=MappingProxyType(zones))

    def nodes_with(self, page_bytes: int) -> int:
        """Return the nodes that have pages of this size."""
        pool = self.pools.get(page_bytes)
        return sum(1 << node for node, amount in pool.capacity_bytes.items() if amount) if pool is not None else 0

    def layout(self, wanted: Sequence[HugePageLimit]) -> "HugePageLayout":
        """Return the promises of these sizes laid out, to try several zones for ``wanted`` beside them."""
        return HugePageLayout(tuple((pages, self._packing(pages.page_bytes)) for pages in wanted))

    def lacking(self, wanted: Sequence[HugePageLimit], zone: int) -> tuple[HugePageLimit, ...]:
        """Return what of ``wanted`` does not fit in the zone beside what is promised to others."""
        return self.layout(wanted).lacking(zone)

    def most(self, page_bytes: int, zone: int) -> int:
        """Return the most bytes of these pages that one more container could have in this zone."""
        packing = self._packing(page_bytes)
        return packing.most(zone) if packing is not None else 0

    def _packing(self, page_bytes: int) -> Packing | None:
        pool = self.pools.get(page_bytes)
        if pool is None:
            return None
        packing = Packing(pool)
        # What does not fit, as after pages were taken away, is left out: it takes nothing from other nodes.
        for promised, amount in self.zones.get(page_bytes, ()):
            packing.add(promised, amount)
        return packing


@dataclass(frozen=True, slots=True)
class HugePageLayout:
    """A container's pages of each size, beside the promises of others; None = the machine has no such pages."""

    packings: tuple[tuple[HugePageLimit, Packing | None], ...]

    def lacking(self, zone: int) -> tuple[HugePageLimit, ...]:
        """Return what does not fit in this zone."""
        return tuple(p for p, packing in self.packings if packing is None or not packing.takes(zone, p.limit_bytes))


def huge_page_account(machine: Machine, nodes: MemoryNodes) -> HugePageAccount:
    """Return the account of a machine of which nothing is promised."""
    found: dict[int, dict[int, int]] = {}
    for node in machine.nodes:
        for pages in node.huge_pages:
            # Nodes without pages of this size too, with none: layouts have an entry for each node of a zone.
            found.setdefault(pages.page_bytes, dict.fromkeys(nodes.capacity_bytes, 0))[node.id] = pages.total_bytes
    pools = {size: replace(nodes, capacity_bytes=MappingProxyType(found[size])) for size in sorted(found)}
    return HugePageAccount(MappingProxyType(pools))
