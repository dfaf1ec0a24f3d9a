"""A node whose policy is asked, and random histories of it (benchmarks/placement.py)."""

import random
from collections.abc import Iterator

from benchmarks.placement_oracle import Promise, Shape
from policies.base import Allocations, ContainerKey, CpuKind, Grant, Placed, Pod, QosClass, Request
from policies.builder import build_policy
from policies.hardware.reserve import choose_reserved
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

GIBIBYTE = 1 << 30
STEPS = 300  # of one history
FULL = 0.85  # of the CPUs are asked for, on average


class Node:
    """A machine whose policy is asked, and the grants so far."""

    def __init__(self, description: dict[str, object], **options: object) -> None:
        """Build an empty node; two CPUs are reserved."""
        self.machine = describe(description)
        self.reserved = choose_reserved(self.machine, self.machine.online, 2000)
        self.shape = Shape(self.machine)
        self.sharable = (self.machine.online - self.reserved - self.machine.isolated).mask
        self.held = Allocations()
        self._looked_at: ContainerKey | None = None
        self.change(**options)

    def change(self, **options: object) -> None:
        """Have other options; the containers stay as far as they are legal then."""
        self.options = TopologyAwareOptions(self.machine.online, self.reserved, **options)  # type: ignore[arg-type]
        self.policy = build_policy("topology-aware", self.machine, self.options)
        self.pools = {pool.name: pool.cpus.mask for pool in self.policy.pools(Allocations())}
        self.held = self.policy.reinstate(self.held).allocations

    @property
    def free(self) -> int:
        """CPUs that may be shared and that no container owns."""
        return self.sharable & ~sum(grant.owned.mask for grant in self.held.grants)

    def place(self, request: Request) -> Grant | None:
        """Place a container; None if it is refused."""
        decision = self.policy.decide(self.held, request)
        if not isinstance(decision, Placed):
            return None
        self.held = self.held.with_grants(*decision.moved, decision.grant)
        return decision.grant

    def remove(self, grant: Grant) -> None:
        """Take a container away."""
        self.held = self.held.without(grant.container)

    def slow_check(self) -> None:
        """Move the next ``MovesPerCheck`` sharers to better places, as the daemon does every 30 seconds."""
        self.held = self.held.with_grants(*self.policy.narrowed(self.held))
        found = self.policy.better_places(self.held, self._looked_at)
        self.held = self.held.with_grants(*found.grants)
        self._looked_at = found.last

    def shared_mcpu(self) -> int:
        """What is booked in all pools together."""
        return sum(grant.shared_mcpu for grant in self.held.grants)

    def promises(self) -> list[Promise]:
        """What is booked, by pool."""
        booked: dict[str, list[int]] = {}
        for grant in self.held.grants:
            if grant.kind in (CpuKind.SHARED, CpuKind.MIXED):
                booked.setdefault(grant.pool, []).append(grant.shared_mcpu)
        return [Promise(self.pools[pool], sum(mcpu), 0 in mcpu) for pool, mcpu in sorted(booked.items())]

    def cpus_of(self, grant: Grant) -> CpuSet:
        """What a container runs on now."""
        return self.policy.pinnings(self.held)[grant.container].cpus or CpuSet()


def container(number: int, qos: QosClass, mcpu: int, limit_mcpu: int | None = None, memory_gib: float = 0.5) -> Request:
    """A container in a pod of its own."""
    uid = f"{number:06}"
    limit = mcpu if qos is QosClass.GUARANTEED else limit_mcpu
    memory_bytes = 0 if qos is QosClass.BEST_EFFORT else int(memory_gib * GIBIBYTE)
    return Request(
        ContainerKey(uid, "c"),
        Pod(uid, f"p{uid}", "default", qos),
        mcpu,
        cpu_limit_mcpu=limit,
        memory_request_bytes=memory_bytes,
        memory_limit_bytes=memory_bytes if qos is QosClass.GUARANTEED else None,
    )


def some_container(rng: random.Random, number: int, node: Node) -> Request:
    """A container of any class; owners of up to more CPUs than a domain has."""
    kind = rng.random()
    if kind < 0.6:
        domain = max(leaf.cpus.bit_count() for leaf in node.shape.leaves)
        whole = rng.choice((1, 1, 2, 2, 3, 4, 4, 5, 6, 8, domain, domain + domain // 2, 2 * domain))
        return container(number, QosClass.GUARANTEED, 1000 * whole + rng.choice((0, 0, 0, 500)))
    if kind < 0.85:
        mcpu = rng.choice((100, 250, 500, 1000, 2000))
        return container(number, QosClass.BURSTABLE, mcpu, rng.choice((None, 2 * mcpu, 4 * mcpu)))
    return container(number, QosClass.BEST_EFFORT, 0)


def history(node: Node, rng: random.Random) -> Iterator[tuple[Grant, int, list[Promise]]]:
    """Containers come and go around FULL; yield each that was placed, with the free CPUs and promises before."""
    asked: dict[ContainerKey, int] = {}
    most = FULL * 1000 * node.sharable.bit_count()
    for number in range(STEPS):
        load = sum(asked.values())
        if asked and load > most * rng.uniform(0.9, 1.1):
            key = rng.choice(sorted(asked))
            del asked[key]
            node.held = node.held.without(key)
            continue
        request = some_container(rng, number, node)
        free, promises = node.free, node.promises()
        grant = node.place(request)
        if grant is not None:
            asked[grant.container] = request.cpu_request_mcpu
            yield grant, free, promises
