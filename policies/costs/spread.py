"""Find the cheapest set by how its largest layer spreads over the areas of a machine, within a budget of steps.

Most costs of CPUs to devices are those of their NUMA node, so that all that matters to a device is how many CPUs are on
which node, and within a node the best CPUs are known for each number (``packing``). Of all ways to spread the CPUs few
are within the cost of a known set, and with the CPUs given the search in ``exact`` soon has the devices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter, mul

from policies.costs.exact import CLOCK_STEPS, STEPS, Clock, ExactSearch, Found
from policies.costs.graph import CostGraph, Layer, Vertex
from policies.costs.greedy import take_greedily
from policies.costs.packing import PackedVertices, packing

# With more areas there are too many ways to spread over them.
MAX_AREAS = 16


@dataclass(frozen=True, slots=True)
class Areas:
    """A layer by its areas: the vertices of an area cost the same to every vertex outside of it."""

    layer: int
    areas: tuple[PackedVertices, ...]


def areas_of(graph: CostGraph) -> Areas | None:
    """Return the areas of the layer with the most vertices; None where they make nothing simpler."""
    at, layer = max(enumerate(graph.layers), key=lambda found: (len(found[1].vertices), -found[0]))
    alike: dict[tuple[int, ...], list[int]] = {}
    for v in layer.vertices:
        row = graph.pair[v]
        alike.setdefault(row[: layer.vertices.start] + row[layer.vertices.stop :], []).append(v)
    if len(alike) > MAX_AREAS or len(alike) == len(layer.vertices) or not _are_apart(graph, list(alike.values())):
        return None
    found = [packing(graph, vertices, layer.count) for vertices in alike.values()]
    areas = tuple(area for area in found if area is not None)
    return Areas(at, areas) if len(areas) == len(found) else None


def _are_apart(graph: CostGraph, areas: Sequence[Sequence[int]]) -> bool:
    """Return whether any two areas have one cost between them."""
    return all(
        len({graph.pair[v][w] for v in area for w in other}) == 1 for i, area in enumerate(areas) for other in areas[:i]
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """How many instances each area gives: a bound of twice the cost of any such set, and twice what they cost alone."""

    bound: int
    alone: int
    counts: tuple[int, ...]


class SpreadSearch:
    """The ways to spread a layer, the most promising first, until the bound of the next reaches the cheapest set met.

    Costs inside are doubled: links of two instances that are both still to be chosen count once at each.
    """

    def __init__(self, graph: CostGraph, areas: Areas, incumbent: Sequence[int]) -> None:
        """``incumbent`` is a set that meets the request: no answer costs more."""
        self._graph, self._areas = graph, areas.areas
        self._count = graph.layers[areas.layer].count
        self._best, self._best_cost = tuple(incumbent), graph.cost(incumbent)
        self._steps, self._next_look, self._is_late = 0, CLOCK_STEPS, False
        firsts = [area.vertices[0] for area in self._areas]
        self._between = [[graph.pair[v][w] for w in firsts] for v in firsts]
        self._others = [layer for at, layer in enumerate(graph.layers) if at != areas.layer]
        self._to_areas = {v: [graph.pair[v][w] for w in firsts] for layer in self._others for v in layer.vertices}
        self._rates = {v: self._least_links(v) for v in self._to_areas}
        # The least that the other layers cost inside, and what one instance of an area costs to them.
        self._inside = sum(self._cheapest(layer, self._rates) for layer in self._others)
        self._outside = [self._least_links(v) for v in firsts]
        self._rest = self._least_rests()

    def run(self, steps: int | None = STEPS, is_over: Clock | None = None) -> Found:
        """Return the cheapest set, or the cheapest one met when the steps end, or ``is_over`` says so now and then."""
        spreads: list[_Spread] = []
        self._extend((), 0, spreads, steps, is_over)
        for spread in sorted(spreads, key=lambda spread: (spread.bound, spread.counts)):
            if self._is_late or spread.bound >= 2 * self._best_cost:
                break
            self._complete(spread, steps, is_over)
        return Found(self._best, not self._is_late, self._steps)

    def _spend(self, looks: int, steps: int | None, is_over: Clock | None) -> None:
        self._steps += looks
        if steps is not None and self._steps >= steps:
            self._is_late = True
        elif is_over is not None and self._steps >= self._next_look:
            self._next_look = self._steps + CLOCK_STEPS
            self._is_late = is_over()

    def _extend(
        self, counts: tuple[int, ...], alone: int, found: list[_Spread], steps: int | None, is_over: Clock | None
    ) -> None:
        """Find the ways that begin with these counts and may be cheaper than the cheapest set met."""
        at, left = len(counts), self._count - sum(counts)
        if at == len(self._areas):
            bound = alone + self._least_others(counts)
            if bound < 2 * self._best_cost:
                found.append(_Spread(bound, alone, counts))
            return
        links = [2 * sum(map(mul, counts, row)) for row in self._between]
        nearest = min(links[at + 1 :], default=0)
        apart = 2 * min(self._between[at][at + 1 :], default=0)
        costs, rest = self._areas[at].costs, self._rest[at + 1]
        # What is spread so far and what is left cost the other layers at least this, too.
        limit = 2 * self._best_cost - self._inside - 2 * sum(map(mul, counts, self._outside))
        fewest, most = max(0, left - len(rest) + 1), min(left, len(costs) - 1)
        self._spend(1 + max(0, most - fewest), steps, is_over)
        for n in range(fewest, most + 1):
            if self._is_late:
                return
            cost = alone + costs[n] + n * links[at]
            if cost + 2 * n * self._outside[at] + rest[left - n] + (left - n) * (nearest + n * apart) < limit:
                self._extend((*counts, n), cost, found, steps, is_over)

    def _complete(self, spread: _Spread, steps: int | None, is_over: Clock | None) -> None:
        """Choose the cheapest instances of the other layers for a spread."""
        graph = self._given(spread)
        search = ExactSearch(graph, take_greedily(graph), self._best_cost - spread.alone // 2)
        answer = search.run(None if steps is None else steps - self._steps, is_over)
        self._spend(answer.steps, None, None)
        self._is_late = not answer.is_proved
        cost = graph.cost(answer.counts) + spread.alone // 2
        if cost < self._best_cost:
            counts = dict(zip(self._to_areas, answer.counts, strict=False))
            for area, n in zip(self._areas, spread.counts, strict=True):
                counts.update(area.counts(n))
            self._best, self._best_cost = tuple(counts.get(v, 0) for v in range(len(self._graph.vertices))), cost

    def _given(self, spread: _Spread) -> CostGraph:
        """Return the graph of the other layers, with the spread instances as one vertex that every set has."""
        vertices: list[Vertex] = []
        layers: list[Layer] = []
        for layer in self._others:
            first = len(vertices)
            vertices += [replace(self._graph.vertices[v], layer=len(layers)) for v in layer.vertices]
            layers.append(Layer(layer.kind, layer.count, range(first, len(vertices))))
        layers.append(Layer("", 1, range(len(vertices), len(vertices) + 1)))
        vertices.append(Vertex(len(layers) - 1, ("",), 1))
        links = [sum(map(mul, spread.counts, row)) for row in self._to_areas.values()]
        pair = [
            (*itemgetter(*self._to_areas, 0)(self._graph.pair[v])[:-1], link)
            for v, link in zip(self._to_areas, links, strict=True)
        ]
        return CostGraph(tuple(layers), tuple(vertices), (*pair, (*links, 0)))

    def _least_others(self, counts: tuple[int, ...]) -> int:
        """Return a bound of what the other layers cost inside and to a spread."""
        rates = {v: self._rates[v] + 2 * sum(map(mul, counts, row)) for v, row in self._to_areas.items()}
        return sum(self._cheapest(layer, rates) for layer in self._others)

    def _least_links(self, v: int) -> int:
        """Return the least cost of an instance to those of the other layers that can be in one set with it."""
        costs = dict(enumerate(self._graph.pair[v]))
        return sum(self._cheapest(layer, costs, v) for layer in self._others)

    def _cheapest(self, layer: Layer, costs: Mapping[int, int], besides: int = -1) -> int:
        """Return the sum of the cheapest instances of a layer, as many as the set has besides one of this vertex."""
        left, total = layer.count - (besides in layer.vertices), 0
        for cost, v in sorted([(costs[v], v) for v in layer.vertices]):
            taken = min(left, len(self._graph.vertices[v].members) - (v == besides))
            total += taken * cost
            left -= taken
        return total

    def _least_rests(self) -> list[list[int]]:
        """Return, for the areas from each one on, a bound of what each count of them costs, and to the other layers."""
        rests = [[0]]
        for at in reversed(range(len(self._areas))):
            costs, outside, after = self._areas[at].costs, self._outside[at], rests[-1]
            nearest = min(self._between[at][at + 1 :], default=0)
            most = min(self._count, len(costs) + len(after) - 2)
            rests.append(
                [
                    min(
                        costs[n] + after[count - n] + 2 * n * (outside + (count - n) * nearest)
                        for n in range(max(0, count - len(after) + 1), min(count, len(costs) - 1) + 1)
                    )
                    for count in range(most + 1)
                ]
            )
        return rests[::-1]
