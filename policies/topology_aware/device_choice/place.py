"""Place a container with its devices: these are chosen first, and what is near them enters the same search. Pure."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from policies.alignment import Alignment
from policies.base import CpuKind, Decision, Grant, Placed, Rejected
from policies.device_grants import sources_of
from policies.topology_aware.device_choice.allocation import allocate
from policies.topology_aware.device_choice.choice import choose_devices
from policies.topology_aware.device_choice.inventory import asks_for_devices, earlier_devices, fixed_devices
from policies.topology_aware.supply.context import PlacementContext, aligned, near
from sysfs.cpuset import NodeSet

Place = Callable[[PlacementContext], Decision]


def place_with_devices(context: PlacementContext, place: Place) -> Decision:
    """Return the place that ``place`` finds, near the devices that are chosen for the container, with these granted."""
    if not asks_for_devices(context.request) and not fixed_devices(context):
        return place(_without_devices(context))
    choice = choose_devices(context)
    if isinstance(choice, Rejected):
        return choice
    allocation = allocate(replace(context, chosen=choice.devices) if choice.devices else context)
    if isinstance(allocation, Rejected):
        return allocation
    earlier = frozenset(sources_of(earlier_devices(context)))
    context = _without_devices(context)
    demand = context.demand
    elsewhere = tuple(hint for hint in context.request.hints if hint.source not in earlier)
    request = near(replace(context.request, hints=elsewhere) if earlier else context.request, choice.near)
    request = near(request, allocation.near)
    if demand.kind is CpuKind.SHARED:
        demand = replace(demand, strict_hints=request.preferences.strict_hints and bool(request.hints))
    decision = place(replace(context, request=request, demand=demand))
    if isinstance(decision, Rejected):
        return decision
    grant = replace(decision.grant, devices=(*choice.devices, *allocation.devices))
    return replace(decision, grant=grant, reasons=(*choice.reasons, *allocation.reasons, *decision.reasons))


def join(context: PlacementContext, fellow: Grant) -> Decision:
    """Return the fellow's place for a container that shares it, with its own devices, on the fellow's nodes first."""
    machine, request = context.tree.machine, context.request
    cpus = fellow.owned.mask or context.tree.named(fellow.pool).hardware
    at = [node.id for node in machine.nodes if node.cpus.mask & cpus]
    alignment = fellow.request.alignment
    if alignment is None and 0 < len(at) < sum(bool(node.cpus) for node in machine.nodes):
        alignment = Alignment(NodeSet.of(at), fellow.mems)
    found = place_with_devices(replace(context, request=aligned(request, alignment)), partial(_at_place_of, fellow))
    if isinstance(found, Rejected):
        return found
    settled_request = aligned(found.grant.request, fellow.request.alignment)
    return replace(found, grant=replace(found.grant, request=settled_request))


def _at_place_of(fellow: Grant, context: PlacementContext) -> Placed:
    return Placed(replace(fellow, request=context.request, share=None, devices=()))


def _without_devices(context: PlacementContext) -> PlacementContext:
    """Return the context for the search, without an earlier grant that had devices and no place."""
    previous = context.request.previous
    if previous is None or previous.pool:
        return context
    return replace(context, request=replace(context.request, previous=None))
