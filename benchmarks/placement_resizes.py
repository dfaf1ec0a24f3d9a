"""Random resizes of owners under all options, judged by an oracle of its own (benchmarks/placement.py).

The rule: a running owner keeps its CPUs, else it stays within its nodes, else its strictness decides; a shrink never
moves. The oracle knows NUMA nodes alone: sharers may all move to the widest pool, so that a resize keeps its CPUs
wherever the nodes that its strictness allows have enough, and the machine covers what is booked.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.placement_machines import SHAPES
from benchmarks.placement_node import Node, some_container
from policies.alignment import TopologyOptions, TopologyPolicy
from policies.base import Decision, Grant, Placed, Rejected
from policies.preferences import CpuDistribution, CpuPriority, PoolStrategy, Threads
from sysfs.cpuset import NodeSet

RESIZES_OF_A_LIFE = 40
_STRICT = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)


@dataclass(frozen=True)
class Resize:
    """One resize: the grant before, what was asked for, and what came of it."""

    grant: Grant
    whole: int
    decision: Decision
    may_keep: bool  # there is room to keep all of its CPUs and its strictness allows it

    @property
    def is_right(self) -> bool:
        """Whether the rule held: no CPU left that could be kept, none refused with room that it is allowed."""
        before = self.grant.owned
        if isinstance(self.decision, Rejected):
            return not self.may_keep and self.whole > len(before)
        after = self.decision.grant.owned
        return (
            before <= after
            if self.whole > len(before) and self.may_keep
            else self.whole > len(before) or after <= before
        )


def random_options(rng: random.Random) -> dict[str, object]:
    """Options that decide where owners are; each has its default half of the time."""
    return {
        "topology": TopologyOptions(rng.choice((TopologyPolicy.NONE, TopologyPolicy.NONE, *TopologyPolicy))),
        "single_node": rng.random() < 0.25,
        "threads": rng.choice((Threads.ANY, Threads.ANY, Threads.OWN_CORE)),
        "strict_threads": rng.random() < 0.1,
        "cpu_priority": rng.choice((CpuPriority.NONE, CpuPriority.HIGH)),
        "distribution": rng.choice((CpuDistribution.PACK, CpuDistribution.PACK, *CpuDistribution)),
        "pool_choice": rng.choice((PoolStrategy.SPREAD, *PoolStrategy)),
        "l3_pools": rng.choice(("auto", "true", "false")),
    }


def lives(seeds: int) -> Iterator[Resize]:
    """Resizes on every shape; options change now and then, so that many an owner is older than its strictness."""
    for name in SHAPES:
        for seed in range(seeds):
            yield from life(name, random.Random(f"resizes {name} {seed}"))


def life(shape: str, rng: random.Random) -> Iterator[Resize]:
    """Containers come and go, and owners are resized, under three sets of options."""
    node = Node(SHAPES[shape], **random_options(rng))
    number = 0
    for _ in range(3):
        node.change(**random_options(rng))
        done = 0
        while done < RESIZES_OF_A_LIFE:
            number += 1
            owned = [grant for grant in node.held.grants if grant.owned]
            if len(owned) < 3 or rng.random() < 0.4:
                node.place(some_container(rng, number, node))
            if node.held.grants and rng.random() < 0.3:
                node.remove(rng.choice(node.held.grants))
            owned = [grant for grant in node.held.grants if grant.owned]
            if owned:
                yield resize(node, rng.choice(owned), rng)
                done += 1


def resize(node: Node, grant: Grant, rng: random.Random) -> Resize:
    """Ask for another number of CPUs."""
    whole = max(1, rng.choice((len(grant.owned) + rng.choice((1, 2, 2, 4, 8)), rng.randint(1, len(grant.owned)))))
    mcpu = 1000 * whole + grant.shared_mcpu
    request = replace(grant.request, cpu_request_mcpu=mcpu, cpu_limit_mcpu=mcpu, previous=grant.as_running)
    decision = node.policy.decide(node.held, request)
    result = Resize(grant, whole, decision, may_keep(node, grant, whole))
    if isinstance(decision, Placed):
        node.held = node.held.with_grants(*decision.moved, decision.grant)
    return result


def may_keep(node: Node, grant: Grant, whole: int) -> bool:
    """Whether so many CPUs, its own among them, are there for it on the nodes that its strictness allows."""
    if node.options.strict_threads and node.options.threads is Threads.OWN_CORE:
        return False  # whether there are such cores is not looked at
    free, here = node.free | grant.owned.mask, allowed(node, grant)
    if 1000 * (free.bit_count() - whole) < node.shared_mcpu():
        return False
    around = (here, *(pool for pool in node.pools.values() if not here & ~pool))
    return all((free & pool).bit_count() >= whole + staying(node, grant, pool) for pool in around)


def allowed(node: Node, grant: Grant) -> int:
    """The CPUs of the nodes that it is kept within by a strict option."""
    homes = {n for n, mask in node.shape.nodes.items() if mask & grant.owned.mask}
    if node.options.single_node:
        return node.shape.nodes[homes.pop()] if len(homes) == 1 else 0
    if node.options.topology.policy not in _STRICT:
        return node.shape.machine.online.mask
    its = grant.request.alignment
    nodes = its.nodes if its is not None else NodeSet.of(homes)
    return sum(mask for n, mask in node.shape.nodes.items() if n in nodes)


def staying(node: Node, grant: Grant, pool: int) -> int:
    """CPUs of a pool that stay shared: under a strict single node the fractions of owners move nowhere."""
    if not node.options.single_node:
        return 0
    others = (g for g in node.held.grants if g.owned and g.container != grant.container)
    mcpu = grant.shared_mcpu + sum(g.shared_mcpu for g in others if not node.pools[g.pool] & ~pool)
    return -(-mcpu // 1000)
