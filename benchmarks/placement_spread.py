"""How owners fill a machine up: whole domains at high load beside the kubelet's, even parts at low load.

Both get the same containers in the same order (benchmarks/placement.py).
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.placement_kubelet import KubeletNode
from benchmarks.placement_machines import FILLED
from benchmarks.placement_node import FULL, STEPS, Node, container
from benchmarks.placement_oracle import Shape
from policies.base import ContainerKey, QosClass
from policies.preferences import PoolStrategy

SIZES = (1, 1, 2, 2, 3, 4, 4, 6, 8)  # cores of a container
TURNED_OVER = STEPS  # steps after which the containers of an empty machine's first hour have ended


def beside_kubelet(shape: str, seed: int, choice: PoolStrategy) -> Iterator[tuple[int, int]]:
    """Owners come and go; yield on how many levels one spans domains needlessly: ours, and the kubelet's."""
    rng, node = random.Random(f"spread {shape} {seed}"), Node(FILLED[shape], pool_choice=choice)
    kubelet, kept = KubeletNode(node.shape, node.sharable), dict[ContainerKey, int]()
    threads, most = node.shape.threads, node.sharable.bit_count()
    for number in range(4 * STEPS):
        used = sum(mask.bit_count() for mask in kept.values())
        if kept and used > FULL * most * rng.uniform(0.9, 1.1):
            key = rng.choice(sorted(kept))
            node.held = node.held.without(key)
            kubelet.free |= kept.pop(key)
            continue
        count = threads * min(rng.choice(SIZES), (most - used) // threads)
        grant = node.place(container(number, QosClass.GUARANTEED, 1000 * count, memory_gib=0.1)) if count else None
        if grant is not None:
            kept[grant.container] = kubelet.place(count)
            if number > TURNED_OVER:
                yield spanned(node.shape, grant.owned.mask), spanned(node.shape, kept[grant.container])


def levels_of(shape: Shape) -> set[tuple[int, ...]]:
    """The packages, NUMA nodes and L3 domains, each level that differs from the others."""
    leaves = tuple(leaf.cpus for leaf in shape.leaves)
    return {tuple(shape.packages.values()), tuple(shape.nodes.values()), leaves}


def spanned(shape: Shape, cpus: int) -> int:
    """On how many levels these CPUs are on several domains, although one of them is as large."""
    fits = (level for level in levels_of(shape) if cpus.bit_count() <= max(map(int.bit_count, level)))
    return sum(sum(bool(domain & cpus) for domain in level) > 1 for level in fits)


# Mixed kinds share by the load of each CPU, which fewer containers make on fewer CPUs: these ask for a CPU or more.
EQUAL: dict[str, tuple[QosClass, int, int | None]] = {  # mCPU asked for, and the limit
    "owners of 2": (QosClass.GUARANTEED, 2000, 2000),
    "owners of 4": (QosClass.GUARANTEED, 4000, 4000),
    "owners of 8": (QosClass.GUARANTEED, 8000, 8000),
    "Burstable of 2, limit 4": (QosClass.BURSTABLE, 2000, 4000),
    "Burstable of 4, limit 16": (QosClass.BURSTABLE, 4000, 16000),
    "Burstable of 1": (QosClass.BURSTABLE, 1000, None),
}


def evenly(shape: str, kind: str, choice: PoolStrategy) -> Iterator[int]:
    """Equal containers up to half of the machine; yield how many more the fullest domain of a level has, if over one.

    A domain that has no room for another one is not empty for want of balance.
    """
    node, (qos, mcpu, limit) = Node(FILLED[shape], pool_choice=choice), EQUAL[kind]
    most = 500 * node.sharable.bit_count()
    for number in range(min(64, most // max(mcpu, 100))):
        node.place(container(number, qos, mcpu, limit, memory_gib=0.1))
        yield max(max(0, more_in_fullest(node, level, mcpu) - 1) for level in levels_of(node.shape))


def more_in_fullest(node: Node, level: tuple[int, ...], mcpu: int) -> int:
    """How many containers the fullest of these domains has more than the emptiest that has room."""
    homes = [grant.owned.mask or node.pools[grant.pool] for grant in node.held.grants]
    counts = [sum(not home & ~domain for home in homes) for domain in level]
    room = (
        1000 * (node.sharable & domain).bit_count() - count * mcpu for domain, count in zip(level, counts, strict=True)
    )
    return max(counts) - min(count for count, left in zip(counts, room, strict=True) if left >= mcpu)


PODS: dict[str, tuple[QosClass, tuple[int, ...]]] = {  # what its containers ask for
    "app and proxy": (QosClass.GUARANTEED, (2000, 100)),
    "proxy and app": (QosClass.GUARANTEED, (100, 2000)),
    "owner and isolated or single CPU": (QosClass.GUARANTEED, (4000, 1000)),
    "Burstable app and proxies": (QosClass.BURSTABLE, (500, 100, 100)),
    "best effort": (QosClass.BEST_EFFORT, (0, 0, 0)),
}


def apart(shape: str, kind: str) -> Iterator[bool]:
    """Four pods on an idle machine; yield of each whether its containers are on two packages."""
    node, (qos, amounts) = Node(FILLED[shape]), PODS[kind]
    for number in range(4):
        plain = container(number, qos, 0, memory_gib=0.1)
        keys = [replace(plain.container, name=f"c{i}") for i in range(len(amounts))]
        grants = [
            node.place(
                replace(
                    plain,
                    container=key,
                    cpu_request_mcpu=mcpu,
                    cpu_limit_mcpu=mcpu if qos is QosClass.GUARANTEED else None,
                )
            )
            for key, mcpu in zip(keys, amounts, strict=True)
        ]
        homes = [grant.owned.mask or node.pools[grant.pool] for grant in grants if grant is not None]
        yield sum(any(home & package for home in homes) for package in node.shape.packages.values()) > 1
