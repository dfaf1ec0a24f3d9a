"""Allocate the devices of the inventory that a container asks for, by their place to each other. Pure.

What goes together is decided by ``policies.devices``; here: what others hold, what the container had, and on which NUMA
nodes its CPUs can be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from policies.base import DeviceLocality, Reason, Rejected
from policies.device_grants import DeviceAsk, DeviceGrant, DeviceKey, sources_of
from policies.devices.allocate import CannotAllocate, DeviceAllocator, DeviceQuestion
from policies.devices.annotations import read_annotations
from policies.devices.demand import DemandError
from policies.devices.fields import AnnotationError
from policies.devices.model import PcieGroup
from policies.topology_aware.device_choice import reasons
from policies.topology_aware.device_choice.inventory import fixed_devices
from policies.topology_aware.supply.context import PlacementContext, localities_of
from sysfs.cpuset import NodeSet


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of a container by type and minor, where they are, and why."""

    allocated: tuple[DeviceGrant, ...] = ()
    near: tuple[DeviceLocality, ...] = ()
    reasons: tuple[Reason, ...] = ()


@lru_cache(maxsize=256)  # a request is decided several times: hints, passes, overcommitment
def question_of(asked: DeviceAsk) -> DeviceQuestion:
    """Return what a container asks for. Raises AnnotationError."""
    return DeviceQuestion(dict(asked.requests), read_annotations(dict(asked.annotations)))


def held_by_others(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return what other containers hold of the inventory's devices."""
    return tuple(held for grant in context.others for held in grant.allocated)


def earlier_allocated(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return what an earlier attempt of the container held."""
    if context.own is not None:
        return context.own.allocated
    previous = context.request.previous
    return () if previous is None else previous.allocated


def allocate(context: PlacementContext) -> Allocation | Rejected:
    """Return the devices of the container, on the NUMA nodes that it is kept within, beside those that it was given."""
    fixed = fixed_devices(context)
    if fixed is not None:
        return _unchanged(context, fixed.allocated, runs=True)
    asked, allocator = context.request.preferences.allocation, context.allocator
    if asked is None or allocator is None:
        return Allocation(context.request.given, _localities(context, context.request.given))
    alignment = context.request.alignment
    within = alignment.nodes.mask if alignment is not None and alignment.is_strict else None
    try:
        found = allocator.allocate(question_of(asked), held_by_others(context), within)
    except (AnnotationError, DemandError) as error:
        return Rejected(reasons.allocation_refused(str(error)))
    if isinstance(found, CannotAllocate):
        return Rejected(reasons.allocation_refused(found.problem))
    allocated = (*found.grants, *context.request.given)
    return Allocation(allocated, _localities(context, allocated), (reasons.allocated(found.grants),))


def _unchanged(context: PlacementContext, allocated: tuple[DeviceGrant, ...], *, runs: bool) -> Allocation:
    """Return the devices that it has or had, and where they were when they were chosen."""
    if not allocated:
        return Allocation()
    sources = sources_of(allocated)
    saved = localities_of(context.request, sources)
    if not saved and context.own is not None:
        saved = localities_of(context.own.request, sources)
    return Allocation(
        allocated, saved or _localities(context, allocated), (reasons.allocation_kept(allocated, runs=runs),)
    )


def _localities(context: PlacementContext, allocated: tuple[DeviceGrant, ...]) -> tuple[DeviceLocality, ...]:
    """Return the NUMA node of each device of which it is known, once."""
    if context.allocator is None or not allocated:
        return ()
    nodes = _nodes_of(context.allocator)
    known = {node.id: node.cpus for node in context.tree.machine.nodes}
    found = {}
    for source, grant in zip(sources_of(allocated), allocated, strict=True):
        node = nodes.get(grant.key)
        if node is not None and node in known:
            found[source] = DeviceLocality(source, known[node], NodeSet.of([node]))
    return tuple(found.values())


def _nodes_of(allocator: DeviceAllocator) -> Mapping[DeviceKey, int | None]:
    groups: tuple[PcieGroup, ...] = allocator.groups
    return {device.key: group.numa for group in groups for device in group.devices}
