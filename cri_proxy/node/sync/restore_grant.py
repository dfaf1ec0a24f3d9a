"""Rebuild a live container's grant from its annotation and cpuset, or return a request to place it again. Pure.

The annotation stays as it was at creation while a container is resized, narrowed and warmed: the live cpuset wins.
Where the cpuset and the request determine the result, the grant is restored exactly. Elsewhere the container is placed
again and asks for what it certainly has.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cri_proxy.cri.claim import claimed
from cri_proxy.cri.grant_text import GrantParts, GrantTextError, grant_parts_from_text
from cri_proxy.cri.read_status import Existing
from policies.base import ContainerKey, CpuKind, Grant, Previous, QosClass, Request
from policies.device_grants import DeviceGrant, by_place, cost_names
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices.costs import type_of
from policies.pod_share import PodShare
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine, MemoryKind


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """``grant`` None: to be placed again by ``request``, which names what it had as far as that is known.

    ``is_known``: its grant annotation can be used.
    """

    request: Request
    grant: Grant | None = None
    is_known: bool = True


def rebuild(found: Existing, machine: Machine) -> Rebuilt:
    """Return the request and grant of this container, as far as they can be determined."""
    parts = _parts_of(found.grant_text)
    if parts is None:
        return Rebuilt(_with_devices(found.request, ()), is_known=False)
    request = _with_devices(found.request, parts.devices)
    request = request if parts.claim is None else claimed(request, parts.claim)
    found = replace(found, request=request)
    return Rebuilt(replace(request, previous=_previous(parts, found.cpus)), _as_it_is(found, parts, machine))


def keeps_wishes(grant_text: str, *, is_running: bool) -> bool:
    """Return whether a container has what its annotations ask for at the expense of others, wherever these count now.

    ``grant_text`` is our annotation ('' = it was not created through us).
    """
    parts = _parts_of(grant_text)
    if parts is None:
        return is_running
    return parts.kind in (CpuKind.PRESERVE, CpuKind.RESERVED) or parts.reserved_mcpu > 0


def _parts_of(grant_text: str) -> GrantParts | None:
    try:
        return grant_parts_from_text(grant_text) if grant_text else None
    except GrantTextError:
        return None


def _as_it_is(found: Existing, parts: GrantParts, machine: Machine) -> Grant | None:
    """Return the grant where annotation, cpuset and request determine it."""
    if parts.devices and parts.kind is CpuKind.PRESERVE:
        return _grant(found, parts, CpuSet(), machine)  # no cpuset tells more of it
    # Its CPUs cannot be compared with the annotation, which is as old as the container.
    if found.cpus is None:
        return None
    owned = parts.exclusive | parts.isolated
    asked = _granted_for(found.request, parts, found.cpus)
    if parts.kind in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED):
        # On more CPUs than its pod asks for it was put by others, as by ``reset``, and they say nothing of its own.
        if _shares_cpus(parts) and owned <= found.cpus and len(found.cpus) > _most(found.request, machine):
            return _grant(found, parts, owned, machine)
        now = _owner_now(asked, owned, found.cpus, machine)
        return None if now is None else _grant(found, parts, now, machine)
    # What a container shares is in no cpuset: only an unchanged request tells that it is still what the annotation has.
    is_same = _is_on(owned, found.cpus, machine) and _is_as_created(asked, parts, machine)
    return _grant(found, parts, owned, machine) if is_same else None


def _previous(parts: GrantParts, cpus: CpuSet | None) -> Previous | None:
    """Return the place that the container had; whatever becomes of its CPUs, its processes have its devices open."""
    if cpus is None or parts.kind in (CpuKind.RESERVED, CpuKind.PRESERVE) or not parts.pool:
        return Previous("", CpuSet(), devices=parts.devices) if parts.devices else None
    had = (parts.exclusive | parts.isolated) & cpus
    added = _held(parts.added, had)
    return Previous(parts.pool, had, added, alignment=parts.alignment, devices=parts.devices)


def _with_devices(request: Request, held: tuple[DeviceGrant, ...]) -> Request:
    """Return the request with as many devices as the container has.

    What runs gets none any more, where it was created without them, and keeps its own, where its pod may not ask now.
    """
    asked, counts = request.preferences.devices, Counter(map(type_of, cost_names(held)))
    had = DeviceAsk(tuple(DeviceAmount(kind, counts[kind]) for kind in sorted(counts)))
    if by_place(held):
        had = replace(had, requests=asked.requests, annotations=asked.annotations)
    return request if had == asked else replace(request, preferences=replace(request.preferences, devices=had))


def _granted_for(request: Request, parts: GrantParts, cpus: CpuSet) -> Request:
    """Return the request with what is booked for all containers that share its pod's CPUs, if it does.

    Where they only own CPUs these tell: others of the pod may have taken some since.
    """
    if parts.share is None or parts.share.cpu_mcpu is None:
        return request
    owns_all = parts.kind in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED)
    return replace(request, cpu_request_mcpu=1000 * len(cpus) if owns_all else parts.share.cpu_mcpu)


def _shares_cpus(parts: GrantParts) -> bool:
    return parts.share is not None and parts.share.cpu_mcpu is not None


def _most(request: Request, machine: Machine) -> int:
    """Return how many CPUs containers that share their pod's own at most: each has the pod's limit, or its own."""
    return max(
        _counts(replace(request, cpu_request_mcpu=max(request.cpu_request_mcpu, request.cpu_limit_mcpu or 0)), machine)
    )


def united(found: Iterable[tuple[Rebuilt, CpuSet | None]], held: Iterable[Grant] = ()) -> dict[ContainerKey, Grant]:
    """Return the grants that could be rebuilt; where containers share their pod's CPUs, as copies of one.

    ``found`` has the live CPUs of each; what is ``held`` already counts first. The annotation of the first of them was
    written before another one came: it does not say that it shares, nor what it has left.
    """
    all_found = [(rebuilt.request, rebuilt.grant, cpus) for rebuilt, cpus in found]
    known = (*(grant for _, grant, _ in all_found if grant is not None), *held)
    sharing = {(grant.container.pod_uid, grant.request.claim): grant for grant in known if grant.shares_cpus}
    grants: dict[ContainerKey, Grant] = {}
    for request, grant, cpus in all_found:
        one = sharing.get((request.container.pod_uid, request.claim))
        if one is not None and (_is_on_all_of(cpus, one) or (grant is not None and grant.shares_cpus)):
            own = grant.share if grant is not None else None
            share = replace(one.share or PodShare(), memory_bytes=(own or one.share or PodShare()).memory_bytes)
            grants[request.container] = replace(one, request=replace(request, previous=None), share=share)
        elif grant is not None:
            grants[request.container] = grant
    return grants


def _is_on_all_of(cpus: CpuSet | None, grant: Grant) -> bool:
    return cpus is not None and bool(grant.owned) and grant.owned <= cpus


def _owner_now(request: Request, owned: CpuSet, cpus: CpuSet, machine: Machine) -> CpuSet | None:
    """Return the CPUs and hidden siblings of a container that shares nothing; None when nothing fits.

    CPUs that another allocator has chosen are not others after a resize.
    """
    if request.claim is not None:
        return owned if cpus == owned else None
    if cpus == owned or _hides_siblings(owned, cpus, machine):
        return owned
    # A resize keeps the container's CPUs: it adds some or gives some back.
    is_resized = owned <= cpus or cpus <= owned
    return (
        cpus if is_resized and len(cpus) in _counts(request, machine) and not request.cpu_request_mcpu % 1000 else None
    )


def _is_on(owned: CpuSet, cpus: CpuSet, machine: Machine) -> bool:
    """Return whether a container that shares others runs on what it owns: on all of it, or one thread of each core."""
    return owned <= cpus or _hides_siblings(owned, owned & cpus, machine)


def _hides_siblings(owned: CpuSet, cpus: CpuSet, machine: Machine) -> bool:
    """Return whether ``cpus`` are one thread of each of the cores that ``owned`` consists of."""
    if not cpus <= owned:
        return False
    cores = [core.cpus & owned for core in machine.cores if not core.cpus.isdisjoint(owned)]
    return any(len(core) > 1 for core in cores) and all(len(core & cpus) == 1 for core in cores)


def _counts(request: Request, machine: Machine) -> tuple[int, int]:
    """Return how many CPUs the whole part of the request may be: as asked, or rounded up to whole cores."""
    whole = request.cpu_request_mcpu // 1000
    threads = max(len(core.cpus) for core in machine.cores)
    return whole, -(-whole // threads) * threads


def _is_as_created(request: Request, parts: GrantParts, machine: Machine) -> bool:
    """Whether the request is still the one that these parts were granted for."""
    mcpu = 0 if request.pod.qos is QosClass.BEST_EFFORT else request.cpu_request_mcpu
    match parts.kind:
        case CpuKind.MIXED:
            count = len(parts.exclusive | parts.isolated)
            return count in _counts(request, machine) and parts.shared_mcpu == mcpu % 1000
        case CpuKind.SHARED:
            return parts.shared_mcpu == mcpu
        case CpuKind.RESERVED:
            return parts.reserved_mcpu == mcpu
        case _:
            return True


def _grant(found: Existing, parts: GrantParts, owned: CpuSet, machine: Machine) -> Grant:
    """Return the grant with these CPUs; those that it was not created with count as one growth, the last."""
    created = parts.exclusive | parts.isolated
    isolated = parts.isolated if owned == created else owned & machine.isolated
    mems, spill = _zone(parts, found.mems)
    return Grant(
        request=replace(found.request, previous=None, alignment=parts.alignment),
        pool=parts.pool,
        kind=parts.kind,
        exclusive=owned - isolated,
        isolated=isolated,
        shared_mcpu=parts.shared_mcpu,
        reserved_mcpu=parts.reserved_mcpu,
        mems=mems,
        added=_held((*parts.added, owned - created), owned),
        is_cold=_is_cold(found.request, parts.mems, mems, machine),
        share=_share_of(parts, owned),
        spill=spill,
        devices=parts.devices,
    )


def _share_of(parts: GrantParts, owned: CpuSet) -> PodShare | None:
    """Return its share of its pod's CPUs and memory, at the size that its CPUs have now."""
    share = parts.share
    if share is None or share.cpu_mcpu is None or parts.kind not in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED):
        return share
    return replace(share, cpu_mcpu=1000 * len(owned))


def _zone(parts: GrantParts, live: NodeSet | None) -> tuple[NodeSet, NodeSet]:
    """Return the zone and what it spills to, which together are the live nodes, as far as these are known."""
    if not live or live == parts.mems | parts.spill:
        return parts.mems, parts.spill
    if not parts.spill or not parts.spill <= live:  # it spills no longer
        return live, NodeSet()
    return (parts.mems & live) | (live - parts.spill) or live, parts.spill


def _held(added: tuple[CpuSet, ...], owned: CpuSet) -> tuple[CpuSet, ...]:
    """Return the growths that are still held, oldest first."""
    return tuple(held for cpus in added if (held := cpus & owned))


def _is_cold(request: Request, created: NodeSet, mems: NodeSet, machine: Machine) -> bool:
    """Return whether it asked for a cold start and still has only the PMEM that it began with."""
    slow = NodeSet.of(node.id for node in machine.nodes if node.kind is MemoryKind.PMEM)
    return request.preferences.cold_start_seconds > 0 and bool(mems) and mems == created and mems <= slow
