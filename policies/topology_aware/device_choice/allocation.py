"""Allocate the devices of the inventory that a container asks for, by their place to each other. Pure.

What goes together is decided by ``policies.devices``; here: what others hold, what the container had or was given, and
the NUMA nodes that it is kept within (``allocation_search`` finds those with room for its CPUs and memory).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from policies.base import DeviceLocality, Reason, Rejected
from policies.device_grants import DeviceAsk, DeviceGrant, by_place, sources_of, with_given
from policies.devices.allocate import CannotAllocate, DeviceAllocator, DeviceQuestion
from policies.devices.annotations import read_annotations
from policies.devices.demand import DemandError
from policies.devices.fields import AnnotationError
from policies.topology_aware.device_choice import allocation_reasons as reasons
from policies.topology_aware.device_choice.allocation_conflict import claims_of, held_by_others, held_by_pod, rivals
from policies.topology_aware.device_choice.allocation_places import places_on
from policies.topology_aware.device_choice.allocation_search import AllocationSearch, FoundAllocation
from policies.topology_aware.device_choice.inventory import earlier_devices, fixed_devices
from policies.topology_aware.supply.context import PlacementContext, localities_of, near


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of a container by type and minor, where they are, and why."""

    devices: tuple[DeviceGrant, ...] = ()
    near: tuple[DeviceLocality, ...] = ()
    reasons: tuple[Reason, ...] = ()


@lru_cache(maxsize=256)  # a request is decided several times: hints, passes, overcommitment
def question_of(asked: DeviceAsk) -> DeviceQuestion:
    """Return what a container asks for. Raises AnnotationError."""
    return DeviceQuestion(dict(asked.requests), read_annotations(dict(asked.annotations)))


def allocation_refused(context: PlacementContext) -> Rejected | None:
    """Return why the container cannot have the devices that it asks for, wherever it is placed."""
    asked, allocator = context.request.preferences.allocation, context.allocator
    if asked is None or allocator is None or fixed_devices(context) is not None:
        return None
    try:
        question = question_of(asked)
        found = allocator.allocate(question, held_by_others(context), own=held_by_pod(context))
    except (AnnotationError, DemandError) as error:
        return Rejected(reasons.refused(str(error)))
    return _refused(context, allocator, question, found.problem) if isinstance(found, CannotAllocate) else None


def near_given(context: PlacementContext) -> PlacementContext:
    """Return the context with the places of the devices that others chose, which count wherever hints do."""
    if not context.request.given:
        return context
    return replace(context, request=near(context.request, _localities(context, context.request.given)))


def allocate(context: PlacementContext) -> Allocation | Rejected:
    """Return the devices of the container, on the NUMA nodes that it is kept within, beside those that it was given."""
    fixed = fixed_devices(context)
    if fixed is not None:
        return _unchanged(context, with_given(by_place(fixed), context.request.given))
    asked, allocator = context.request.preferences.allocation, context.allocator
    if asked is None or allocator is None:
        return _settled(context, (), ())
    try:
        question = question_of(asked)
        return _chosen(context, allocator, question)
    except (AnnotationError, DemandError) as error:
        return Rejected(reasons.refused(str(error)))


def _chosen(context: PlacementContext, allocator: DeviceAllocator, question: DeviceQuestion) -> Allocation | Rejected:
    """Return the devices on the container's nodes, else where its topology policy allows it anywhere. May raise."""
    search = AllocationSearch(context, allocator, question, held_by_others(context), held_by_pod(context))
    earlier = tuple(grant for grant in by_place(earlier_devices(context)) if not grant.is_given)
    alignment = context.request.alignment
    found = search.find(alignment.nodes.mask if alignment is not None else None, earlier)
    why = [reasons.read(question.annotations.warnings)] if question.annotations.warnings else []
    if isinstance(found, CannotAllocate) and alignment is not None:
        if alignment.is_strict:
            return Rejected(reasons.outside(found.problem, alignment))
        why.append(reasons.beyond(alignment, found.problem))
        found = search.find(None, earlier)
    if isinstance(found, CannotAllocate):
        return _refused(context, allocator, question, found.problem)
    return _settled(context, found.answer.grants, (*_why(allocator, found, earlier), *why))


def _why(allocator: DeviceAllocator, found: FoundAllocation, earlier: Sequence[DeviceGrant]) -> list[Reason]:
    answer = found.answer
    if found.is_earlier:
        return [reasons.kept(answer.grants, runs=False)]
    why = [reasons.lost(earlier)] if earlier else []
    if answer.grants:
        why.append(reasons.allocated(allocator, answer.grants, answer.choices, found.passed_over))
    return why


def _refused(context: PlacementContext, allocator: DeviceAllocator, question: DeviceQuestion, problem: str) -> Rejected:
    if not allocator.inventory.devices:
        problem += (
            "; name an inventory in devices.inventory, or set devices.scan;"
            " where one is named, `cri-proxy status` says why nothing of it counts"
        )
    kinds = [demand.kind for demand in allocator.demands(question)]
    return Rejected(reasons.refused(problem, kinds, claims_of(context.others, context.allocator)))


def _settled(context: PlacementContext, chosen: tuple[DeviceGrant, ...], why: tuple[Reason, ...]) -> Allocation:
    """Return chosen devices with those that others chose, which are granted whatever holds against them."""
    given = _not_chosen(context)
    if given:
        why = (*why, reasons.given(given), *_overlaps(context, given))
    devices = (*chosen, *given)
    if context.allocator is not None:
        devices = tuple(map(context.allocator.joined.identified, devices))
    return Allocation(devices, _localities(context, devices), why)


def _not_chosen(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return the devices that others chose for the container, without those that are chosen for it by cost as well."""
    given, allocator = context.request.given, context.allocator
    if not given or not context.chosen or allocator is None:
        return given
    chosen = {piece for device in context.chosen for piece in allocator.joined.held(device)}
    return tuple(device for device in given if chosen.isdisjoint(allocator.joined.held(device)))


def _overlaps(context: PlacementContext, given: Sequence[DeviceGrant]) -> list[Reason]:
    if context.allocator is None:
        return []
    claims, pod = claims_of(context.others, context.allocator), context.request.container.pod_uid
    found = [(device, tuple(rivals(context.allocator, device, claims, pod))) for device in given]
    return [reasons.overlap(device, others) for device, others in found if others]


def _unchanged(context: PlacementContext, allocated: tuple[DeviceGrant, ...]) -> Allocation:
    """Return the devices that it has, and where they were when they were chosen."""
    if not allocated:
        return Allocation()
    sources = sources_of(allocated)
    saved = localities_of(context.request, sources)
    if not saved and context.own is not None:
        saved = localities_of(context.own.request, sources)
    names = {place.source for place in saved}
    found = tuple(place for place in _localities(context, allocated) if place.source not in names)
    return Allocation(allocated, (*saved, *found), (reasons.kept(allocated, runs=True),))


def _localities(context: PlacementContext, allocated: tuple[DeviceGrant, ...]) -> tuple[DeviceLocality, ...]:
    if context.allocator is None or not allocated:
        return ()
    return places_on(context.tree.machine, context.allocator).localities(allocated)
