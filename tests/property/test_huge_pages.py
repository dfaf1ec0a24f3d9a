"""Random histories of containers with huge pages: promises can be kept, and are short only where they have to be."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from policies.base import Allocations, ContainerKey, Grant, HugePageLimit, Placed, Pod, QosClass, Request
from policies.builder import build_policy
from policies.policy import Policy
from policies.preferences import HugePageNodes, Preferences
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine

GI = 1 << 30
SIZES = (2 << 20, GI)
STEPS = 40
SHORT = "hugepages-short"


def machine_of(rng: random.Random) -> Machine:
    nodes = rng.choice((1, 2))
    pages = {
        "1Gi": [rng.randrange(5) for _ in range(2 * nodes)],
        "2Mi": [rng.randrange(2048) for _ in range(2 * nodes)],
    }
    return describe({"packages": 2, "nodes": nodes, "cores": 4, "memory": "16Gi", "hugepages": pages})


def request_of(rng: random.Random, number: int) -> Request:
    qos = rng.choice((QosClass.GUARANTEED, QosClass.BURSTABLE))
    pages = tuple(
        HugePageLimit(size, rng.randrange(1, 3 * GI // size + 1) * size) for size in SIZES if rng.random() < 0.5
    )
    preferences = Preferences(
        huge_pages=HugePageNodes.SPREAD if rng.random() < 0.2 else None, strict_huge_pages=rng.random() < 0.2
    )
    key = ContainerKey(f"uid-{number}", "c")
    pod = Pod(key.pod_uid, f"pod-{number}", "default", qos)
    amount = rng.randrange(1, 3 * GI)
    return Request(
        key,
        pod,
        rng.choice((250, 500, 1000)),
        memory_request_bytes=amount,
        memory_limit_bytes=amount,
        huge_pages=pages,
        preferences=preferences,
    )


def capacity(machine: Machine, size: int, zone: int) -> int:
    return sum(p.total_bytes for n in machine.nodes if zone >> n.id & 1 for p in n.huge_pages if p.page_bytes == size)


def promised(grants: Sequence[Grant], size: int, zone: int) -> int:
    """The bytes of containers that may use no node outside the zone."""
    inside = (g for g in grants if not g.mems.mask & ~zone)
    return sum(p.limit_bytes for g in inside for p in g.request.huge_pages if p.page_bytes == size)


def broken(machine: Machine, grants: Sequence[Grant]) -> list[tuple[int, int]]:
    """The sets of nodes that are promised more than they have, by size: all are tried (Hall)."""
    bits = [1 << node.id for node in machine.nodes]
    zones = [sum(some) for count in range(1, len(bits) + 1) for some in combinations(bits, count)]
    return [
        (size, zone) for size in SIZES for zone in zones if promised(grants, size, zone) > capacity(machine, size, zone)
    ]


def placed(policy: Policy, held: Allocations, request: Request, short: set[ContainerKey]) -> Allocations:
    """The allocations after this request, with what must hold of its answer."""
    decision = policy.decide(held, request)
    codes = [reason.code for reason in (decision.reasons if isinstance(decision, Placed) else (decision.reason,))]
    every = sum(1 << node.id for node in policy.machine.nodes)
    lacking = [
        pages
        for pages in request.huge_pages
        if promised(held.grants, pages.page_bytes, every) + pages.limit_bytes
        > capacity(policy.machine, pages.page_bytes, every)
    ]
    if not isinstance(decision, Placed):
        assert codes in (["strict-hugepages"], ["cpu-full"])
        return held
    if SHORT in codes:
        assert lacking and not request.preferences.strict_huge_pages
        short.add(request.container)
    elif not short:
        assert not lacking
    return held.with_grants(*decision.moved, decision.grant)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_promised_can_be_kept_at_once(seed: int) -> None:
    rng = random.Random(seed)
    machine = machine_of(rng)
    policy = build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.of([0])))
    held, short = Allocations(), set[ContainerKey]()
    for number in range(STEPS):
        live = [grant.container for grant in held.grants]
        if live and rng.random() < 0.4:
            gone = rng.choice(live)
            held = held.without(gone)
            short.discard(gone)
        else:
            held = placed(policy, held, request_of(rng, number), short)
        held = held.with_grants(*policy.narrowed(held))
        assert broken(machine, [grant for grant in held.grants if grant.container not in short]) == []
    again = build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.of([0])))
    assert again.reinstate(held).allocations == held


def test_a_container_without_huge_pages_is_placed_as_if_there_were_no_account_of_them() -> None:
    rng = random.Random(3)
    machine = machine_of(rng)
    policy = build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.of([0])))
    plain = [replace(request_of(rng, number), huge_pages=()) for number in range(8)]
    held = Allocations()
    for request in plain:
        decision = policy.decide(held, request)
        assert isinstance(decision, Placed)
        assert not any(reason.code.startswith("hugepages") for reason in decision.reasons)
        held = held.with_grants(*decision.moved, decision.grant)
