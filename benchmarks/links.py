"""How long it takes to choose GPUs by their links. Run: python benchmarks/links.py [ROUNDS].

Each round draws other links: GPUs no two of which are alike, a few kinds of links with many ties, a machine of two
halves with PCIe switches, one NVSwitch. Prints the slowest kind's median of CPU time for each size, and its ratio to a
fixed pure-Python loop of the same process, by which machines can be compared. Every set is checked against its own
points, and on eight GPUs against every cut.
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
from policies.devices.links import (
    GpuAllocation,
    GpuRequest,
    LinkMatrix,
    LinkOptions,
    allocate,
    matrix_of,
    points_between,
    read_links,
    set_points,
)
from tests.unit.policies.devices.links.machines import best_by_enumeration

REFERENCE_TIMES = 5
ALL_CUTS = LinkOptions(from_all_cuts=True)


@dataclass(frozen=True, slots=True)
class Load:
    """A number of GPUs and a size; ``bar_ms``: what the median of every kind of links may take."""

    count: int
    size: int
    bar_ms: float | None = None


def all_different(rng: random.Random, count: int) -> LinkMatrix:
    """Links of 1 to 18, drawn for each pair."""
    return drawn(count, lambda i, j: (rng.randint(1, 18), "SYS"))


def few_kinds(rng: random.Random, count: int) -> LinkMatrix:
    """As on machines whose NVLinks reach some of the others."""
    return drawn(count, lambda i, j: (rng.choice((0, 0, 1, 2)), rng.choice(("SYS", "PHB", "PIX"))))


def switches(rng: random.Random, count: int) -> LinkMatrix:
    """Two sockets with PCIe switches of two GPUs, numbered at random; the GPUs of a switch have NVLinks."""
    place = rng.sample(range(count), count)

    def pair(i: int, j: int) -> tuple[int, str]:
        a, b = place[i], place[j]
        if a // 2 == b // 2:
            return 4, "PIX"
        return 0, "NODE" if a * 2 // count == b * 2 // count else "SYS"

    return drawn(count, pair)


def one_switch(rng: random.Random, count: int) -> LinkMatrix:
    """All GPUs alike."""
    return drawn(count, lambda i, j: (18, "NODE"))


def drawn(count: int, pair: Callable[[int, int], tuple[int, str]]) -> LinkMatrix:
    nvlinks = [[0] * count for _ in range(count)]
    paths = [["X"] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            nvlinks[i][j], paths[i][j] = nvlinks[j][i], paths[j][i] = pair(i, j)
    return matrix_of(nvlinks, paths)


KINDS = (all_different, few_kinds, switches, one_switch)
LOADS = (
    *(Load(8, size, 2) for size in range(1, 9)),
    *(Load(12, size) for size in (2, 3, 4)),
    Load(16, 2, 100),
    Load(16, 3),
    Load(16, 4, 300),
    Load(16, 5),
    Load(16, 6),
    Load(16, 7),
    Load(16, 8, 300),
    Load(24, 4),
)


def cpu_milliseconds(matrix: LinkMatrix, request: GpuRequest, options: LinkOptions) -> tuple[float, GpuAllocation]:
    start = time.process_time()
    found = allocate(matrix, request, options)
    return 1000 * (time.process_time() - start), found


def check(matrix: LinkMatrix, load: Load, found: GpuAllocation, *, from_all_cuts: bool) -> None:
    """Stop at an answer that is wrong."""
    points = points_between(matrix, range(load.count))
    is_right = len(found.devices) == load.size and found.score == set_points(points, found.devices)
    if load.count <= 8 and load.size > 1:
        best = best_by_enumeration(points, load.size, frozenset(), from_all_cuts=from_all_cuts)
        is_right = is_right and (found.devices, found.score, found.total) == best
    if not is_right:
        raise SystemExit(f"{load.count} GPUs, size {load.size}: {found} is wrong")


def measure(load: Load, rounds: int, references: Sequence[float]) -> bool:
    """Print the figures of one load; whether its bar is kept."""
    slowest, proved, answers = 0.0, 0, 0
    for options in (LinkOptions(), ALL_CUTS):
        for kind in KINDS:
            rng = random.Random(f"{kind.__name__} {load.count} {load.size}")
            times = []
            for _ in range(rounds):
                matrix = kind(rng, load.count)
                milliseconds, found = cpu_milliseconds(matrix, GpuRequest(load.size), options)
                check(matrix, load, found, from_all_cuts=options.from_all_cuts)
                times.append(milliseconds)
                proved += found.is_optimal
                answers += 1
            slowest = max(slowest, median(times))
    ratio = slowest / 1000 / median(references)
    bar = f"   (bar {load.bar_ms} ms)" if load.bar_ms else ""
    print(
        f"{load.count:>3} GPUs, size {load.size:>2}: {slowest:8.2f} ms, "
        f"{ratio:.4f} of a loop of {REFERENCE_STEPS} additions, {proved} of {answers} proved{bar}",
        flush=True,
    )
    is_exact = proved == answers or load.count > 16
    return is_exact and (load.bar_ms is None or slowest <= load.bar_ms)


def reading(rounds: int) -> None:
    """Print what the text of 16 GPUs and as many NICs takes to read."""
    names = [f"GPU{i}" for i in range(16)] + [f"NIC{i}" for i in range(16)]
    rows = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    rows += [
        "\t".join([one, *(" X " if one == other else "SYS" for other in names), "0-63", "0", "", "N/A"])
        for one in names
    ]
    text = "\n".join(rows)
    times = []
    for _ in range(rounds):
        start = time.process_time()
        read_links(text)
        times.append(1000 * (time.process_time() - start))
    print(f"reading the text of 16 GPUs and 16 NICs: {median(times):.2f} ms")


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    references = [reference_seconds() for _ in range(REFERENCE_TIMES)]
    kept = [measure(load, rounds, references) for load in LOADS]
    reading(rounds)
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
