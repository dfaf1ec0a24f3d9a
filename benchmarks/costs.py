"""How long the cheapest set of a cost graph takes to find. Run: python benchmarks/costs.py [ROUNDS].

Each round draws other costs. Prints medians of CPU time, the median's ratio to a fixed pure-Python loop of the same
process, by which machines can be compared, and how good the sets are. A bar is kept when the median of the rounds is
below it, and every set is as good as the bar says.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.costs.demand import SetRequest
from policies.costs.exact import STEPS
from policies.costs.model import CostLine, CostListing
from policies.costs.select import Selection, SelectMethod, SelectOptions, select
from policies.costs.table import compile_costs

REFERENCE_STEPS = 1_000_000
REFERENCE_TIMES = 3  # spread over the rounds, so that both see the same neighbours

Case = tuple[CostListing, SetRequest, int | None]  # the last: the cost of the cheapest set, where it is known


@dataclass(frozen=True, slots=True)
class Load:
    """Costs and a request, drawn for each round. ``is_proved``: every set must be proved to be the cheapest."""

    title: str
    draw: Callable[[random.Random], Case]
    bar_ms: float | None
    is_proved: bool = False
    method: SelectMethod = SelectMethod.AUTO
    steps: int | None = STEPS


@dataclass(frozen=True, slots=True)
class Round:
    """One answer: its CPU time, and its cost in parts of the greedy one's and of the known optimum's."""

    milliseconds: float
    of_greedy: float
    of_optimum: float | None
    is_proved: bool


def no_two_alike(first: int, second: int, counts: tuple[int, int]) -> Callable[[random.Random], Case]:
    """Two types of devices with random costs in both directions of every pair."""

    def draw(rng: random.Random) -> Case:
        names = [f"{kind}/{i}" for kind, count in (("a", first), ("b", second)) for i in range(count)]
        lines = tuple(CostLine((x,), rng.randint(1, 40), (y,)) for x in names for y in names if x != y)
        return CostListing(lines), SetRequest({"a": counts[0], "b": counts[1]}), None

    return draw


def node_names(kind: str, nodes: int, each: int) -> list[tuple[str, ...]]:
    """The instances of a type by NUMA node."""
    return [tuple(f"{kind}/{node * each + i}" for i in range(each)) for node in range(nodes)]


def four_nodes(rng: random.Random) -> Case:
    """Two sockets of two nodes: 128 CPUs in cores of two, 16 GPUs, 16 NICs; costs by distance, and busy instances.

    Within a node all CPUs, GPUs and NICs are alike, so that the optimum follows from counts per node.
    """
    apart = [
        [0 if a == b else rng.randint(20, 40) if a // 2 == b // 2 else rng.randint(50, 90) for b in range(4)]
        for a in range(4)
    ]
    kinds = {"cpu": node_names("cpu", 4, 32), "gpu": node_names("gpu", 4, 4), "nic": node_names("nic", 4, 4)}
    near = {
        ("cpu", "cpu"): 5,
        ("gpu", "gpu"): 10,
        ("nic", "nic"): 0,
        ("gpu", "cpu"): 8,
        ("nic", "cpu"): 6,
        ("gpu", "nic"): 4,
    }
    busy = frozenset(name for groups in kinds.values() for group in groups for name in group if rng.random() < 0.15)
    lines = tuple(
        CostLine(kinds[x][a], cost + apart[a][b], kinds[y][b])
        for (x, y), cost in near.items()
        for a in range(4)
        for b in range(4)
    )
    counts = {"cpu": 48, "gpu": 8, "nic": 4}
    free = {kind: [len(set(group) - busy) for group in groups] for kind, groups in kinds.items()}

    def pair(x: str, y: str, a: int, b: int) -> int:
        ways = [(x, y, a, b), (y, x, b, a)]
        return sum(near[p, q] + apart[i][j] for p, q, i, j in ways if (p, q) in near)

    return CostListing(lines), SetRequest(counts, busy), by_counts(free, counts, pair)


def by_counts(free: dict[str, list[int]], counts: dict[str, int], pair: Callable[[str, str, int, int], int]) -> int:
    """The cost of the cheapest set, from every way to spread the counts over the nodes."""
    shares = {kind: list(spreads(free[kind], counts[kind])) for kind in counts}
    nodes = range(len(free["cpu"]))
    kinds = list(counts)

    def cost(x: str, y: str, mine: tuple[int, ...], other: tuple[int, ...]) -> int:
        if x != y:
            return sum(mine[a] * other[b] * pair(x, y, a, b) for a in nodes for b in nodes)
        between = sum(mine[a] * mine[b] * pair(x, x, a, b) for a, b in combinations(nodes, 2))
        return between + sum(mine[a] * (mine[a] - 1) // 2 * pair(x, x, a, a) for a in nodes)

    few = {x: {share: cost(x, x, share, share) for share in shares[x]} for x in kinds}
    least_inside = min(few["cpu"].values())
    rest = []
    for gpus, nics in product(shares["gpu"], shares["nic"]):
        fixed = few["gpu"][gpus] + few["nic"][nics] + cost("gpu", "nic", gpus, nics)
        to_node = [cost_to(node, gpus, nics, pair) for node in nodes]
        rest.append((fixed + least_inside + counts["cpu"] * min(to_node), fixed, to_node))
    best = -1
    for least, fixed, to_node in sorted(rest):
        if best >= 0 and least >= best:
            break
        for cpus, inside in few["cpu"].items():
            total = fixed + inside + sum(count * price for count, price in zip(cpus, to_node, strict=True))
            best = total if best < 0 or total < best else best
    return best


def whole_node(rng: random.Random) -> Case:
    """A node of two sockets: 64 cores of two threads in 16 L3 domains; linked GPUs and NICs, no two alike."""
    cpus = [f"cpu/{i}" for i in range(128)]
    lines = []
    for core in range(64):
        mine = (cpus[2 * core], cpus[2 * core + 1])
        levels = [
            (0, mine),
            (5, cpus[core // 4 * 8 :][:8]),
            (8, cpus[core // 16 * 32 :][:32]),
            (15, cpus[core // 32 * 64 :][:64]),
        ]
        seen: set[str] = set()
        for cost, names in [*levels, (40, cpus)]:
            lines.append(CostLine(mine, cost, tuple(name for name in names if name not in seen)))
            seen.update(names)
    for kind, x in product(("gpu", "nic"), range(16)):
        for node in range(4):
            cost = (
                rng.randint(5, 9)
                if node == x // 4
                else rng.randint(12, 25)
                if node // 2 == x // 8
                else rng.randint(40, 60)
            )
            lines.append(CostLine((f"{kind}/{x}",), cost, tuple(cpus[32 * node : 32 * node + 32])))
        for other, y in product(("gpu", "nic"), range(16)):
            if (kind, x) != (other, y):
                lines.append(
                    CostLine(
                        (f"{kind}/{x}",),
                        rng.randint(2, 10) if x // 4 == y // 4 else rng.randint(15, 60),
                        (f"{other}/{y}",),
                    )
                )
    return CostListing(tuple(lines)), SetRequest({"cpu": 48, "gpu": 8, "nic": 4}), None


def planted(rng: random.Random) -> Case:
    """160 instances, none alike, among them a set whose pairs all cost 10, and no pair costs less."""
    names = [f"{kind}/{i}" for kind, count in (("cpu", 128), ("gpu", 16), ("nic", 16)) for i in range(count)]
    best = {
        f"{kind}/{i}"
        for kind, count, of in (("cpu", 48, 128), ("gpu", 8, 16), ("nic", 4, 16))
        for i in rng.sample(range(of), count)
    }
    lines = tuple(
        CostLine((x,), 5 if x in best and y in best else rng.randint(5, 40), (y,))
        for x in names
        for y in names
        if x != y
    )
    return CostListing(lines), SetRequest({"cpu": 48, "gpu": 8, "nic": 4}), 10 * 60 * 59 // 2


def cost_to(node: int, gpus: tuple[int, ...], nics: tuple[int, ...], pair: Callable[[str, str, int, int], int]) -> int:
    """What one CPU of a node costs to these GPUs and NICs."""
    to_gpus = sum(count * pair("gpu", "cpu", b, node) for b, count in enumerate(gpus))
    return to_gpus + sum(count * pair("nic", "cpu", b, node) for b, count in enumerate(nics))


def spreads(free: list[int], count: int) -> Iterator[tuple[int, ...]]:
    """Every way to take so many from groups of these sizes."""
    if not free:
        if not count:
            yield ()
        return
    for first in range(min(free[0], count) + 1):
        for rest in spreads(free[1:], count - first):
            yield first, *rest


GREEDY = SelectMethod.GREEDY
LOADS = (
    Load("16 devices, no two alike, 4 + 2 of them", no_two_alike(8, 8, (4, 2)), 10, is_proved=True),
    Load("24 devices, no two alike, 6 + 3 of them", no_two_alike(12, 12, (6, 3)), None, is_proved=True),
    Load("32 devices, no two alike, 8 + 8 of them", no_two_alike(16, 16, (8, 8)), 300, is_proved=True, steps=None),
    Load("160 instances alike within 4 nodes, 48 + 8 + 4 of them", four_nodes, 50, is_proved=True),
    Load("160 instances with a set cheaper than all others, 48 + 8 + 4", planted, 50, is_proved=True),
    Load("160 instances of a whole node, 48 + 8 + 4 of them", whole_node, 50, is_proved=True),
    Load("the same, greedy walk alone", whole_node, 5, method=GREEDY),
    Load("160 instances, no two alike, greedy walk alone", planted, None, method=GREEDY),
)


def reference_seconds() -> float:
    """The time of a fixed loop of integer arithmetic."""
    start = time.process_time()
    total = 0
    for i in range(REFERENCE_STEPS):
        total = (total + i * i) & 0xFFFF
    return time.process_time() - start


def one_round(load: Load, rng: random.Random) -> Round:
    """Draw, compile, and measure the selection."""
    listing, wanted, optimum = load.draw(rng)
    table = compile_costs(listing)
    start = time.process_time()
    answer = select(table, wanted, SelectOptions(load.method, steps=load.steps))
    milliseconds = 1000 * (time.process_time() - start)
    if not isinstance(answer, Selection):
        raise SystemExit(f"{load.title}: {answer.problem}")
    of_optimum = None if optimum is None else float(answer.cost / optimum)
    return Round(milliseconds, float(answer.cost / answer.greedy_cost), of_optimum, answer.is_optimal)


def measure(load: Load, rounds: int) -> bool:
    """Print the figures of one load; whether its bars are kept."""
    rng = random.Random(1)
    found, references = [], []
    for n in range(rounds):
        if n % -(-rounds // REFERENCE_TIMES) == 0:
            references.append(reference_seconds())
        found.append(one_round(load, rng))
    middle = median(r.milliseconds for r in found)
    ratio = middle / 1000 / median(references)
    bar = f"   (bar {load.bar_ms} ms)" if load.bar_ms else ""
    optima = [r.of_optimum for r in found if r.of_optimum is not None]
    print(load.title)
    print(
        f"  median {middle:.2f} ms, most {max(r.milliseconds for r in found):.2f} ms, "
        f"{ratio:.4f} of a loop of {REFERENCE_STEPS} additions{bar}"
    )
    print(
        f"  {sum(r.is_proved for r in found)} of {rounds} proved; "
        f"{median(r.of_greedy for r in found):.3f} of the greedy cost"
        + (f"; at most {max(optima):.4f} of the known optimum" if optima else ""),
        flush=True,
    )
    kept = all(r.is_proved for r in found) if load.is_proved else True
    kept = kept and all(r.of_greedy <= 1 for r in found)
    kept = kept and (load.method is GREEDY or all(part == 1 for part in optima))
    return kept and (load.bar_ms is None or middle <= load.bar_ms)


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    kept = [measure(load, rounds) for load in LOADS]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9))
