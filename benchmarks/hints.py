"""How long it takes to merge topology hints. Run: python benchmarks/hints.py [ROUNDS].

Two cases have every set of nodes in every list, once with hints that agree and once with hints that do not: then all
overlaps count. Prints the median of CPU time of the slowest input, and its ratio to a fixed pure-Python loop of the
same process, by which machines can be compared.
"""

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.decision import REFERENCE_STEPS, reference_seconds
from policies.hints import (
    CpuProvider,
    DeviceProvider,
    DeviceRequest,
    Hint,
    MemoryAmounts,
    MemoryProvider,
    MergeOptions,
    Nodes,
    Offers,
    Topology,
    merge,
)

GIBIBYTE = 1 << 30
REFERENCE_TIMES = 5
INPUTS = 20  # random ones of a case
CLOSEST = MergeOptions(prefer_closest_numa_nodes=True)


@dataclass(frozen=True, slots=True)
class Case:
    """A merge and its bar; ``work`` returns what is timed, for the number of an input."""

    title: str
    bar_ms: float
    inputs: int
    work: Callable[[int], Callable[[], object]]


def every_set(nodes: int, *, agree: bool) -> list[Offers]:
    """Four resources with all sets of nodes in their lists; preferred are those of two nodes, or of 1, 2, 3 and 4."""
    masks = range(1, 1 << nodes)
    sizes = (2, 2, 2, 2) if agree else (1, 2, 3, 4)
    return [
        {f"resource {i}": tuple(Hint(mask, mask.bit_count() == size) for mask in masks)} for i, size in enumerate(sizes)
    ]


def listed(nodes: int) -> Callable[[int], Callable[[], object]]:
    """The merge of full lists."""

    def work(number: int) -> Callable[[], object]:
        offers = every_set(nodes, agree=number == 0)
        return lambda: merge(offers, Nodes((1 << nodes) - 1), "best-effort")

    return work


def distances(nodes: int, near: int) -> tuple[tuple[int, ...], ...]:
    """Groups of so many near nodes, all others far."""
    return tuple(
        tuple(10 if a == b else 12 if a // near == b // near else 32 for b in range(nodes)) for a in range(nodes)
    )


def superchip(number: int) -> Callable[[], object]:
    """Hints and merge on 34 nodes: two with 72 CPUs each, and 32 with the memory of GPU instances.

    CPUs, memory beside groups that containers have already, and two kinds of devices.
    """
    rng = random.Random(number)
    topology = Topology(tuple((node, ((1 << 72) - 1) << 72 * node if node < 2 else 0) for node in range(34)), (1, 2))
    sizes = {node: 480 * GIBIBYTE if node < 2 else 12 * GIBIBYTE for node in range(34)}
    memory = {
        node: MemoryAmounts({"memory": size}, {"memory": rng.randint(0, size)} if node < 2 else {"memory": size})
        for node, size in sizes.items()
    }
    groups = frozenset(0b11 << first for first in rng.sample(range(2, 34, 2), 3))
    cpus = CpuProvider(topology, rng.randint(1, 100), free=rng.getrandbits(144) | (1 << 20) - 1 << 72)
    asked_bytes = {"memory": rng.randint(1, 300) * GIBIBYTE}
    of_devices = {
        name: DeviceRequest(
            rng.randint(1, 4),
            {f"{name}{i}": 1 << i % 2 for i in range(8)},
            frozenset(f"{name}{i}" for i in range(rng.randint(4, 8))),
        )
        for name in ("gpu", "nic")
    }

    def work() -> object:
        counted = topology.counted_nodes
        offers: Sequence[Offers] = (
            cpus.offers(),
            MemoryProvider(memory, asked_bytes, groups).within(counted).offers(),
            DeviceProvider((1 << 34) - 1, of_devices).within(counted).offers(),
        )
        return merge(offers, Nodes((1 << 34) - 1, distances(34, 2)), "best-effort", CLOSEST)

    return work


CASES = (
    Case("8 nodes, 4 resources of 255 hints", 5, 2, listed(8)),
    Case("16 nodes, 4 resources of 65,535 hints", 500, 2, listed(16)),
    Case("34 nodes, CPUs, memory and devices, hints included, closest first", 20, INPUTS, superchip),
)


def cpu_milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def measure(case: Case, rounds: int) -> bool:
    """Print the figures of one case; whether its bar is kept."""
    references = [reference_seconds() for _ in range(REFERENCE_TIMES)]
    middles = []
    for number in range(case.inputs):
        work = case.work(number)
        middles.append(median(cpu_milliseconds(work) for _ in range(rounds)))
    slowest = max(middles)
    ratio = slowest / 1000 / median(references)
    print(case.title)
    print(
        f"  {slowest:.2f} ms (of {case.inputs} inputs the median {median(middles):.2f} ms), "
        f"{ratio:.4f} of a loop of {REFERENCE_STEPS} additions   (bar {case.bar_ms} ms)",
        flush=True,
    )
    return slowest <= case.bar_ms


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    kept = [measure(case, rounds) for case in CASES]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
