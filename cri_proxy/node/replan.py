"""Run a re-plan on a thread, again if the ledger changed meanwhile; take wishes that are restricted now from grants."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from cri_proxy.cri.annotations.read import without_refused
from cri_proxy.cri.annotations.rules import AnnotationRules
from policies.base import Allocations, ContainerKey, Grant, Request
from policies.device_grants import by_cost, by_place
from policies.policy import Policy
from policies.topology_aware import unpaid_claims

T = TypeVar("T")

# A node decides a few times a second at most and a re-plan takes milliseconds. After so many lost races it is made on
# the loop, where no decision can come in between.
RACES = 5


async def off_loop(version: Callable[[], object], prepare: Callable[[], Callable[[], T]]) -> T:
    """Run the work that ``prepare`` returns on a thread, again where ``version`` has changed meanwhile.

    No ``await`` lies between the last check and the return, so the caller may apply the result.
    """
    for _ in range(RACES):
        before = version()
        result = await asyncio.to_thread(prepare())
        if version() == before:
            return result
    return prepare()()


@dataclass(frozen=True, slots=True)
class Admitted:
    """Grants without the wishes that ``restrictedAnnotations`` does not admit.

    ``requests`` are of containers that have to be placed again for that; ``held`` is without them. ``why`` is what
    each lost.
    """

    held: Allocations
    requests: tuple[Request, ...]
    why: Mapping[ContainerKey, str]


def admit(held: Allocations, rules: AnnotationRules) -> Admitted:
    """Take wishes that are restricted from live containers: these were read before the restriction was there."""
    requests: list[Request] = []
    why: dict[ContainerKey, str] = {}
    # What the operator refuses to new containers is not left to those that came before the restriction.
    for grant in held.grants if rules.restricted else ():
        # What runs has its devices open: they go with its next creation.
        has = (("devices.counts", by_cost(grant.devices)), ("devices.requests", by_place(grant.devices)))
        stay = [name for name, devices in has if devices]
        request, reason = without_refused(grant.request, rules, stay=stay)
        if not reason:
            continue
        why[grant.container] = reason
        if _is_placed_alike(request, grant.request):
            held = held.with_grants(replace(grant, request=request))
        else:
            held = held.without(grant.container)
            requests.append(replace(request, previous=grant.as_previous))
    return Admitted(held, tuple(requests), why)


def without_unpaid_claims(
    policy: Policy, held: Allocations, pod_uid: str, requested_mcpu: int
) -> tuple[tuple[Grant, ...], str]:
    """Return all grants without the claims for which a pod does not pay since it requests so much, and why."""
    lost = unpaid_claims(held, pod_uid, requested_mcpu)
    for grant in lost:
        held = held.without(grant.container)
    requests = [replace(grant.request, claim=None, previous=grant.as_previous) for grant in lost]
    grants = policy.reinstate(held, requests).allocations.grants if lost else ()
    return grants, f"its pod requests {requested_mcpu}m now, which no longer pays for the CPUs that were claimed for it"


def _is_placed_alike(request: Request, other: Request) -> bool:
    """Whether two requests differ in nothing that decides about a place."""
    one, two = (
        replace(
            each, origins=(), preferences=replace(each.preferences, notify=(), resource_files=None, thread_counts=None)
        )
        for each in (request, other)
    )
    return one == two
