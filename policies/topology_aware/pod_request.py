"""Find what a request changes about what the containers of its pod share: who shares, and how much is booked. Pure.

Of a pod with resources of its own, containers with a request of their own get it, and the others share the rest
(docs/placement.md, section 2). Whether the figures of a sandbox are such or a sum shows when a second container has all
of them: live containers of a pod that asks container by container never have more than the sum together.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Request
from policies.claims import CpuClaim
from policies.device_requests import NOTHING_ASKED
from policies.pod_share import PodShare, PodTotals
from policies.preferences import Preferences
from policies.topology_aware.supply.memory_account import promised_bytes
from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class Arrival:
    """A container that is placed, and its pod as it is then.

    ``share`` is what the container has of its pod; None = it asks for itself. ``shares`` are those of the other live
    containers that share, ``sharers`` those of them on the pod's CPUs. ``is_again``: it has a grant and is to be
    placed again, while what its pod asks for stays.
    """

    request: Request
    share: PodShare | None = None
    sharers: tuple[Grant, ...] = ()
    shares: Mapping[ContainerKey, PodShare] = field(default_factory=dict)
    is_again: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether it asks for itself, in a pod where that changes nothing for others."""
        return self.share is None and not self.shares

    @property
    def joins(self) -> bool:
        """Return whether the container runs on CPUs that its pod has already."""
        return bool(self.sharers) and self.share is not None and self.share.cpu_mcpu is not None


def arrival_of(held: Allocations, request: Request) -> Arrival:
    """Return what this request, of a new container or one with a grant, means for its pod."""
    bare = replace(request, pod_totals=None) if request.pod_totals is not None else request
    own = held.get(request.container)
    share = own.share if own is not None else None
    totals, claim = request.pod_totals, request.claim
    # A preserved container runs on CPUs of its own making: it neither has nor takes a part of its pod's.
    if (totals is None and share is None and claim is None) or request.preferences.preserve_cpu:
        return Arrival(bare)
    siblings = [g for g in siblings_of(held, request.container) if g.kind is not CpuKind.PRESERVE]
    if totals is None and (share is not None or claim is None):  # placed again as it is
        sharers = tuple(g for g in siblings if own is not None and g.shares_cpus_with(own))
        shares = {g.container: g.share for g in siblings if g.share is not None}
        return Arrival(bare, share, sharers, shares, is_again=True)
    cpu = _cpu(bare, totals, siblings) if claim is None else _claimed_cpu(bare, claim, totals, siblings)
    memory = _memory(bare, totals, siblings)
    shares = {
        grant.container: PodShare(
            cpu.booked if cpu.has(grant) else _kept(grant, claim), memory.booked if memory.has(grant) else None
        )
        for grant in siblings
        if cpu.has(grant) or memory.has(grant)
    }
    has_pods_figures = totals is not None and totals.shares_cpu
    if has_pods_figures and not cpu.is_shared and (cpu.others or claim is not None):
        bare = replace(bare, cpu_request_mcpu=0)  # the others share all that is left: it asked for other CPUs
    sharers = tuple(grant for grant in siblings if cpu.has(grant))
    has_own_figures = not cpu.is_shared or cpu.booked == bare.cpu_request_mcpu
    if not shares and has_own_figures and (not memory.is_shared or memory.booked == promised_bytes(bare)):
        return Arrival(bare)  # as in any pod with one container
    mine = PodShare(cpu.booked if cpu.is_shared else None, memory.booked if memory.is_shared else None)
    return Arrival(bare, mine if mine != PodShare() else None, sharers, shares)


def _kept(grant: Grant, claim: CpuClaim | None) -> int | None:
    """Return what is booked for those that share other CPUs than these of a claim, or of the pod; else None."""
    return None if grant.share is None or grant.request.claim == claim else grant.share.cpu_mcpu


def siblings_of(held: Allocations, container: ContainerKey) -> list[Grant]:
    """Return the grants of the other containers of its pod."""
    found = []
    start = bisect_left(held.grants, container.pod_uid, key=lambda grant: grant.container.pod_uid)
    for grant in held.grants[start:]:
        if grant.container.pod_uid != container.pod_uid:
            break
        if grant.container != container:
            found.append(grant)
    return found


@dataclass(frozen=True, slots=True)
class _Shared:
    """Of one resource: the other containers that share it, whether this one does, and what is booked for all."""

    others: frozenset[ContainerKey]
    is_shared: bool
    booked: int

    def has(self, grant: Grant) -> bool:
        return grant.container in self.others


def _claimed_cpu(request: Request, claim: CpuClaim, totals: PodTotals | None, siblings: list[Grant]) -> _Shared:
    """Return who has the CPUs of the same claim, which are booked once; else who shares what it leaves of the pod's."""
    mcpu = 1000 * len(claim.cpus)
    keys = frozenset(grant.container for grant in siblings if grant.request.claim == claim and grant.owned)
    if keys or totals is None:
        return _Shared(keys, bool(keys), mcpu)
    return _cpu(replace(request, cpu_request_mcpu=mcpu), replace(totals, shares_cpu=False), siblings)


def _cpu(request: Request, totals: PodTotals | None, siblings: list[Grant]) -> _Shared:
    is_sum = totals is not None and totals.cpu_limit_mcpu is not None  # over containers, where one has no limit
    if totals is None or (is_sum and any(grant.request.cpu_limit_mcpu is None for grant in siblings)):
        return _Shared(frozenset(), is_shared=False, booked=request.cpu_request_mcpu)
    unclaimed = [grant for grant in siblings if grant.request.claim is None]
    sharing = [grant for grant in unclaimed if grant.shares_cpus or has_all_cpu(grant, request, totals)]
    # One with other preferences cannot be of the same owner: it is placed by itself (docs/placement.md, section 2).
    is_alike = all(_wants_alike(grant.request.preferences, request.preferences) for grant in sharing)
    is_shared = totals.shares_cpu and is_alike
    keys = frozenset(grant.container for grant in sharing)
    own_mcpu = sum(grant.request.cpu_request_mcpu for grant in unclaimed if grant.container not in keys)
    claimed = CpuSet.of_masks(grant.owned.mask for grant in siblings if grant.request.claim is not None)
    # By their CPUs, not their requests: containers with one claim own it together.
    own_mcpu += 1000 * len(claimed)
    if not is_shared:
        own_mcpu += request.cpu_request_mcpu if is_alike or not totals.shares_cpu else 0
    return _Shared(keys, is_shared, max(0, totals.cpu_request_mcpu - own_mcpu))


def has_all_cpu(grant: Grant, request: Request, totals: PodTotals) -> bool:
    """Return whether a container that was placed alone has all of the pod's figures."""
    limit, its = totals.cpu_limit_mcpu, grant.request
    # A kubelet that enforces no quotas (cpuCFSQuota: false) writes shares alone, which have to tell.
    if limit is None:
        return totals.shares_cpu and its.cpu_request_mcpu == request.cpu_request_mcpu
    return its.cpu_limit_mcpu == limit == its.cpu_request_mcpu


def _wants_alike(one: Preferences, other: Preferences) -> bool:
    """Return whether two containers differ in nothing that decides about their CPUs and memory."""
    plain, others = (
        replace(each, notify=(), resource_files=None, thread_counts=None, devices=NOTHING_ASKED)
        for each in (one, other)
    )
    return plain == others


def _memory(request: Request, totals: PodTotals | None, siblings: list[Grant]) -> _Shared:
    limit, promised = totals.memory_limit_bytes if totals is not None else None, promised_bytes(request)
    # A container without the limit that its sandbox has shows that the figure is a sum.
    if totals is None or limit is None or any(grant.request.memory_limit_bytes is None for grant in siblings):
        return _Shared(frozenset(), is_shared=False, booked=promised)
    keys = frozenset(grant.container for grant in siblings if _has_all_memory(grant, limit))
    own_bytes = sum(promised_bytes(grant.request) for grant in siblings if grant.container not in keys)
    if not totals.shares_memory:
        own_bytes += promised
    return _Shared(keys, totals.shares_memory, max(0, limit - own_bytes))


def _has_all_memory(grant: Grant, limit_bytes: int) -> bool:
    if grant.share is not None and grant.share.memory_bytes is not None:
        return True
    return grant.request.memory_limit_bytes == limit_bytes == promised_bytes(grant.request)
