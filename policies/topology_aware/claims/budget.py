"""Hold what a claim by the author of a pod takes to what the pod requests. Pure.

A pod's annotation can change between the creations of its containers, and some may have no whole request. So a claim
counts beside what the other containers have, and they beside it, up to the CPU request of the pod.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from policies.base import Allocations, ContainerKey, Decision, Grant, Placed, Reason, Request
from policies.claims import CpuClaim
from policies.topology_aware.claims import reasons
from policies.topology_aware.pod_request import has_all_cpu, siblings_of


@dataclass(frozen=True, slots=True)
class PaidRequest:
    """A request, with another claim than it came with where there is a ``why``."""

    request: Request
    why: tuple[Reason, ...] = ()

    def told(self, decision: Decision) -> Decision:
        """Return the decision about the request, with what became of its claim."""
        if not self.why or not isinstance(decision, Placed):
            return decision
        return replace(decision, reasons=(*decision.reasons, *self.why))


def paid_for(held: Allocations, request: Request) -> PaidRequest:
    """Return the request of a container with a claim for which its pod pays.

    A claim for which the other containers leave too little does not count. Where the pod has CPUs by a claim, and they
    leave too little for others, the container runs there with those that have them.
    """
    claim, own, siblings = request.claim, held.get(request.container), siblings_of(held, request.container)
    # The annotation of a pod may change between two of its containers: the first claim is the one that it pays for.
    theirs = next((g.request.claim for g in siblings if _has_claim_of_pod(g)), None)
    is_bounded = theirs is not None if claim is None else claim.by_pod and claim != theirs
    # What it was granted stays through resizes and restarts; the pod's own resize takes it (``unpaid_claims``).
    is_placed = own is not None and own.request.claim == claim
    if not is_bounded or is_placed or not request.pod_request_mcpu or _shares_the_rest(request):
        return PaidRequest(request)
    mcpu = request.cpu_request_mcpu if claim is None else 1000 * len(claim.cpus)
    others_mcpu = _booked_mcpu(grant for grant in siblings if not _gives_way(grant, request))
    if mcpu + others_mcpu <= request.pod_request_mcpu:
        return PaidRequest(request)
    # The pod has paid for those CPUs: beside them it has nothing left for CPUs of this container alone.
    if theirs is not None:
        return PaidRequest(replace(request, claim=theirs), (reasons.of_pod(theirs, request.pod_request_mcpu),))
    why = (reasons.unpaid(claim, request.pod_request_mcpu, others_mcpu),) if claim is not None else ()
    return PaidRequest(replace(request, claim=None), why)


def unpaid_claims(held: Allocations, pod_uid: str, requested_mcpu: int) -> tuple[Grant, ...]:
    """Return the containers that have CPUs by a claim for which their pod, of this request, does not pay any more."""
    grants = siblings_of(held, ContainerKey(pod_uid, ""))
    if _booked_mcpu(grant for grant in grants if not _shares_its_pods(grant)) <= requested_mcpu:
        return ()
    return tuple(grant for grant in grants if _has_claim_of_pod(grant))


def _has_claim_of_pod(grant: Grant) -> bool:
    claim = grant.request.claim
    return claim is not None and claim.by_pod and bool(grant.owned)


def _shares_the_rest(request: Request) -> bool:
    """Return whether it shares with others of its pod what claims leave of the pod's CPUs, and so takes no more."""
    return request.claim is None and request.pod_totals is not None and request.pod_totals.shares_cpu


def _gives_way(grant: Grant, request: Request) -> bool:
    """Return whether this other container of the pod has of the pod's CPUs what a new one leaves."""
    totals = request.pod_totals
    alone_has_all = totals is not None and grant.request.claim is None and has_all_cpu(grant, request, totals)
    return alone_has_all or _shares_its_pods(grant)


def _shares_its_pods(grant: Grant) -> bool:
    return grant.shares_cpus and grant.request.claim is None


def _booked_mcpu(grants: Iterable[Grant]) -> int:
    """Return what containers of a pod have together, those with the same claim once."""
    booked: dict[CpuClaim | ContainerKey, int] = {}
    for grant in grants:
        claim = grant.request.claim if grant.owned else None
        booked[claim or grant.container] = grant.request.cpu_request_mcpu if claim is None else 1000 * len(claim.cpus)
    return sum(booked.values())
