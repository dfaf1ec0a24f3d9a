"""Random histories in which another allocator has chosen the CPUs of some containers: these and no others are theirs.

The sets that are chosen are random, so many collide with owners, are reserved or offline: those are refused.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, Grant, Request
from policies.preferences import Preferences, Threads
from policies.topology_aware import ReasonCode, TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import random_machine
from tests.fakes.random_claims import random_claim
from tests.property.invariants import check_memory, check_moved, check_restart, check_size, check_updates, check_world
from tests.property.policy_events import Create, Event, Reconfigure, Step, World
from tests.property.policy_history import random_event, start
from tests.property.random_requests import random_request

STEPS = 60
SEEDS = (*range(16), 1018, 1041, 1081)  # the last ones have shown faults


def claimed(machine: Machine, rng: random.Random, number: int) -> Request:
    plain = random_request(machine, rng, number)
    claim = random_claim(machine, rng, plain.pod.uid)
    pod = replace(plain.pod, namespace="default")
    preferences, pod_mcpu = Preferences(threads=Threads.ANY), rng.choice((0, 1000, 1000, 2000))
    return replace(plain, pod=pod, preferences=preferences, claim=claim, pod_request_mcpu=pod_mcpu)


def random_step(world: World, rng: random.Random, number: int) -> Event:
    if rng.random() < 0.2:
        return Create(claimed(world.whole, rng, number))
    return random_event(world, rng, number)


def history(seed: int) -> Iterator[Step]:
    rng = random.Random(seed)
    world = start(random_machine(rng), rng)
    for number in range(STEPS):
        step = random_step(world, rng, number).happen(world)
        yield step
        world = step.after


def check_claims(step: Step) -> None:
    """Who has a claim owns CPUs of it alone: all of them where it is placed, what there is after a change, or none."""
    options: TopologyAwareOptions = step.after.options
    for grant in step.after.held.grants:
        claim = grant.request.claim
        if claim is None:
            continue
        assert grant.owned <= claim.cpus & options.available - options.reserved
        assert bool(grant.owned) != (grant.kind is CpuKind.SHARED)
    placed = step.placed
    if placed is not None and placed.grant.request.claim is not None and placed.grant.owned:
        had = step.before.held.get(placed.grant.container)
        kept = had.owned if had is not None and had.request.claim == placed.grant.request.claim else CpuSet()
        assert placed.grant.owned == (kept or placed.grant.request.claim.cpus)


def lost(before: Allocations, after: Allocations) -> set[Grant]:
    there = {grant.container for grant in after.grants}
    return {grant for grant in before.grants if grant.container not in there}


@pytest.mark.parametrize("seed", SEEDS)
def test_claims_keep_their_rules_in_every_history(seed: int) -> None:
    for step in history(seed):
        check_world(step.after)
        check_memory(step)
        check_updates(step)
        check_restart(step)
        check_moved(step)
        check_claims(step)
        if step.placed is not None and step.placed.grant.request.claim is None:
            check_size(step)
        if isinstance(step.event, Reconfigure):
            assert not lost(step.before.held, step.after.held)


def test_releasing_all_returns_to_the_start() -> None:
    *_, last = history(7)
    held, policy = last.after.held, last.after.policy
    assert any(grant.request.claim is not None for grant in held.grants)
    for grant in held.grants:
        held = held.without(grant.container)
    assert policy.pools(held) == policy.pools(Allocations(withheld=held.withheld))


def test_claims_are_granted_and_refused_often_enough_to_mean_something() -> None:
    placed = refused = together = unpaid = 0
    for seed in SEEDS:
        for step in history(seed):
            of_claim = step.subject is not None and step.subject.claim is not None
            placed += of_claim and step.placed is not None
            refused += of_claim and step.refused is not None
            together += any(grant.shares_cpus and grant.request.claim is not None for grant in step.after.held.grants)
            codes = [reason.code for reason in step.placed.reasons] if step.placed is not None else []
            unpaid += ReasonCode.CLAIM_UNPAID in codes
    assert min(placed, refused, together, unpaid) > 20, (placed, refused, together, unpaid)
