"""Random containers: every QoS class, every amount, and every wish that an annotation can utter."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from policies.base import Affinity, ContainerKey, DeviceLocality, Expression, Pod, QosClass, Request
from policies.preferences import BurstLevel, CpuDistribution, CpuPriority, PoolStrategy, Preferences, Threads
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine, MemoryKind

T = TypeVar("T")
SIZES_MCPU = (0, 2, 50, 100, 250, 333, 500, 999, 1000, 1000, 1001, 1500, 2000, 2000, 2500, 3000, 4000, 7000)
MEBIBYTES = (0, 0, 64, 64, 300, 512, 1000, 3000)
QOS_CLASSES = (QosClass.GUARANTEED,) * 5 + (QosClass.BURSTABLE,) * 3 + (QosClass.BEST_EFFORT,)
NAMESPACES = ("default",) * 7 + ("kube-system", "batch")
PODS = 12

# Expressions of every operator family and key form; what they find depends on who is there.
_MATCHES: tuple[Expression, ...] = (
    Expression("pod/labels/app", "In", ("a",)),
    Expression("pod/labels/app", "NotIn", ("a", "c")),
    Expression("labels/tier", "Equals", ("web",)),
    Expression("labels/tier", "NotEqual", ("web",)),
    Expression("labels/tier", "Exists"),
    Expression("labels/tier", "NotExist"),
    Expression("name", "Matches", ("c1*",)),
    Expression("name", "MatchesNot", ("c1*",)),
    Expression("pod/name", "MatchesAny", ("pod-1*", "pod-2")),
    Expression("id", "MatchesNone", ("pod-3/*",)),
    Expression("qosclass", "Equals", ("Guaranteed",)),
    Expression(":pod/labels/app:namespace", "Equals", ("a:default",)),
    Expression(":,-pod/qosclass,labels/tier", "In", ("Burstable-web", "Guaranteed-")),
    Expression("tags/any", "Exists"),
    Expression("", "AlwaysTrue"),
)
_SCOPES: tuple[Expression | None, ...] = (
    None,
    Expression("", "AlwaysTrue"),
    Expression("namespace", "In", ("default", "batch")),
    Expression("pod/qosclass", "NotEqual", ("BestEffort",)),
)


def random_request(machine: Machine, rng: random.Random, number: int) -> Request:
    """A container of any kind; its names are shared by others, so that affinities find somebody."""
    qos = rng.choice(QOS_CLASSES)
    mcpu = 0 if qos is QosClass.BEST_EFFORT else rng.choice(SIZES_MCPU)
    memory_bytes, memory_limit_bytes = random_memory(rng, qos)
    pod = f"pod-{rng.randrange(PODS)}"
    return Request(
        ContainerKey(pod, f"c{number}-{rng.randrange(4)}"),
        Pod(pod, pod, rng.choice(NAMESPACES), qos, (("app", rng.choice("ab")),)),
        mcpu,
        cpu_limit_mcpu=mcpu if qos is QosClass.GUARANTEED else rng.choice((None, mcpu * 2)),
        memory_request_bytes=memory_bytes,
        memory_limit_bytes=memory_limit_bytes,
        labels=rng.choice(((), (("tier", "web"),), (("tier", "db"),))),
        preferences=_rare_wishes(random_wishes(rng), random.Random(number)),
        affinities=_random_affinities(rng),
        localities=_random_hints(machine, rng),
    )


def random_memory(rng: random.Random, qos: QosClass) -> tuple[int, int | None]:
    """(request, limit) in bytes as the QoS class allows: Guaranteed asks for its limit, BestEffort for nothing."""
    asked = rng.choice(MEBIBYTES) << 20
    if qos is QosClass.BEST_EFFORT:
        return 0, None
    return asked, asked if qos is QosClass.GUARANTEED else rng.choice((None, asked, 2 * asked))


def _one_in(rng: random.Random, times: int, choices: Sequence[T], otherwise: T) -> T:
    return rng.choice(choices) if rng.randrange(times) == 0 else otherwise


def random_wishes(rng: random.Random) -> Preferences:
    """Most preferences are not uttered most of the time; each of them is now and then."""
    either: tuple[bool | None, ...] = (True, False)
    wanted = tuple(sorted(rng.sample(list(MemoryKind), rng.choice((0, 0, 0, 0, 0, 1, 1, 2, 3)))))
    return Preferences(
        prefer_isolated=_one_in(rng, 3, either, None),
        require_isolated=rng.randrange(20) == 0,
        prefer_shared=_one_in(rng, 5, either, None),
        levels_up=_one_in(rng, 12, (1, 2, 9), 0),
        prefer_reserved=_one_in(rng, 8, either, None),
        preserve_cpu=rng.randrange(30) == 0,
        preserve_memory=rng.randrange(20) == 0,
        threads=_one_in(rng, 4, (None, *Threads), None),
        priority=_one_in(rng, 6, (None, *CpuPriority), None),
        burst_level=_one_in(rng, 5, (None, *BurstLevel), None),
        memory_kinds=wanted,
        strict_memory=rng.randrange(12) == 0,
        strict_locality=rng.randrange(6) == 0,
        spread_by_locality=_one_in(rng, 3, either, None),
        cold_start_seconds=60 if MemoryKind.PMEM in wanted and rng.randrange(2) == 0 else 0,
    )


def _rare_wishes(wishes: Preferences, rng: random.Random) -> Preferences:
    """Add what came later: drawn apart, so that recorded histories stay as they are but for these."""
    return replace(
        wishes,
        strict_threads=_one_in(rng, 4, (True, False), None),
        distribution=_one_in(rng, 4, tuple(CpuDistribution), None),
        single_node=_one_in(rng, 8, (True, False), None),
        pool_choice=_one_in(rng, 4, tuple(PoolStrategy), None),
    )


def _random_affinities(rng: random.Random) -> tuple[Affinity, ...]:
    if rng.random() < 0.7:
        return ()
    return tuple(
        Affinity(rng.choice(_MATCHES), rng.choice((-2000, -10, -1, 1, 5)), rng.choice(_SCOPES))
        for _ in range(rng.randint(1, 2))
    )


def _random_hints(machine: Machine, rng: random.Random) -> tuple[DeviceLocality, ...]:
    if rng.random() < 0.75:
        return ()
    return tuple(_random_hint(machine, rng, number) for number in range(rng.randint(1, 3)))


def _random_hint(machine: Machine, rng: random.Random, number: int) -> DeviceLocality:
    """Near one node: by its CPUs, by its number, or by both."""
    node = rng.choice(machine.nodes)
    cpus, nodes = rng.choice(
        ((node.cpus, NodeSet()), (CpuSet(), NodeSet.of([node.id])), (node.cpus, NodeSet.of([node.id])))
    )
    return DeviceLocality(f"/dev/sim{number}", cpus, nodes)
