"""The step of a placement in which the container's devices are chosen; what is near them enters the search. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_, or_

from policies.alignment import Alignment
from policies.base import CpuKind, Decision, DeviceLocality, Grant, Placed, Reason, Rejected
from policies.device_grants import DeviceGrant, by_cost, by_place, sources_of, with_given
from policies.device_requests import DeviceAsk
from policies.devices import AnnotationError, DemandError
from policies.topology_aware.devices import reasons
from policies.topology_aware.devices.cost_choice import DeviceStock, choose_by_cost
from policies.topology_aware.devices.held import (
    HeldDevices,
    asks_for_devices,
    earlier_devices,
    fixed_devices,
    rivals,
)
from policies.topology_aware.devices.place_choice import PlaceSearch
from policies.topology_aware.devices.reasons import ChosenDevices
from policies.topology_aware.devices.supply import node_room
from policies.topology_aware.supply.context import Place, PlacementContext, aligned, localities_of, near
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import NodeSet


class DeviceStep:
    """The devices of one decision: chosen once for each set of NUMA nodes that the container is kept within."""

    def __init__(self, context: PlacementContext) -> None:
        """Look for what the container asks for. One that runs has what it has."""
        self._fixed = fixed_devices(context)
        self._context = context
        self._chosen: dict[Alignment | None, ChosenDevices | Rejected] = {}
        self._stock: DeviceStock | None = None
        self._search: PlaceSearch | None = None
        self.lacking: Rejected | None = None
        """Why the container cannot have the devices that it asks for, wherever it is placed."""
        if context.machine_devices is not None and self._fixed is None:
            self._held = HeldDevices(context, context.machine_devices)
            self._look(context.request.preferences.devices)

    def _look(self, asked: DeviceAsk) -> None:
        try:
            if asked.counts:
                self._stock = DeviceStock(self._held, asked.counts)
                self.lacking = self._stock.lacking()
            if asked.requests and self.lacking is None:
                self._search = PlaceSearch(self._beside(()), asked)
                self.lacking = self._search.lacking()
        except (AnnotationError, DemandError) as error:
            self.lacking = Rejected(reasons.refused(str(error)))

    def _beside(self, chosen: tuple[DeviceGrant, ...]) -> HeldDevices:
        """Return what is held, with what others chose for the container and what was chosen by cost."""
        has = (*self._context.request.given, *chosen)
        return replace(self._held, has=has) if has else self._held

    def __call__(self, context: PlacementContext, place: Place) -> Decision:
        """Return the place that the steps after this one find near the devices, with these granted."""
        if not asks_for_devices(context.request) and not self._fixed:
            return place(_without_devices(context))
        chosen = self.chosen(context)
        decision = place(_near(context, chosen.near)) if isinstance(chosen, ChosenDevices) else chosen
        if isinstance(decision, Rejected) or isinstance(chosen, Rejected):
            return decision
        grant = replace(decision.grant, devices=chosen.devices)
        return replace(decision, grant=grant, reasons=(*chosen.reasons, *decision.reasons))

    def chosen(self, context: PlacementContext) -> ChosenDevices | Rejected:
        """Return the devices for a container on the nodes that it is kept within, or why there are none."""
        key = context.request.alignment
        # Passes of the search, and ways with less, ask again for the same nodes.
        if key not in self._chosen:
            self._chosen[key] = self.lacking or self._unchanged() or self._choose(context)
        return self._chosen[key]

    def _choose(self, context: PlacementContext) -> ChosenDevices | Rejected:
        """Choose from each source; where they are apart, on one NUMA node that has all of them, if there is one."""
        chosen = self._of_sources(context)
        # Devices from before stay where they are, apart or not: another choice would give them up.
        if isinstance(chosen, Rejected) or earlier_devices(context) or self._held.left_to_pod:
            return chosen
        for nodes in self._common_nodes(context, chosen.devices):
            alignment = Alignment(nodes, nodes, is_strict=True)
            together = self._of_sources(replace(context, request=aligned(context.request, alignment)))
            if isinstance(together, ChosenDevices):
                return together
        return chosen

    def _common_nodes(self, context: PlacementContext, chosen: Sequence[DeviceGrant]) -> Iterator[NodeSet]:
        """Yield nodes on which devices that are apart may be together, those with most room for the container first.

        Each source puts its own devices together. Devices that the container has already are where they are.
        """
        node, request = self._held.node, context.request
        ours, names = [grant for grant in chosen if not grant.is_given], sources_of(chosen)
        has = [node.nodes_of(grant) for grant in chosen if grant.is_given]
        has += (place.nodes.mask for place in request.localities if _is_device(place) and place.source not in names)
        if sum(map(bool, (by_cost(ours), by_place(ours), any(has)))) < 2:
            return
        masks = [mask for mask in (*has, *map(node.nodes_of, ours)) if mask]
        if reduce(and_, masks, -1):
            return
        every = sum(1 << each.id for each in node.nodes)
        # Devices that it has cannot be others: only their nodes can have all of them.
        usable = reduce(or_, has, 0) & every or every
        within = usable if request.alignment is None else usable & request.alignment.nodes.mask
        room = node_room(context, node.nodes)
        for each in sorted(NodeSet(within), key=lambda each: (room.shortage(1 << each), each)):
            yield NodeSet.of([each])

    def _of_sources(self, context: PlacementContext) -> ChosenDevices | Rejected:
        """Choose by cost, then by place what is asked for so beside it, then add what others chose."""
        node = self._held.node
        first = choose_by_cost(context, self._held, self._stock) if self._stock is not None else ChosenDevices()
        if isinstance(first, Rejected):
            return first
        search = self._search
        if search is not None and first.devices:
            # One GPU may be listed by cost files and by the inventory: chosen by one name it is not free by the other.
            search = PlaceSearch(self._beside(first.devices), context.request.preferences.devices)
        then = search.choose(context) if search is not None else ChosenDevices()
        if isinstance(then, Rejected):
            return then
        taken = {piece for device in first.devices for piece in node.joined.held(device)}
        given = tuple(d for d in context.request.given if taken.isdisjoint(node.joined.held(d)))
        why = (*first.reasons, *then.reasons, *self._why_given(node, given))
        devices = (*first.devices, *map(node.joined.identified, (*then.devices, *given)))
        return ChosenDevices(devices, why, node.localities(devices))

    def _why_given(self, node: MachineDevices, given: Sequence[DeviceGrant]) -> Iterator[Reason]:
        """Yield that others chose these devices, which are granted whatever holds against them, and what does."""
        if not given:
            return
        yield reasons.given(given)
        claims, pod = self._held.claims, self._context.request.container.pod_uid
        for device in given:
            others = tuple(rivals(node.allocator, device, claims, pod))
            if others:
                yield reasons.overlap(device, others)

    def _unchanged(self) -> ChosenDevices | None:
        """Return the devices that a running container has, and where they were when they were chosen."""
        if self._fixed is None:
            return None
        context, node = self._context, self._context.machine_devices
        named, others = by_cost(self._fixed), with_given(by_place(self._fixed), context.request.given)
        devices = (*named, *others)
        places = localities_of(context.request, sources_of(devices))
        if not places and context.own is not None:
            places = localities_of(context.own.request, sources_of(devices))
        known = {place.source for place in places}
        found = node.localities(devices) if node is not None else ()
        places = (*places, *(place for place in found if place.source not in known))
        return ChosenDevices(devices, tuple(reasons.kept(d, runs=True) for d in (named, others) if d), places)


def _is_device(place: DeviceLocality) -> bool:
    """Return whether this is a device of the container, and no mount with data on one."""
    return bool(place.devices) and (place.source.startswith("/dev/") or not place.source.startswith("/"))


def near_given(context: PlacementContext) -> PlacementContext:
    """Return the context with the places of the devices that others chose, which count wherever hints do."""
    given = context.request.given
    if not given or context.machine_devices is None:
        return context
    return replace(context, request=near(context.request, context.machine_devices.localities(given)))


def at_devices_of_now(context: PlacementContext, *, is_chosen: bool) -> PlacementContext:
    """Return the context without an earlier place, where a container comes back with a device that is elsewhere.

    ``is_chosen``: those that are chosen here are among its devices already.
    """
    own, previous = context.own, context.request.previous
    if previous is None or context.runs or not previous.pool:
        return context
    places, given = (previous.near, ()) if own is None else (own.request.localities, own.request.given)
    # Where it was is not known: that is no proof that a device is elsewhere now.
    if places is None:
        return context
    devices = previous.devices if own is None else own.devices
    same = sources_of(devices)  # wherever they are, it was at these
    chosen = () if is_chosen else sources_of([d for d in devices if not d.is_given and d not in given])
    before = {(place.cpus, place.nodes) for place in places if place.source not in chosen}
    now = (place for place in context.request.localities if place.source not in same)
    if before.issuperset((place.cpus, place.nodes) for place in now):
        return context
    if own is not None:
        own = replace(own, request=aligned(own.request, None))
    return replace(context, own=own, request=replace(context.request, previous=previous.of_devices), keeps=False)


def join(context: PlacementContext, sharer: Grant) -> Decision:
    """Return the sharer's place for a container that shares it, with its own devices, on the sharer's nodes first."""
    machine, request = context.tree.machine, context.request
    cpus = sharer.owned.mask or context.tree.named(sharer.pool).hardware
    at = [node.id for node in machine.nodes if node.cpus.mask & cpus]
    alignment = sharer.request.alignment
    if alignment is None and 0 < len(at) < sum(bool(node.cpus) for node in machine.nodes):
        alignment = Alignment(NodeSet.of(at), sharer.mems)
    choose = DeviceStep(context)
    found = choose(replace(context, request=aligned(request, alignment)), partial(_at_place_of, sharer))
    if isinstance(found, Rejected):
        return found
    settled_request = aligned(found.grant.request, sharer.request.alignment)
    return replace(found, grant=replace(found.grant, request=settled_request))


def _at_place_of(sharer: Grant, context: PlacementContext) -> Placed:
    return Placed(replace(sharer, request=context.request, share=None, devices=()))


def _near(context: PlacementContext, places: tuple[DeviceLocality, ...]) -> PlacementContext:
    """Return the context for the search near these places, and no longer near those of an earlier attempt."""
    earlier = frozenset(sources_of(earlier_devices(context)))
    demand, request = context.demand, context.request
    elsewhere = tuple(place for place in request.localities if place.source not in earlier)
    request = near(replace(request, localities=elsewhere) if earlier else request, places)
    if demand.kind is CpuKind.SHARED:
        demand = replace(demand, strict_locality=request.preferences.strict_locality and bool(request.localities))
    context = at_devices_of_now(replace(context, request=request, demand=demand), is_chosen=True)
    return _without_devices(context)


def _without_devices(context: PlacementContext) -> PlacementContext:
    """Return the context for the search, without an earlier grant that had devices and no place."""
    previous = context.request.previous
    if previous is None or previous.pool:
        return context
    return replace(context, request=replace(context.request, previous=None))
