"""Machines with several kinds of memory, grants with zones, and a second opinion on whether promises can be kept."""

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from hypothesis import settings

from policies.base import Allocations, CpuKind, Grant, QosClass, Reason, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware import promised_bytes
from policies.topology_aware.memory.home import local_memory
from policies.topology_aware.memory.plan import MemoryPlan, plan_memory
from policies.topology_aware.supply.memory_nodes import MemoryNodes, memory_nodes_of
from policies.topology_aware.supply.memory_packing import Packing
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.discover import discover_tree
from sysfs.model import Machine, MemoryKind
from tests.fakes.machines import small_machine
from tests.golden.machines.captures import MOVABLE, others
from tests.unit.policies.build import BURSTABLE, request, supply_of, tree_of

GIB = 1 << 30
# A history of containers is one example; HYPOTHESIS_PROFILE=ci tries the properties of whole policies harder.
FEW = settings(max_examples=30, deadline=None)
DRAM, PMEM, HBM = MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM


def tiered(**keys: object) -> Machine:
    """Nodes 0 and 1 with CPUs and 4 GiB; PMEM nodes 2 (at 0) and 3 (at 1) of 16 GiB; HBM node 4 (at 0) of 1 GiB."""
    far = [
        {"memory": "16Gi", "kind": "pmem", "near": {0: 17}, **keys},
        {"memory": "16Gi", "kind": "pmem", "near": {1: 17}, **keys},
        {"memory": "1Gi", "kind": "hbm", "near": {0: 15}},
    ]
    return small_machine(memory="4Gi", memory_nodes=far)


@cache
def movable_server() -> Machine:
    return discover_tree(others(*MOVABLE))


def wanting(name: str, gibibytes: float = 0, qos: QosClass = BURSTABLE, **keys: object) -> Request:
    """A container without CPUs of its own that is promised this much memory."""
    return replace(request(f"{name}/c", 0, qos, **keys), memory_request_bytes=int(gibibytes * GIB))


def at(pool: str, wanted: Request, nodes: str, **keys: object) -> Grant:
    plain = Grant(wanted, pool, CpuKind.SHARED, mems=NodeSet.parse(nodes))
    return replace(plain, **keys)  # type: ignore[arg-type]  # the keys are those of the class


def plan(
    tree: PoolTree, wanted: Request, pool: str, *grants: Grant, owned: str = "", held: str = ""
) -> MemoryPlan | Reason:
    held_nodes, owned_cpus = NodeSet.parse(held), CpuSet.parse(owned)
    supply = supply_of(tree, *grants)
    local = local_memory(tree.machine, tree.named(pool), owned_cpus, shares=False)
    return plan_memory(supply, grants, wanted, local, held=held_nodes)


def planned(found: MemoryPlan | Reason) -> MemoryPlan:
    assert isinstance(found, MemoryPlan), found
    return found


def mask(nodes: str) -> int:
    return NodeSet.parse(nodes).mask


def packed(nodes: MemoryNodes, promises: Iterable[tuple[int, int]]) -> Packing | None:
    """These promises laid out on an empty machine; None where not all can be kept."""
    packing = Packing(nodes)
    return None if any(packing.add(zone, amount) for zone, amount in promises) else packing


def can_be_kept(capacity_bytes: dict[int, int], promises: Iterable[tuple[int, int]]) -> bool:
    """Whether every promise (zone, bytes) finds its place: Edmonds and Karp's flow from each container to the nodes.

    Written without a look at the code under test: one vertex per promise, none of them put together.
    """
    wanted = dict(enumerate(promises))
    residual: dict[object, dict[object, int]] = {"source": {}, "sink": {}}

    def join(a: object, b: object, amount: int) -> None:
        residual.setdefault(a, {})[b] = amount
        residual.setdefault(b, {}).setdefault(a, 0)

    for number, (zone, amount) in wanted.items():
        join("source", ("promise", number), amount)
        for node in NodeSet(zone):
            join(("promise", number), node, amount)
    for node, capacity in capacity_bytes.items():
        join(node, "sink", capacity)
    while path := _path(residual):
        most = min(residual[a][b] for a, b in path)
        for a, b in path:
            residual[a][b] -= most
            residual[b][a] += most
    return not any(residual["source"].values())


def _path(residual: dict[object, dict[object, int]]) -> list[tuple[object, object]]:
    came: dict[object, object] = {"source": None}
    queue: list[object] = ["source"]
    for vertex in queue:
        for other, left in residual[vertex].items():
            if left and other not in came:
                came[other] = vertex
                queue.append(other)
    if "sink" not in came:
        return []
    path: list[tuple[object, object]] = []
    end: object = "sink"
    while end != "source":
        path.append((came[end], end))
        end = came[end]
    return path


def promises_of(nodes: MemoryNodes, grants: Iterable[Grant], *, at_widest: bool = False) -> list[tuple[int, int]]:
    """(zone, bytes) of each grant; ``at_widest``: with all the nodes that the rules let it have."""
    return [(_widest(nodes, g) if at_widest else g.mems.mask or nodes.every, promised_bytes(g.request)) for g in grants]


def _widest(nodes: MemoryNodes, grant: Grant) -> int:
    preferences = grant.request.preferences
    if not grant.mems or grant.kind is CpuKind.RESERVED:
        return grant.mems.mask or nodes.every
    if grant.is_cold:
        return grant.mems.mask | nodes.pmem
    if preferences.strict_memory:
        return nodes.of_kinds(preferences.memory_kinds or (DRAM, PMEM))
    return nodes.every


def keeps(tree: PoolTree, grants: Iterable[Grant], *, at_widest: bool = False) -> bool:
    """Whether these grants' promises can be kept, by the second opinion."""
    nodes = memory_nodes_of(tree.machine)
    return can_be_kept(dict(nodes.capacity_bytes), promises_of(nodes, grants, at_widest=at_widest))


def random_tree(rng: random.Random) -> PoolTree:
    """1 to 4 nodes with CPUs, up to 3 without, of any kind, some movable."""
    packages, per_package = rng.choice([(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)])
    far = [
        {
            "memory": f"{rng.randint(1, 16)}Gi",
            "kind": rng.choice(("dram", "pmem", "pmem", "hbm")),
            "near": {rng.randrange(packages * per_package): rng.choice((12, 17))},
            "movable": rng.random() < 0.2,
        }
        for _ in range(rng.randrange(4))
    ]
    machine = {"packages": packages, "nodes": per_package, "cores": 2, "memory": "4Gi", "memory_nodes": far}
    return tree_of(describe(machine))


def random_wanting(rng: random.Random, number: int) -> Request:
    kinds = tuple(sorted(rng.sample((DRAM, PMEM, HBM), rng.randint(1, 2)))) if rng.random() < 0.4 else ()
    wanted = wanting(
        f"{rng.randrange(100)}-{number}",
        rng.choice((0, 0.5, 1, 1.5, 2.5, 4)),
        rng.choice(list(QosClass)),
        memory_kinds=kinds,
        strict_memory=rng.random() < 0.2,
        cold_start_seconds=rng.choice((0, 0, 5)),
        preserve_memory=rng.random() < 0.1,
    )
    return replace(wanted, memory_limit_bytes=rng.choice((None, None, 2 * GIB)))


def after(held: Allocations, found: MemoryPlan, grant: Grant) -> Allocations:
    return held.with_grants(*found.widened, replace(grant, mems=found.mems, is_cold=found.is_cold))


def supply_for(tree: PoolTree, held: Allocations) -> Supply:
    return supply_of(tree, *held.grants)
