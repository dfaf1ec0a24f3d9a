"""``Decisions``: decide where an owner of a grant goes, a container or a pod that shares; the supply of all. Pure."""

from dataclasses import replace

from policies.base import Allocations, Decision, Grant, Pinnings, Placed, Rejected, Request
from policies.device_grants import DeviceGrant
from policies.hardware.pools import PoolTree
from policies.topology_aware import reasons
from policies.topology_aware.devices.held import claims_of, with_claims_counted
from policies.topology_aware.devices.step import join
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.pinning import OtherGrants, Pinned, changed_pinnings, pinning_of
from policies.topology_aware.place import overcommit, place
from policies.topology_aware.rebalance import with_rebalanced
from policies.topology_aware.supply.context import PlacementContext, context_of, grants_of, without_kept
from policies.topology_aware.supply.machine_devices import MachineDevices, holders_of
from policies.topology_aware.supply.supply import Supply, updated_supply
from sysfs.cpuset import CpuSet


class Decisions:
    """Decisions on one machine, under one set of options. Stateless but for the last supply and pinnings, cached."""

    def __init__(self, empty: Supply, options: TopologyAwareOptions, devices: MachineDevices) -> None:
        """``empty`` is the supply of the machine's pools where nothing is granted or withheld."""
        self.empty = replace(empty, accelerators=devices.accelerators)
        self.options = options
        self.devices = devices
        self._last = (Allocations(), self.empty)
        self._pinned = Pinned((), self.empty)

    @property
    def tree(self) -> PoolTree:
        """The machine's pools."""
        return self.empty.tree

    def empty_beside(self, held: Allocations) -> Supply:
        """Return the supply without grants, of which these allocations withhold some CPUs."""
        devices = [device for holding in held.holdings for device in holding.devices]
        return replace(self.empty, withheld=held.withheld.mask, holders=holders_of(devices) if devices else {})

    def supply(self, held: Allocations) -> Supply:
        """Return what is left beside these grants of owners."""
        last, supply = self._last
        if last is held:
            return supply
        # Mostly one grant of hundreds differs: only the difference is booked.
        if (last.withheld, last.holdings) == (held.withheld, held.holdings):
            supply = updated_supply(supply, last.grants, held.grants)
        else:
            supply = self.empty_beside(held).plus(*held.grants)
        # One assignment of a pair: re-plans decide in a thread meanwhile.
        self._last = (held, supply)
        return supply

    def pinnings(self, held: Allocations) -> Pinnings:
        """Return what every owner of a grant should be pinned to now."""
        if self._pinned.grants is not held.grants or self._pinned.supply is not self.supply(held):
            self._pinned = self._pinned.with_grants(held.grants, self.supply(held), self.options)
        return self._pinned.pinnings

    def context(self, held: Allocations, request: Request) -> PlacementContext:
        """Return the input for placing this request."""
        return context_of(self.options, held, self.supply(held), request, self.devices)

    def decide(self, held: Allocations, request: Request) -> Decision:
        """Decide where this container goes, given what others hold."""
        context = self.context(held, request)
        placement = place(context)
        if context.kept:
            placement = _with_kept(context, placement)
        if isinstance(placement, Rejected):
            return placement
        after = _supply_with(context, placement)
        # Only ordinary CPUs that are owned leave a shared set; nothing else squeezes a sharer.
        if placement.grant.exclusive and context.others:
            rebalanced = with_rebalanced(context, held, placement, after)
            if rebalanced.moved != placement.moved:
                after = _supply_with(context, rebalanced)
            placement = rebalanced
        return self._completed(held, context, placement, after)

    def decide_running(self, held: Allocations, request: Request, *, devices: tuple[DeviceGrant, ...]) -> Decision:
        """Decide where a container goes that runs already: with these devices but those of others, and no more."""
        context = self._running(self.context(held, request), devices)
        return self._complete(held, context, place(context))

    def _running(self, context: PlacementContext, devices: tuple[DeviceGrant, ...]) -> PlacementContext:
        """Return the context of a container that runs with these devices, also where others hold them too."""
        # Its processes have them open: none is free while a holder lives (docs/adr/0016-device-allocation.md).
        claims, pod = claims_of(context.others, self.devices.joined), context.request.container.pod_uid
        return replace(context, devices=with_claims_counted(self.devices.allocator, devices, claims, pod)[0])

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
        context = self.context(held, request)
        context = replace(context, own=own)
        return join(context if devices is None else self._running(context, devices), sharer)

    def overcommitted(self, held: Allocations, request: Request, refused: Rejected) -> Decision:
        """Return a place in a wide pool, with no CPU time booked, for a container that only shares CPUs."""
        context = self.context(held, request)
        return self._complete(held, context, overcommit(context, refused))

    def _complete(self, held: Allocations, context: PlacementContext, placement: Decision) -> Decision:
        """Return the decision with the pinnings that follow from it."""
        if isinstance(placement, Rejected):
            return placement
        return self._completed(held, context, placement, _supply_with(context, placement))

    def _completed(self, held: Allocations, context: PlacementContext, placement: Placed, after: Supply) -> Placed:
        """Return the placement with the pinnings that follow from the supply with it."""
        before = self.supply(held)
        updates = changed_pinnings(before, after, OtherGrants(context.others, placement.moved), self.options)
        why = placement.reasons
        if updates:
            why += (reasons.displaced(CpuSet(before.shared[0] & ~after.shared[0]), len(updates)),)
        pinning = pinning_of(placement.grant, after, after.effective(), self.options)
        return replace(placement, pinning=pinning, updates=updates, reasons=why)


def _supply_with(context: PlacementContext, placed: Placed) -> Supply:
    """Return the supply with this placement."""
    moved = placed.moved
    was = grants_of(context.others, {grant.container for grant in moved})
    return context.supply.changed(was, (*moved, placed.grant))


def _with_kept(context: PlacementContext, placement: Decision) -> Decision:
    """Return the decision with what it says of the CPUs that are kept beside accelerators: they refuse it, or may."""
    why = reasons.device_cpus_kept(CpuSet(context.kept), context.options.device_cpus)
    if isinstance(placement, Placed):
        return replace(placement, reasons=(*placement.reasons, why))
    # Refused without the kept CPUs as well: they are not the reason.
    if isinstance(place(without_kept(context)), Rejected):
        return placement
    return replace(placement, reason=reasons.device_cpus_refused(context.demand, why))
