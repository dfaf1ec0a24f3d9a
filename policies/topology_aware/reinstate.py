"""Keep saved grants that are legal on this machine, place others and new requests; the unplaceable share the root."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from policies.alignment import TopologyOptions
from policies.base import Allocations, ContainerKey, CpuKind, Grant, QosClass, Reason, Reinstated, Rejected, Request
from policies.claims import CpuClaim
from policies.device_grants import DeviceGrant, by_cost, by_place, with_given
from policies.topology_aware import reasons
from policies.topology_aware.claims import reasons as claim_reasons
from policies.topology_aware.claims.place import available_part
from policies.topology_aware.decisions import Decisions
from policies.topology_aware.devices import reasons as device_reasons
from policies.topology_aware.devices.held import claims_of, with_claims_counted
from policies.topology_aware.memory import reasons as memory_reasons
from policies.topology_aware.memory import reinstate as memory
from policies.topology_aware.memory.home import LocalMemory, in_pool
from policies.topology_aware.memory.spill import spilling
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.place import place
from policies.topology_aware.reason_codes import ReasonCode
from policies.topology_aware.supply.context import PlacementContext, context_of, settled
from policies.topology_aware.supply.demand import demand_of, has_overflowed
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet

_QOS_ORDER = {QosClass.GUARANTEED: 0, QosClass.BURSTABLE: 1, QosClass.BEST_EFFORT: 2}


def reinstate(decisions: Decisions, held: Allocations, requests: Sequence[Request]) -> Reinstated:
    """Keep every grant that is legal here, place the others again, then place the requests in their order.

    A container that ``place`` rejects shares the root with nothing booked, and is reported. All of them run: each has
    the devices that it had, whatever the inventory has now.
    """
    work = _Reinstatement(decisions, held)
    illegal = []
    for grant in sorted(held.grants, key=_urgency):
        reason = work.keep(grant)
        if reason is not None and grant.request.claim is not None:
            work.add(work.again(grant), reason, keep=grant.request, old=grant)  # the others may have any CPUs
        elif reason is not None:
            illegal.append((grant, reason))
    work.rezone()
    for grant, reason in illegal:
        work.add(work.again(grant), reason, keep=grant.request, old=grant)
    for request in claims_first(requests):
        work.add(work.resized(request), reasons.ADDED, keep=request)
    work.relieve()
    return work.result()


def claims_first(requests: Sequence[Request]) -> list[Request]:
    """Return the requests with those first whose CPUs are decided: the others may have any."""
    return sorted(requests, key=lambda request: request.claim is None)


def _urgency(grant: Grant) -> tuple[bool, int, int, int, ContainerKey]:
    """Return the order in which grants are kept, smallest first: those whose CPUs others chose, then by QoS class."""
    request = grant.request
    # A container that the policy none placed owns nothing; its request gives its size.
    order = _QOS_ORDER[request.pod.qos]
    return (request.claim is None, order, -len(grant.owned), -request.cpu_request_mcpu, grant.container)


class _Reinstatement:
    """The grants and reasons while they are rebuilt; never leaves this module."""

    def __init__(self, decisions: Decisions, saved: Allocations) -> None:
        self._tree, self._options, self._machine_devices = decisions.tree, decisions.options, decisions.devices
        self._saved = saved
        self._held = Allocations((), saved.withheld, saved.holdings)
        self._supply = decisions.empty_beside(saved)  # of ``_held``
        self._replaced: dict[ContainerKey, Reason] = {}
        self._unplaced: dict[ContainerKey, Reason] = {}
        self._lost: dict[ContainerKey, Reason] = {}  # devices that two saved grants have
        self._without_nodes: list[Grant] = []  # as saved; some of their memory nodes are gone

    def keep(self, grant: Grant) -> Reason | None:
        """Keep the grant as it is, or return why not. Memory nodes that are gone are no reason (``rezone``)."""
        problem = why_illegal(self._options, self._supply, grant)
        if problem:
            return reasons.illegal(problem)
        claim = grant.request.claim
        # A CPU of its claim is online, or free, again: it is placed again to own it.
        if claim is not None and grant.owned and (back := self._left_of(claim, grant.container) - grant.owned):
            return claim_reasons.came_back(claim, back)
        grant = self._with_claims_counted(grant)
        # Cgroup v1 takes no cpuset.mems with a node that is offline (EINVAL).
        if grant.spill.mask & ~self._supply.memory.nodes.every:
            grant = replace(grant, spill=NodeSet(grant.spill.mask & self._supply.memory.nodes.every))
        supply = self._supply.plus(grant)
        if not supply.holds():
            return reasons.illegal(f"{grant.pool} no longer covers {grant.shared_mcpu}m beside what others hold")
        self._held, self._supply = self._held.with_grants(grant), supply
        if memory.missing_nodes(supply, grant):
            self._without_nodes.append(grant)
        return None

    def rezone(self) -> None:
        """Give containers that lost memory nodes what is left of them, and others instead. They keep their CPUs."""
        for saved in self._without_nodes:
            own = self._held.get(saved.container) or saved  # it may have been widened for another one
            supply = self._supply.minus(own)
            *others, grant = memory.rezoned(supply, self._held.without(own.container).grants, own)
            self._moved(others)
            self._take(*others, grant)
            gone = memory.missing_nodes(supply, saved)
            self._replaced[own.container] = memory_reasons.rezoned(grant.mems.mask, gone=gone)

    def relieve(self) -> None:
        """Widen zones in which more is promised than they hold. Their nodes may have less memory than before."""
        if not self._replaced and not self._unplaced:
            return  # all as saved: a restart changes nothing
        for grant in memory.widened_for_promises(self._supply, self._held.grants):
            self._take(grant)
            self._note(grant, memory_reasons.rezoned(grant.mems.mask, gone=0))

    def again(self, grant: Grant) -> Request:
        """Return the request of a grant that cannot be kept, with its pool and what is free of its CPUs as previous."""
        root, supply, previous = self._tree.root, self._supply, grant.as_previous
        if previous is not None:
            owned = grant.owned.mask & (root.sharable | root.isolated) & ~supply.owned & ~supply.withheld
            # In a wider pool its CPUs could be in two packages, and would stay there.
            previous = replace(previous, owned=CpuSet(owned), only_there=owned != grant.owned.mask)
        return replace(grant.request, previous=previous)

    def resized(self, request: Request) -> Request:
        """Return the new request of a container with what it holds as previous."""
        own = self._held.get(request.container)
        if own is None or request.previous is not None:
            return request
        return replace(request, previous=own.as_previous)

    def add(self, request: Request, reason: Reason, *, keep: Request, old: Grant | None = None) -> None:
        """Place a container; ``keep`` is the request that its grant remembers, ``old`` what it runs on now."""
        devices = self._devices_of(keep, request, old)
        request, short = self._of_what_is_left(request)
        placement = place(self._context(self._options, request, devices))
        if isinstance(placement, Rejected) and placement.reason.code == ReasonCode.STRICT_TOPOLOGY:
            lenient = replace(self._options, topology=TopologyOptions())  # it runs already
            unmerged = replace(request, preferences=replace(request.preferences, topology_policy=None), alignment=None)
            placement = place(self._context(lenient, unmerged, devices))
        if isinstance(placement, Rejected):
            self._share_root(keep, placement.reason, devices)
            return
        grant = replace(placement.grant, request=settled(keep, placement.grant))
        self._moved(placement.moved)
        self._take(*placement.moved, grant if old is None else memory.keeping_zone(self._supply, old, grant))
        if short is None:
            self._replaced[keep.container] = reason
        else:
            self._unplaced[keep.container] = short

    def _of_what_is_left(self, request: Request) -> tuple[Request, Reason | None]:
        """Return the request with the available CPUs of its claim, and why not all; of all or nothing as it is."""
        claim = request.claim
        if claim is None:
            return request, None
        left = self._left_of(claim, request.container)
        if not left or left == claim.cpus:
            return request, None
        return replace(request, claim=replace(claim, cpus=left)), claim_reasons.cut(claim, left)

    def _left_of(self, claim: CpuClaim, container: ContainerKey) -> CpuSet:
        """Return those of the claim's CPUs that no other container owns, or owned before."""
        # Also of grants that are not kept yet: else the claim would be placed again at each start, without these.
        others = reduce(or_, (g.owned.mask for g in self._saved.grants if g.container != container), 0)
        return CpuSet(available_part(self._tree, claim).mask & ~self._supply.owned & ~others)

    def _context(
        self, options: TopologyAwareOptions, request: Request, devices: tuple[DeviceGrant, ...]
    ) -> PlacementContext:
        context = context_of(options, self._held, self._supply, request, self._machine_devices)
        return replace(context, devices=devices)

    def _devices_of(self, keep: Request, request: Request, old: Grant | None) -> tuple[DeviceGrant, ...]:
        """Return the devices of a running container that is placed again, as another one leaves them."""
        own = old or self._held.get(keep.container)
        if own is None:
            had = request.previous.devices if request.previous is not None else ()
            own = Grant(keep, "", CpuKind.PRESERVE, devices=had)
        return self._with_claims_counted(replace(own, devices=with_given(own.devices, keep.given))).devices

    def _with_claims_counted(self, grant: Grant) -> Grant:
        """Return a grant that has devices of which a kept one is the holder already, as both count, and record that.

        Both containers run and have the devices open: none of these is free while one of them lives.
        """
        if not grant.devices:
            return grant
        others = [g for g in self._held.grants if g.devices and g.container != grant.container]
        pod, claims = grant.container.pod_uid, claims_of(others, self._machine_devices.joined)
        devices, twice = with_claims_counted(self._machine_devices.allocator, grant.devices, claims, pod)
        shares = by_place(twice)
        if lost := by_cost(twice) or shares:
            found = [claim for device in lost for claim in twice[device]]
            self._lost[grant.container] = device_reasons.claimed_twice(lost, found)
        return replace(grant, devices=devices) if shares else grant

    def _moved(self, grants: Sequence[Grant]) -> None:
        """Record why others changed: they moved to a wider pool, or got more memory nodes."""
        for grant in grants:
            before = self._held.get(grant.container)
            has_moved = before is None or before.pool != grant.pool
            self._note(grant, reasons.lifted((grant,)) if has_moved else memory_reasons.others_widened((grant,)))

    def _note(self, grant: Grant, reason: Reason) -> None:
        """Record why a grant differs from the saved one, unless a graver reason is recorded."""
        if grant.container not in self._unplaced:
            self._replaced.setdefault(grant.container, reason)

    def _share_root(self, request: Request, reason: Reason, devices: tuple[DeviceGrant, ...]) -> None:
        # What runs is never refused, and an empty cpuset_cpus restricts nothing in CRI.
        if not self._supply.has_shared_cpus:
            self._give_up_one()
        root, context = self._tree.root, context_of(self._options, self._held, self._supply, request)
        held = NodeSet() if context.own is None else context.own.mems
        plan = memory.plan_leniently(context.supply, context.others, request, LocalMemory(root.mems), held=held)
        kind = CpuKind.RESERVED if context.demand.kind is CpuKind.RESERVED else CpuKind.SHARED
        mcpu = context.demand.reserved_mcpu
        grant = Grant(request, root.name, kind, reserved_mcpu=mcpu, mems=plan.mems, is_cold=plan.is_cold)
        grant = replace(grant, devices=devices)
        held_spill = NodeSet() if context.own is None else context.own.spill
        grant = spilling(context.supply.memory.nodes, grant, self._options, held_spill)
        self._moved(plan.widened)
        self._take(*plan.widened, grant)
        self._unplaced[request.container] = reason

    def _give_up_one(self) -> None:
        """Make the least urgent owner of ordinary CPUs share, so that there is a CPU to share at all."""
        grant = max((g for g in self._held.grants if g.exclusive), key=_urgency)
        # Booked with nothing: what it asks for may not fit beside the shares that are granted.
        bare = replace(grant, kind=CpuKind.SHARED, exclusive=CpuSet(), isolated=CpuSet(), shared_mcpu=0, added=())
        self._take(in_pool(self._supply, bare, self._tree.root.name))
        self._replaced.pop(grant.container, None)
        self._unplaced[grant.container] = reasons.DEMOTED

    def _take(self, *grants: Grant) -> None:
        supply = self._supply
        for grant in grants:
            older = self._held.get(grant.container)
            supply = supply.plus(grant) if older is None else supply.minus(older).plus(grant)
        self._held, self._supply = self._held.with_grants(*grants), supply

    def result(self) -> Reinstated:
        """Return the outcome. Containers whose grant is the same as before are kept."""
        return Reinstated.of(self._held, self._lost | self._replaced, self._unplaced)


def why_illegal(options: TopologyAwareOptions, supply: Supply, grant: Grant) -> str:
    """Return what makes a saved grant impossible here beside those already kept, or ''.

    Options that are only preferences for new containers make no grant illegal: no container moves for them.
    """
    if grant.kind is CpuKind.PRESERVE:
        # Without the annotation to preserve its cpuset, the grant was made under the policy none.
        return "" if grant.request.preferences.preserve_cpu else "it was not placed under the policy none"
    other_kind = _why_other_kind(options, grant)
    if other_kind:
        return other_kind
    if grant.pool not in supply.tree.by_name:
        return f"there is no pool {grant.pool!r}"
    if grant.kind is CpuKind.RESERVED:
        return "" if supply.reserved_set() else "no CPU is reserved or shared"
    return _why_cpus_illegal(supply, grant)


def _why_other_kind(options: TopologyAwareOptions, grant: Grant) -> str:
    """Return why the container is now of another kind: on the reserved CPUs, off them, or preserved."""
    request = grant.request
    wanted = demand_of(request, options).kind
    if wanted is CpuKind.PRESERVE:
        return "its cpuset is to be preserved"
    # One that overflowed shares until the slow check finds room for it: a restart moves no container.
    if (wanted is CpuKind.RESERVED) == (grant.kind is CpuKind.RESERVED or has_overflowed(grant)):
        return ""
    if request.preferences.prefer_reserved is not None:
        return f"its annotation {'asks for' if wanted is CpuKind.RESERVED else 'declines'} the reserved CPUs"
    return f"its namespace {request.pod.namespace} is {'now' if wanted is CpuKind.RESERVED else 'no longer'} reserved"


def _why_cpus_illegal(supply: Supply, grant: Grant) -> str:
    pool = supply.tree.named(grant.pool)
    if grant.exclusive.mask & ~pool.sharable:
        return f"CPUs {grant.exclusive} are not all available and unreserved in {grant.pool}"
    if grant.isolated.mask & ~pool.isolated:
        return f"CPUs {grant.isolated} are not all isolated in {grant.pool}"
    if grant.owned.mask & supply.owned:
        return f"CPUs {grant.owned} are not all free"
    return ""
