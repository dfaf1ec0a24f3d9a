"""``PodDecisions``: decide for pods with resources of their own, whose containers share a grant; others pass. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from policies.base import (
    Allocations,
    ContainerKey,
    Decision,
    Grant,
    Pinnings,
    Placed,
    Previous,
    Reason,
    Reinstated,
    Rejected,
    Request,
    Update,
)
from policies.device_grants import DeviceGrant
from policies.pod_share import PodShare
from policies.topology_aware import reasons
from policies.topology_aware.claims.budget import paid_for
from policies.topology_aware.decisions import Decisions
from policies.topology_aware.pod_request import Arrival, arrival_of, siblings_of
from policies.topology_aware.pod_view import PodView, booked, pod_view
from policies.topology_aware.reinstate import claims_first, reinstate
from policies.topology_aware.supply.context import aligned, settled
from policies.topology_aware.supply.memory_account import promised_bytes
from sysfs.cpuset import CpuSet

_Decide = Callable[[Allocations, Request], Decision]


class PodDecisions:
    """Decisions about containers, for each of which one about its owner is made: itself, or what it shares."""

    def __init__(self, decisions: Decisions) -> None:
        """``decisions`` are those about owners."""
        self._decisions = decisions
        empty = Allocations()
        self._last = PodView(empty, empty)

    def view(self, held: Allocations) -> PodView:
        """Return these grants by owner."""
        if self._last.held is not held:
            self._last = pod_view(held, self._last)
        return self._last

    def decide(self, held: Allocations, request: Request, decide: _Decide) -> Decision:
        """Place this container where ``decide`` places its owner, with its pod's others or by itself."""
        claims = (request.claim, *(grant.request.claim for grant in siblings_of(held, request.container)))
        paid = paid_for(held, request) if any(claims) else None
        arrival = arrival_of(held, request if paid is None else paid.request)
        decision = self._missed(held, arrival) or self._decide(held, arrival, decide)
        return decision if paid is None else paid.told(decision)

    def _missed(self, held: Allocations, arrival: Arrival) -> Rejected | None:
        """Return why a new container cannot have all CPUs of its claim, where others of its pod have a part of them.

        Those had all of them before, and keep those that are available.
        """
        claim, sharers = arrival.request.claim, arrival.sharers
        is_new = held.get(arrival.request.container) is None
        if claim is None or not (is_new and arrival.joins) or sharers[0].owned == claim.cpus:
            return None
        for sharer in sharers:
            held = held.without(sharer.container)
        decision = self._decisions.decide(self.view(held).owners, arrival.request)
        return decision if isinstance(decision, Rejected) else None

    def _decide(
        self, held: Allocations, arrival: Arrival, decide: _Decide, devices: tuple[DeviceGrant, ...] | None = None
    ) -> Decision:
        """Place a container as its pod wants it; ``devices`` are those that it runs with, None: it is new."""
        if arrival.is_plain:
            return self._alone(held, arrival, decide)
        present = {grant.container: grant for grant in held.grants}
        if arrival.is_again:
            return self._again(held, replace(present[arrival.request.container], request=arrival.request), decide)
        shared = held.with_grants(*(replace(present[key], share=share) for key, share in arrival.shares.items()))
        if arrival.joins:
            sharer = present[arrival.sharers[0].container]
            request = aligned(arrival.request, sharer.request.alignment)
            # A copy of CPUs and memory alone: devices are each container's own.
            joined = replace(sharer, request=request, share=arrival.share, devices=())
            shared = shared.with_grants(joined)
        after = self._refitted(held, shared, arrival)
        if isinstance(after, Rejected):
            return after
        if arrival.joins:
            return self._joined(held, after, arrival, devices)
        decision = self._alone(after, arrival, decide)
        if isinstance(decision, Rejected):
            return decision
        after = after.with_grants(*decision.moved, decision.grant)
        return self._placed(held, after, arrival.request.container, decision)

    def _joined(
        self, held: Allocations, after: Allocations, arrival: Arrival, devices: tuple[DeviceGrant, ...] | None
    ) -> Decision:
        """Place a container on its pod's CPUs, as in ``after``, with devices of its own."""
        request, own = arrival.request, held.get(arrival.request.container)
        has = devices or (own is not None and own.devices) or request.given
        if not (has or request.preferences.devices):
            return self._placed(held, after, request.container)
        others = self.view(after.without(request.container)).owners
        sharer = next(grant for grant in after.grants if grant.container == arrival.sharers[0].container)
        decision = self._decisions.joined(others, request, sharer, own, devices)
        if isinstance(decision, Rejected):
            return decision
        grant = replace(decision.grant, share=arrival.share)
        why = (*_why(after, grant), *decision.reasons)
        return self._placed(held, after.with_grants(grant), request.container, replace(decision, reasons=why))

    def _alone(self, held: Allocations, arrival: Arrival, decide: _Decide) -> Decision:
        """Place the container by itself, with what its pod shares where it is the first that does."""
        view = self.view(held)
        decision = decide(view.owners, _asked(arrival))
        if isinstance(decision, Rejected) or (arrival.is_plain and not view.members):
            return decision
        request = settled(arrival.request, decision.grant)
        grant = replace(decision.grant, request=request, share=arrival.share)
        updates = tuple(update for update in view.updates(decision.updates) if update.container != grant.container)
        why = (*_why(held.with_grants(grant), grant), *decision.reasons)
        return replace(decision, grant=grant, moved=tuple(view.each(decision.moved)), updates=updates, reasons=why)

    def _again(self, held: Allocations, own: Grant, decide: _Decide) -> Decision:
        """Place a container with a grant again, and with it all that share its CPUs."""
        view = self.view(held.with_grants(own))
        owner = _owner_in(view, own.container)
        previous = own.request.previous
        if len(view.containers(own.container)) > 1 and owner.devices:  # the devices of all of them stay
            previous = replace(previous or Previous("", CpuSet()), is_running=True)
        decision = decide(view.owners, replace(owner.request, previous=previous))
        if isinstance(decision, Rejected):
            return decision
        after = view.held.with_grants(*view.each((*decision.moved, decision.grant)))
        return self._placed(held, after, own.container, decision)

    def _refitted(self, held: Allocations, shared: Allocations, arrival: Arrival) -> Allocations | Rejected:
        """Return the grants ``shared``, with those on the pod's CPUs at its new size.

        Growth for which there is no room is refused to a container that is on these CPUs and is resized with its pod. A
        new one shares what there is.
        """
        if not arrival.sharers:
            return shared
        key = arrival.sharers[0].container
        was, view = _owner_in(self.view(held), key), self.view(shared)
        owner = _owner_in(view, key)
        mcpu = was.request.cpu_request_mcpu
        grows_memory = promised_bytes(owner.request) > promised_bytes(was.request)
        has_same_size = (owner.request.cpu_request_mcpu, owner.request.huge_pages) == (mcpu, was.request.huge_pages)
        claimed = CpuSet() if arrival.joins or arrival.request.claim is None else arrival.request.claim.cpus
        if owner.owned.isdisjoint(claimed) and has_same_size and not grows_memory:
            return shared
        owners = view.owners
        if claimed:  # what it has got before the claim was known, it gives up; its other CPUs it keeps
            owner = replace(owner, exclusive=owner.exclusive - claimed, isolated=owner.isolated - claimed)
            owners = replace(owners.with_grants(owner), withheld=owners.withheld | claimed)
        # As running: those on these CPUs keep them, and their devices.
        decision = self._decisions.decide(owners, replace(owner.request, previous=owner.as_running))
        if isinstance(decision, Placed):
            return shared.with_grants(*view.each((*decision.moved, decision.grant)))
        own = held.get(arrival.request.container)
        # Refused, a resize leaves the kubelet with the old size; a new container shares what there is.
        if own is not None and own.shares_cpus:
            return decision
        members = view.members[owner.container]
        return shared.with_grants(*(replace(g, share=replace(g.share or PodShare(), cpu_mcpu=mcpu)) for g in members))

    def _placed(
        self, held: Allocations, after: Allocations, container: ContainerKey, decision: Placed | None = None
    ) -> Placed:
        """Return the placement that leads from ``held`` to ``after``."""
        present = {grant.container: grant for grant in held.grants}
        old, new = self.pinnings(held), self.pinnings(after)
        others = [grant for grant in after.grants if grant.container != container]
        grant = next(grant for grant in after.grants if grant.container == container)
        return Placed(
            grant,
            pinning=new[container],
            updates=tuple(
                Update(g.container, new[g.container]) for g in others if new[g.container] != old[g.container]
            ),
            moved=tuple(g for g in others if g is not present[g.container] and g != present[g.container]),
            # A placement by itself says so already.
            reasons=decision.reasons if decision is not None else _why(after, grant),
            ranking=decision.ranking if decision is not None else (),
        )

    def pinnings(self, held: Allocations) -> Pinnings:
        """Return what every container should be pinned to now."""
        view = self.view(held)
        pinnings = self._decisions.pinnings(view.owners)
        if not view.members:
            return pinnings
        return {grant.container: pinnings[view.owner(grant.container)] for grant in held.grants}

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Keep every grant that is legal here, place the others again, then place ``requests``. Refuse nothing.

        Containers that share are kept or placed again together.
        """
        # Under the policy none nothing was shared: such a grant, with its pod's totals, is placed as if it came now.
        late = [replace(g.request, previous=None) for g in held.grants if g.request.pod_totals is not None]
        kept = held
        for request in late:
            kept = kept.without(request.container)
        requests = (*late, *requests)
        # Who shares shows with each container that comes, which a list placed at once cannot tell.
        one_by_one = any(request.pod_totals is not None or request.claim is not None for request in requests)
        done = self._each_of(kept, () if one_by_one else requests)
        devices = {grant.container: grant.devices for grant in held.grants}
        return self._added(done, requests, devices) if one_by_one else done

    def _each_of(self, held: Allocations, requests: Sequence[Request]) -> Reinstated:
        view = self.view(held)
        result = reinstate(self._decisions, view.owners, requests)
        if not view.members:
            return result
        replaced, unplaced = _of_each(view, result.replaced), _of_each(view, result.unplaced)
        return Reinstated.of(view.as_held(result.allocations), replaced, unplaced)

    def _added(
        self, done: Reinstated, requests: Sequence[Request], devices: Mapping[ContainerKey, tuple[DeviceGrant, ...]]
    ) -> Reinstated:
        """Place the requests one by one, with the devices that they have: which of them share shows with each."""
        held, replaced, unplaced = done.allocations, dict(done.replaced), dict(done.unplaced)
        for asked in claims_first(requests):
            request = paid_for(held, asked).request
            had = devices.get(request.container, ()) if request.previous is None else request.previous.devices
            running = partial(self._decisions.decide_running, devices=had)
            decision = self._decide(held, arrival_of(held, request), running, had)
            if isinstance(decision, Placed):
                held = held.with_grants(*decision.moved, decision.grant)
                replaced[request.container] = reasons.ADDED
            else:
                previous = request.previous or Previous("", CpuSet(), devices=had)
                # It runs: where its pod has no room for it, it shares the root by itself rather than be refused.
                shared = self._each_of(held, (replace(request, pod_totals=None, previous=previous),))
                held = shared.allocations
                unplaced.update(shared.unplaced)
        return Reinstated.of(held, replaced, unplaced)


def _asked(arrival: Arrival) -> Request:
    """Return the request of a container by itself; of what its pod shares, what is booked with it."""
    request, share = arrival.request, arrival.share
    if share is None:
        return request
    mcpu = request.cpu_request_mcpu if share.cpu_mcpu is None else share.cpu_mcpu
    if share.memory_bytes is None:
        return booked(request, mcpu, promised_bytes(request))
    is_with_another = any(its.memory_bytes is not None for its in arrival.shares.values())
    # The pod's limit is promised once, and another container has that promise already.
    return booked(request, mcpu, 0 if is_with_another else share.memory_bytes)


def _owner_in(view: PodView, container: ContainerKey) -> Grant:
    """Return the grant that stands for this container's."""
    key = view.owner(container)
    return next(grant for grant in view.owners.grants if grant.container == key)


def _of_each(view: PodView, found: Iterable[tuple[ContainerKey, Reason]]) -> dict[ContainerKey, Reason]:
    return {key: reason for owner, reason in found for key in view.containers(owner)}


def _why(held: Allocations, grant: Grant) -> tuple[Reason, ...]:
    """Return the sentence about what a container shares with its pod; none for one that does not."""
    if grant.share is None:
        return ()
    names = tuple(g.container.name for g in held.grants if g.shares_cpus_with(grant))
    return (reasons.pod_shared(grant, names),)
