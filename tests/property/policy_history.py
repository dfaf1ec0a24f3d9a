"""Random histories on a policy: creations, resizes, releases, reconfigurations; every step yields what happened."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from policies.base import (
    Affinity,
    Allocations,
    ContainerKey,
    Expression,
    Placed,
    Pod,
    Policy,
    QosClass,
    Rejected,
    Request,
    TopologyHint,
    Update,
    Wishes,
)
from policies.options import PolicyOptions
from policies.registry import build_policy
from policies.reserve import choose_reserved
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

SIZES = (0, 2, 50, 100, 250, 333, 500, 999, 1000, 1000, 1001, 1500, 2000, 2000, 2500, 3000, 4000, 7000)


@dataclass(frozen=True, slots=True)
class World:
    """A policy with its options and what is granted on it."""

    policy: Policy
    options: PolicyOptions
    held: Allocations


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``subject`` is whom it was about, None for a reconfiguration; ``refused`` if nothing came of it."""

    kind: str
    before: World
    after: World
    subject: Request | None = None
    placed: Placed | None = None
    refused: Rejected | None = None
    updates: tuple[Update, ...] = ()


def random_options(machine: Machine, rng: random.Random, available: CpuSet) -> PolicyOptions:
    """Options with some CPUs reserved, or none."""
    most = 1000 * (len(available) // 2)
    return PolicyOptions(
        available,
        choose_reserved(machine, available, min(most, rng.choice((0, 0, 750, 1000, 2000)))),
        prefer_isolated=rng.random() < 0.8,
        prefer_shared=rng.random() < 0.1,
        colocate_pods=rng.random() < 0.2,
        colocate_namespaces=rng.random() < 0.1,
        l3_pools=rng.choice((None, None, True, False)),
        reserved_namespaces=rng.choice(((), (), ("batch",))),
    )


def start(machine: Machine, rng: random.Random) -> World:
    """Nothing granted, every online CPU available."""
    options = random_options(machine, rng, machine.online)
    return World(build_policy("topology-aware", machine, options), options, Allocations())


def play(world: World, rng: random.Random, steps: int, *, reconfigure: bool = True) -> Iterator[Step]:
    """So many random steps, each from where the one before ended."""
    for number in range(steps):
        chance = rng.random()
        if world.held.grants and chance < 0.42:
            step = _release(world, rng)
        elif world.held.grants and chance < 0.52:
            step = _resize(world, rng)
        elif reconfigure and chance < 0.55:
            step = _reconfigure(world, rng, number)
        else:
            step = decided("create", world, random_request(world.policy.machine, rng, number))
        yield step
        world = step.after


def decided(kind: str, world: World, request: Request) -> Step:
    """The step in which this container is decided on."""
    decision = world.policy.decide(world.held, request)
    if isinstance(decision, Rejected):
        return Step(kind, world, world, request, refused=decision)
    held = world.held.with_grants(*decision.moved, decision.grant)
    return Step(kind, world, replace(world, held=held), request, decision, updates=decision.updates)


def _release(world: World, rng: random.Random) -> Step:
    request = rng.choice(world.held.grants).request
    updates = world.policy.release(world.held, request.container)
    after = replace(world, held=world.held.without(request.container))
    return Step("release", world, after, request, updates=updates)


def _resize(world: World, rng: random.Random) -> Step:
    grant = rng.choice(world.held.grants)
    mcpu = 0 if grant.request.pod.qos is QosClass.BEST_EFFORT else rng.choice(SIZES)
    return decided("resize", world, replace(grant.request, cpu_request_mcpu=mcpu, previous=grant.as_previous))


def _reconfigure(world: World, rng: random.Random, number: int) -> Step:
    machine = world.policy.machine
    ordinary = list(machine.online - machine.isolated)
    available = CpuSet.of([rng.choice(ordinary), *(c for c in machine.online if rng.random() < 0.8)])
    options = random_options(machine, rng, rng.choice((machine.online, available)))
    policy = build_policy("topology-aware", machine, options)
    new = [random_request(machine, rng, number * 10 + 100_000 + i) for i in range(rng.randrange(3))]
    after = policy.reinstate(world.held, new).allocations
    return Step("reconfigure", world, World(policy, options, after))


def random_request(machine: Machine, rng: random.Random, number: int) -> Request:
    """A container of any kind; its names are shared by others, so that affinities find somebody."""
    qos = rng.choice(list(QosClass))
    mcpu = 0 if qos is QosClass.BEST_EFFORT else rng.choice(SIZES)
    pod = f"pod-{rng.randrange(12)}"
    namespace = rng.choice(("default", "default", "kube-system", "batch"))
    return Request(
        ContainerKey(pod, f"c{number}-{rng.randrange(4)}"),
        Pod(pod, pod, namespace, qos, (("app", rng.choice("ab")),)),
        mcpu,
        cpu_limit_mcpu=rng.choice((None, mcpu * 2)),
        memory_request_bytes=rng.choice((0, 64, 512)) << 20,
        wishes=_random_wishes(rng),
        affinities=_random_affinities(rng),
        hints=_random_hints(machine, rng),
    )


def _random_wishes(rng: random.Random) -> Wishes:
    return Wishes(
        prefer_isolated=rng.choice((None, None, None, True, False)),
        require_isolated=rng.random() < 0.05,
        prefer_shared=rng.choice((None, None, None, None, True, False)),
        levels_up=rng.choice((0, 0, 0, 0, 0, 1, 2, 9)),
        prefer_reserved=rng.choice((None, None, None, None, True, False)),
        preserve_cpu=rng.random() < 0.03,
        preserve_memory=rng.random() < 0.05,
    )


def _random_affinities(rng: random.Random) -> tuple[Affinity, ...]:
    if rng.random() < 0.7:
        return ()
    match = Expression("pod/labels/app", "In", (rng.choice("ab"),))
    scope = rng.choice((None, Expression("", "AlwaysTrue")))
    return (Affinity(match, rng.choice((-10, -1, 1, 5)), scope),)


def _random_hints(machine: Machine, rng: random.Random) -> tuple[TopologyHint, ...]:
    if rng.random() < 0.8:
        return ()
    node = rng.choice(machine.nodes)
    return (TopologyHint("/dev/sim", node.cpus if rng.random() < 0.5 else CpuSet(), NodeSet.of([node.id])),)
