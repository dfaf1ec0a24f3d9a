"""``PlacementContext``: the input of all steps of one placement: request, demand, other grants, supply, options."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from policies.alignment import Alignment, TopologyPolicy
from policies.base import Allocations, ContainerKey, Decision, DeviceLocality, Grant, Request
from policies.device_grants import DeviceGrant, DeviceHolding
from policies.device_requests import NOTHING_ASKED
from policies.hardware.pools import PoolTree
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.demand import Demand, demand_of
from policies.topology_aware.supply.machine_devices import MachineDevices, kept_beside
from policies.topology_aware.supply.supply import Supply, of_pod

ANYWHERE = -1
"""Every CPU, as a mask."""
# So many times as long takes it to look a container up as to compare one.
_LOOK_UP = 16


@dataclass(frozen=True, slots=True)
class PlacementContext:
    """A request, and what the machine and others leave to it.

    ``supply`` and ``others`` are without a grant of the container itself. ``own`` is that grant, if the container runs
    and gets a new size, or is created again.

    ``machine_devices`` are those to choose from; None: none are chosen, and it keeps those that it holds.
    ``devices`` are those of a container that runs, whatever it asks for; None: as the request has it. ``holdings``
    are devices that containers without a grant have.

    ``keeps``: it has a place only where it keeps all of its CPUs, or as many as it asks for. ``within`` are the CPUs to
    choose from, as a mask: those of its nodes. ``kept`` are CPUs that ``supply`` withholds from it for containers with
    devices.
    """

    tree: PoolTree
    options: TopologyAwareOptions
    supply: Supply
    others: tuple[Grant, ...]
    request: Request
    demand: Demand
    own: Grant | None = None
    machine_devices: MachineDevices | None = None
    devices: tuple[DeviceGrant, ...] | None = None
    holdings: tuple[DeviceHolding, ...] = ()
    keeps: bool = False
    within: int = ANYWHERE
    kept: int = 0

    @property
    def asks_for_devices(self) -> bool:
        """Whether it asks for a device, or uses something whose place is known."""
        request = self.request
        return bool(request.localities or request.given) or request.preferences.devices != NOTHING_ASKED

    @property
    def runs(self) -> bool:
        """Whether it is resized, and not created again."""
        return self.request.previous is not None and self.request.previous.is_running

    @property
    def concerns_devices(self) -> bool:
        """Whether it asks for devices or was given some, or may have some from before."""
        request = self.request
        has = request.given or request.previous or self.own or self.devices
        return bool(has) or request.preferences.devices != NOTHING_ASKED

    @property
    def may_be_aligned(self) -> bool:
        """Whether the NUMA nodes that it is kept within are decided, or were before."""
        policy = self.request.preferences.topology_policy or self.options.topology.policy
        return policy is not TopologyPolicy.NONE or self.request.alignment is not None

    @property
    def is_bound(self) -> bool:
        """Whether some CPUs are out of its reach, free or not."""
        demand = self.demand
        is_strict = demand.strict_locality or demand.single_node
        return is_strict or self.request.alignment is not None or self.within != ANYWHERE


Place = Callable[[PlacementContext], Decision]
"""The steps of a placement after one of them, as it gets them: a place in this context."""


def context_of(
    options: TopologyAwareOptions,
    held: Allocations,
    supply: Supply,
    request: Request,
    machine_devices: MachineDevices | None = None,
) -> PlacementContext:
    """Return the input for placing this request. ``supply`` is that of all grants in ``held``.

    A device that the inventory states to be at no node is near nothing, whatever its plugin or the kernel say.
    """
    if machine_devices is not None and (places := machine_devices.somewhere(request.localities)) != request.localities:
        request = replace(request, localities=places)
    own, tree = held.get(request.container), supply.tree
    others = held.without(request.container).grants
    demand = demand_of(request, options, tree.threads_per_core)
    left = supply if own is None else supply.minus(own)
    holdings = held.holdings
    context = PlacementContext(tree, options, left, others, request, demand, own, machine_devices, holdings=holdings)
    return _with_kept(context) if left.accelerators and options.kept_per_device else context


def _with_kept(context: PlacementContext) -> PlacementContext:
    """Return the context of a container without devices, which owns none of the CPUs that are kept for them.

    It keeps those that it owns, or owned before.
    """
    supply, request, own = context.supply, context.request, context.own
    # Sharers use kept CPUs as others do; a claim has its CPUs by another allocator's word.
    if not context.demand.whole or context.asks_for_devices or request.claim is not None:
        return context
    # CPUs that it owns are not taken from it by an option that came later, nor by a device that became free.
    its = own.owned.mask if own is not None else 0
    its |= request.previous.owned.mask if request.previous is not None else 0
    ownable = supply.shared[0] & ~supply.withheld & ~its
    count, shifts = context.options.kept_per_device, context.tree.sibling_shifts
    kept = kept_beside(supply.free_accelerators, count, ownable, shifts)
    return replace(context, supply=replace(supply, withheld=supply.withheld | kept), kept=kept)


def without_kept(context: PlacementContext) -> PlacementContext:
    """Return the context in which no CPUs are kept for containers with devices."""
    supply = context.supply
    return replace(context, supply=replace(supply, withheld=supply.withheld & ~context.kept), kept=0)


def pod_of(context: PlacementContext) -> Iterator[Grant]:
    """Yield the grants of its pod's other containers."""
    return of_pod(context.others, context.request.container.pod_uid)


def grants_of(others: Sequence[Grant], containers: Collection[ContainerKey]) -> tuple[Grant, ...]:
    """Return the grants of these containers in their order; ``others`` are in that order, too."""
    if _LOOK_UP * len(containers) > len(others):
        return tuple(grant for grant in others if grant.container in containers)
    found = []
    for container in sorted(containers):
        i = bisect_left(others, container, key=lambda grant: grant.container)
        if i < len(others) and others[i].container == container:
            found.append(others[i])
    return tuple(found)


def with_moved(context: PlacementContext, moved: tuple[Grant, ...]) -> Supply:
    """Return the supply with these grants of others where they move to."""
    return context.supply.changed(grants_of(context.others, {grant.container for grant in moved}), moved)


def settled(request: Request, grant: Grant) -> Request:
    """Return the request as it stays with this grant: within its NUMA nodes, near the devices chosen for it."""
    return near(aligned(request, grant.request.alignment), localities_of(grant.request, grant.device_sources))


def localities_of(request: Request, devices: Collection[str]) -> tuple[DeviceLocality, ...]:
    """Return where these devices of an inventory are, as far as the request has it."""
    return tuple(place for place in request.localities if place.source in devices) if devices else ()


def near(request: Request, places: tuple[DeviceLocality, ...]) -> Request:
    """Return the request with these places of devices, in place of those of the same names and devices."""
    if not places:
        return request
    names = {place.source for place in places}
    devices = {device for place in places for device in (place.source, *place.devices)}
    # A device that has several names counts once: else it would weigh twice against the others.
    others = (h for h in request.localities if not (h.devices and devices.issuperset(h.devices)))
    found = (*(place for place in others if place.source not in names), *places)
    return request if found == request.localities else replace(request, localities=found)


def aligned(request: Request, alignment: Alignment | None) -> Request:
    """Return the request of a container that is kept within these nodes; None = anywhere."""
    return request if request.alignment == alignment else replace(request, alignment=alignment)
