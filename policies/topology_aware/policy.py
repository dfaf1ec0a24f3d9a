"""``TopologyAware``: the ``Policy`` that delegates each step to modules, caches a supply, lists the pools."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from policies.base import (
    Allocations,
    ContainerKey,
    Decision,
    Grant,
    Pinning,
    Pinnings,
    Placed,
    PoolView,
    Reason,
    Reinstated,
    Rejected,
    Request,
    Update,
)
from policies.device_grants import DeviceGrant
from policies.devices import EMPTY_INVENTORY, DeviceInventory
from policies.hardware.pools import build_pools
from policies.policy import BetterPlaces, Default, Policy
from policies.topology_aware import reasons
from policies.topology_aware.alignment.place import pod_refused
from policies.topology_aware.defaults import defaults_of
from policies.topology_aware.devices.held import claims_of, with_claims_counted
from policies.topology_aware.devices.step import join
from policies.topology_aware.locality.affinity import affinity_reasons
from policies.topology_aware.memory.home import after_cold_start, default_kinds_of
from policies.topology_aware.memory.narrow import NARROWINGS, narrowed
from policies.topology_aware.memory.spill import respilled, spilling
from policies.topology_aware.narrow_pool import in_narrower_pools
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.pinning import all_pinnings, at_live_pools, changed_pinnings, pinning_of
from policies.topology_aware.place import overcommit, place
from policies.topology_aware.placement_rebalance import with_rebalanced
from policies.topology_aware.rebalance import better_places
from policies.topology_aware.reinstate import reinstate
from policies.topology_aware.supply.context import PlacementContext, context_of
from policies.topology_aware.supply.machine_devices import MachineDevices
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply, empty_supply, room_of, updated_supply
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

L3_POOLS = {"auto": None, "true": True, "false": False}


class TopologyAware(Policy):
    """Place containers on pools that follow the hardware. Stateless but for a cache of the last supply."""

    name = "topology-aware"

    def __init__(
        self,
        machine: Machine,
        options: TopologyAwareOptions,
        devices: DeviceInventory = EMPTY_INVENTORY,
    ) -> None:
        """Build the pool tree. Raises PolicyOptionsError when no CPU is available."""
        super().__init__(machine, options, devices)
        self._tree = build_pools(machine, options, l3_pools=L3_POOLS[options.l3_pools])
        self._options = options
        self._machine_devices = MachineDevices(machine, devices, self.known)
        empty = Allocations()
        self._last = (empty, empty_supply(self._tree, 0))

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each hardware level that does not nest, and one where ordinary CPUs are missing."""
        return self._tree.notes

    def _supply(self, held: Allocations) -> Supply:
        last, supply = self._last
        if last is held:
            return supply
        if last.withheld == held.withheld:
            supply = updated_supply(supply, last.grants, held.grants)
        else:
            supply = empty_supply(self._tree, held.withheld.mask).plus(*held.grants)
        self._last = (held, supply)
        return supply

    def defaults(self, request: Request) -> tuple[Default, ...]:
        """Return the options that decide the parts of this request that its annotations leave open."""
        return defaults_of(request, self._options)

    def affinity_reasons(self, held: Allocations, request: Request) -> tuple[Reason, ...]:
        """Return a sentence for each container that attracts or repels this one by affinity, strongest first."""
        return affinity_reasons(self._tree, self._options, held, request)

    def decide(self, held: Allocations, request: Request) -> Decision:
        """Decide where this container goes, given what others hold."""
        before = self._supply(held)
        context = self._context(held, before, request)
        placement = place(context)
        if isinstance(placement, Placed) and placement.grant.exclusive and context.others:
            placement = with_rebalanced(context, held, placement)
        return self._complete(context, before, placement)

    def decide_running(self, held: Allocations, request: Request, *, devices: tuple[DeviceGrant, ...]) -> Decision:
        """Decide where a container goes that runs already: with these devices but those of others, and no more."""
        before = self._supply(held)
        context = self._running(self._context(held, before, request), devices)
        return self._complete(context, before, place(context))

    def _running(self, context: PlacementContext, devices: tuple[DeviceGrant, ...]) -> PlacementContext:
        """Return the context of a container that runs with these devices, also where others hold them too."""
        claims, pod = claims_of(context.others, self.known), context.request.container.pod_uid
        return replace(context, devices=with_claims_counted(self._machine_devices.allocator, devices, claims, pod)[0])

    def joined(
        self,
        held: Allocations,
        request: Request,
        sharer: Grant,
        own: Grant | None,
        devices: tuple[DeviceGrant, ...] | None,
    ) -> Decision:
        """Return the sharer's CPUs and memory for another container of its pod, with devices of its own near them.

        ``held`` is without ``own``, its grant of before. ``devices``: those that it runs with, None: it is new.
        """
        context = self._context(held, self._supply(held), request)
        context = replace(context, own=own)
        return join(context if devices is None else self._running(context, devices), sharer)

    def overcommitted(self, held: Allocations, request: Request, refused: Rejected) -> Decision:
        """Return a place in a wide pool, with no CPU time booked, for a container that only shares CPUs."""
        before = self._supply(held)
        context = self._context(held, before, request)
        return self._complete(context, before, overcommit(context, refused))

    def refused_pod(self, held: Allocations, request: Request) -> Rejected | None:
        """Return why no NUMA nodes satisfy the topology policy for this pod."""
        return pod_refused(self._context(held, self._supply(held), request))

    def _context(self, held: Allocations, supply: Supply, request: Request) -> PlacementContext:
        return context_of(self._options, held, supply, request, self._machine_devices)

    def _complete(self, context: PlacementContext, before: Supply, placement: Decision) -> Decision:
        """Return the decision with the pinnings that follow from it; ``before`` is the supply of all grants."""
        if isinstance(placement, Rejected):
            return placement
        moved = {g.container: g for g in placement.moved}
        pairs = [(g, moved.get(g.container, g) if moved else g) for g in context.others]
        after = context.supply.minus(*(a for a, b in pairs if a is not b)).plus(*placement.moved, placement.grant)
        updates = changed_pinnings(before, after, pairs, self._options)
        why = placement.reasons
        if updates:
            why += (reasons.displaced(CpuSet(before.shared[0] & ~after.shared[0]), len(updates)),)
        pinning = pinning_of(placement.grant, after, after.effective(), self._options)
        return replace(placement, pinning=pinning, updates=updates, reasons=why)

    def pinnings(self, held: Allocations) -> Pinnings:
        """Return what every container should be pinned to now."""
        return all_pinnings(held.grants, self._supply(held), self._options)

    def release(self, held: Allocations, container: ContainerKey) -> tuple[Update, ...]:
        """Return the updates of others that follow when this container's grant is released."""
        own = held.get(container)
        if own is None:
            return ()
        before = self._supply(held)
        others = ((g, g) for g in held.grants if g is not own)
        return changed_pinnings(before, before.minus(own), others, self._options)

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        """Return grants that can give memory nodes back, as they are afterwards: a bounded number, best first.

        Then those that spill as a former option or version said.

        An owner of CPUs that lie in a narrower pool than its own, as after resizes, goes to that pool with them.
        """
        supply = self._supply(held)
        if supply.memory.holds:  # else containers need more nodes, whatever their pool
            after = held.with_grants(*in_narrower_pools(self._options, held, supply))
            found = narrowed(updated_supply(supply, held.grants, after.grants), after.grants)
        else:
            found = narrowed(supply, held.grants)
        changed = {grant.container for grant in found}
        others = (grant for grant in held.grants if grant.container not in changed)
        spills = respilled(supply.memory.nodes, others, self._options)
        return (*found, *islice(spills, max(0, NARROWINGS - len(found))))

    def better_places(self, held: Allocations, after: ContainerKey | None = None) -> BetterPlaces:
        """Return few sharers that a fresh decision would place better, at most ``MovesPerCheck``."""
        return better_places(self._options, held, self._supply(held), after)

    def after_cold_start(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
        """Return the container's grant with DRAM; nothing if it has no cold start."""
        own = held.get(container)
        if own is None or not own.is_cold:
            return ()
        supply = self._supply(held)
        return (spilling(supply.memory.nodes, after_cold_start(supply, own), self._options, own.spill),)

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Keep every grant that is legal here, place the others again, then place ``requests``. Refuse nothing."""
        return reinstate((self._tree, self._options, self._machine_devices), held, requests)

    def at_live(
        self, held: Allocations, requests: Sequence[Request], live: Mapping[ContainerKey, CpuSet]
    ) -> tuple[Allocations, tuple[Request, ...]]:
        """Return grants and requests with the pools in which these containers share CPUs by their live cpusets."""
        # Annotations may say what cannot be, as CPUs with two owners: no later supply may start from that of these.
        supply = empty_supply(self._tree, held.withheld.mask).plus(*held.grants)
        return at_live_pools(self._options, supply, held, requests, live)

    def fallback(self, held: Allocations) -> Pinning:
        """Return the root's shared set, else the reserved CPUs (None if every CPU is owned), and its nodes but HBM."""
        supply = self._supply(held)
        cpus = CpuSet(supply.effective()[0]) or None
        mems = NodeSet(default_kinds_of(supply.memory.nodes, self._tree.root.mems)) or None
        return Pinning(cpus if self._options.pin_cpu else None, mems if self._options.pin_memory else None)

    def pools(self, held: Allocations) -> tuple[PoolView, ...]:
        """Return the pool tree, parents before children."""
        return pool_views(self._supply(held))


def pool_views(supply: Supply) -> tuple[PoolView, ...]:
    """Return every pool with what is left in it, parents before children."""
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
