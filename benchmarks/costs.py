"""How good the sets of a cost graph are, and how long they take to find. Run: python benchmarks/costs.py [ROUNDS].

First twelve draws of each of eight shapes, the same in every run, under the default options. Their budget is counted in
steps of the search, so that proofs and costs are the same on every machine, however busy. Prints how many sets are
proved to be the cheapest, and their costs against the recorded ones. The bar: no fewer proved in all than recorded, and
no set dearer by more than 3 %. ``--record`` prints the table of this run.

Then loads with other costs in each round: medians of CPU time, the median's ratio to a fixed pure-Python loop of the
same process, by which machines can be compared, and how good the sets are. A bar is kept when the median of the rounds
is below it, and every set is as good as the bar says.
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

from policies.devices.costs import (
    CostLine,
    CostListing,
    Selection,
    SelectMethod,
    SelectOptions,
    SetRequest,
    compile_costs,
    select,
)
from policies.topology_aware import SELECT

DEFAULT = SelectOptions()
DRAWS = 12
DEARER = 1.03  # in parts of a recorded cost
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
    options: SelectOptions = DEFAULT


@dataclass(frozen=True, slots=True)
class Round:
    """One answer: its CPU time, and its cost in parts of the greedy one's and of the known optimum's."""

    milliseconds: float
    of_greedy: float
    of_optimum: float | None
    is_proved: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """Two types of so many nodes of so many alike instances each, and how many instances of each type are asked for.

    ``proved`` and ``costs`` were recorded of the draws.
    """

    nodes: int
    alike: int
    count: int
    proved: int
    costs: tuple[int, ...]

    @property
    def title(self) -> str:
        """The shape in words."""
        of_one = "single devices" if self.alike == 1 else f"nodes of {self.alike} devices"
        return f"{self.nodes} + {self.nodes} {of_one}, {self.count} + {self.count} of them"

    def draw(self, rng: random.Random) -> Case:
        """Random costs in both directions between the nodes, and inside each."""
        nodes = [
            tuple(f"{kind}/{i * self.alike + j}" for j in range(self.alike)) for kind in "ab" for i in range(self.nodes)
        ]
        lines = tuple(CostLine(x, rng.randint(1, 40), y) for x in nodes for y in nodes if x != y or self.alike > 1)
        return CostListing(lines), SetRequest({"a": self.count, "b": self.count}), None


SHAPES = (
    Shape(8, 1, 2, 12, (155, 108, 129, 129, 143, 119, 123, 120, 142, 151, 147, 109)),
    Shape(12, 1, 6, 11, (2322, 2156, 2128, 2218, 2249, 2263, 2300, 2221, 2193, 2304, 2279, 2229)),
    Shape(16, 1, 4, 10, (761, 759, 818, 795, 745, 756, 770, 741, 733, 807, 777, 803)),
    Shape(16, 1, 8, 0, (4329, 3958, 4205, 3957, 4349, 4046, 4162, 4067, 4259, 4270, 4289, 4297)),
    Shape(20, 1, 3, 12, (349, 322, 336, 335, 355, 362, 325, 321, 333, 346, 335, 320)),
    Shape(20, 1, 8, 0, (3993, 3866, 3870, 4053, 4071, 3977, 3964, 3900, 4113, 4160, 4167, 4118)),
    Shape(10, 2, 8, 7, (3852, 3898, 3652, 3818, 3996, 3754, 3759, 3459, 3666, 3968, 3808, 3606)),
    Shape(12, 4, 8, 8, (2356, 2328, 2416, 2820, 2380, 2116, 2364, 3138, 2793, 3109, 2903, 2841)),
)


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


GREEDY = SelectOptions(SelectMethod.GREEDY)
LOADS = (
    Load("16 devices, no two alike, 4 + 2 of them", no_two_alike(8, 8, (4, 2)), 10, is_proved=True),
    Load("24 devices, no two alike, 6 + 3 of them", no_two_alike(12, 12, (6, 3)), None, is_proved=True),
    Load("32 devices, no two alike, 8 + 8 of them, as in the daemon", no_two_alike(16, 16, (8, 8)), 5, options=SELECT),
    Load("160 instances alike within 4 nodes, 48 + 8 + 4 of them", four_nodes, 50, is_proved=True),
    Load("160 instances with a set cheaper than all others, 48 + 8 + 4", planted, 50, is_proved=True),
    Load("160 instances of a whole node, 48 + 8 + 4 of them", whole_node, 100),
    Load("the same, greedy walk alone", whole_node, 5, options=GREEDY),
    Load("160 instances, no two alike, greedy walk alone", planted, None, options=GREEDY),
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
    answer = select(table, wanted, load.options)
    milliseconds = 1000 * (time.process_time() - start)
    if not isinstance(answer, Selection):
        raise SystemExit(f"{load.title}: {answer.problem}")
    of_optimum = None if optimum is None else float(answer.cost / optimum)
    return Round(milliseconds, float(answer.cost / answer.greedy_cost), of_optimum, answer.is_optimal)


def answers(shape: Shape) -> list[Selection]:
    """The sets that are selected in the draws of a shape."""
    rng = random.Random(f"{shape.nodes} {shape.alike} {shape.count}")
    found = []
    for _ in range(DRAWS):
        listing, wanted, _ = shape.draw(rng)
        answer = select(compile_costs(listing), wanted)
        if not isinstance(answer, Selection):
            raise SystemExit(f"{shape.title}: {answer.problem}")
        found.append(answer)
    return found


def compare_shapes() -> bool:
    """Print the proofs and costs of all shapes against the recorded ones; whether the bar is kept."""
    proved, recorded, dearest = 0, sum(shape.proved for shape in SHAPES), 0.0
    for shape in SHAPES:
        found = answers(shape)
        proofs = sum(answer.is_optimal for answer in found)
        parts = [float(answer.cost / known) for answer, known in zip(found, shape.costs, strict=True)]
        print(f"{shape.title}: {proofs} of {DRAWS} proved, {shape.proved} recorded", end="; ")
        print(f"{min(parts):.4f} to {max(parts):.4f} of the recorded costs", flush=True)
        proved, dearest = proved + proofs, max(dearest, *parts)
    print(f"in all {proved} of {DRAWS * len(SHAPES)} proved (bar {recorded}), at most {dearest:.4f} (bar {DEARER})\n")
    return proved >= recorded and dearest <= DEARER


def record_shapes() -> None:
    """Print the shapes with the numbers of this run."""
    for shape in SHAPES:
        found = answers(shape)
        proofs, costs = sum(answer.is_optimal for answer in found), ", ".join(str(answer.cost) for answer in found)
        print(f"    Shape({shape.nodes}, {shape.alike}, {shape.count}, {proofs}, ({costs})),")


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
    kept = kept and (load.options is GREEDY or all(part == 1 for part in optima))
    return kept and (load.bar_ms is None or middle <= load.bar_ms)


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    kept = [compare_shapes(), *(measure(load, rounds) for load in LOADS)]
    return int(not all(kept))


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record_shapes()
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9))
