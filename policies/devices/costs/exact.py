"""Find the cheapest set by branch and bound over the vertices of the graph, within a budget of steps."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, itemgetter

from policies.devices.costs.graph import CostGraph, alike

# One vertex rated at one node of the search is a step: 1 to 2 microseconds, and 20,000 of them at most 50 ms.
SEARCH_STEPS = 20_000
# How many steps pass between two looks at the clock.
CLOCK_STEPS = 1000

# Loss of a vertex without which a layer has too few.
_ENDLESS = 1 << 200

Clock = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest set that was met, its cost, whether no set is cheaper for certain, and the steps it took."""

    counts: tuple[int, ...]
    cost: int
    is_proved: bool = False
    steps: int = 0


@dataclass(slots=True)
class _Node:
    """A part of the search: what is chosen, what may be added, and what it costs.

    ``room[v]``: how many more of a vertex may be added; ``links[v]``: what one of them costs to all that is chosen;
    ``need[k]``: how many more a layer needs.
    """

    counts: list[int]
    room: list[int]
    links: list[int]
    need: list[int]
    cost: int


class ExactSearch:
    """Depth first, the promising branch first; a branch ends where its bound reaches the cheapest set met."""

    def __init__(self, graph: CostGraph, incumbent: Sequence[int]) -> None:
        """``incumbent`` is a set that meets the request: no answer costs more."""
        self._graph, self._pair = graph, graph.pair
        self._best, self._best_cost = tuple(incumbent), graph.cost(incumbent)
        self._steps = 0
        self._next_look = CLOCK_STEPS
        self._layer = [vertex.layer for vertex in graph.vertices]
        self._twins = _twins(graph)
        # For each vertex, the vertices of each layer with the cost to them, cheapest first.
        self._nearest = [
            [[(row[w], w) for w in sorted(layer.vertices, key=row.__getitem__)] for layer in graph.layers]
            for row in graph.pair
        ]
        counts = [vertex.must for vertex in graph.vertices]
        room = [len(vertex.members) - vertex.must for vertex in graph.vertices]
        need = [layer.count - sum(counts[v] for v in layer.vertices) for layer in graph.layers]
        self._left = [_Node(counts, room, graph.links_to(counts), need, graph.cost(counts))]

    def offer(self, counts: Sequence[int]) -> None:
        """Take a set over that was found otherwise, where it is cheaper than the cheapest one met."""
        cost = self._graph.cost(counts)
        if cost < self._best_cost:
            self._best, self._best_cost = tuple(counts), cost

    def run(self, steps: int | None = SEARCH_STEPS, is_over: Clock | None = None) -> Found:
        """Go on until the search ends, or has taken so many steps since it began; None = no such end.

        ``is_over`` is asked now and then, and its answer may end the search too.
        """
        while self._left and (steps is None or self._steps < steps) and not self._is_late(is_over):
            self._descend(self._left.pop(), self._left)
        return Found(self._best, self._best_cost, not self._left, self._steps)

    def _is_late(self, is_over: Clock | None) -> bool:
        if is_over is None or self._steps < self._next_look:
            return False
        self._next_look = self._steps + CLOCK_STEPS
        return is_over()

    def _descend(self, node: _Node, left: list[_Node]) -> None:
        """Look at one node: drop it, or leave what must still be looked at, the promising part last."""
        if not any(node.need):
            if node.cost < self._best_cost:
                self._best, self._best_cost = tuple(node.counts), node.cost
            return
        pools = [(k, self._rated(node, k)) for k, need in enumerate(node.need) if need]
        cheapest = [_Cheapest(rated, node.room, node.need[k]) for k, rated in pools]
        if not all(picked.is_enough for picked in cheapest):
            return
        # Rates count every cost between two additions at both of them, so they are of the double cost.
        # Less 1, as only a cheaper set counts: of equal ones the first stays, whatever the search meets later.
        slack = 2 * (self._best_cost - 1 - node.cost) - sum(picked.total for picked in cheapest)
        if slack >= 0:
            losses = [loss for picked in cheapest for loss in picked.losses()]
            for picked in cheapest:
                for v in picked.beyond(slack):
                    node.room[v] = 0
            self._branch(node, losses, slack, left)

    def _branch(self, node: _Node, losses: list[tuple[int, int]], slack: int, left: list[_Node]) -> None:
        """Add what every set within the slack has; without such, try a set with the costliest loss, then without."""
        forced = [v for loss, v in losses if loss > slack]
        if not forced:
            _, pick = max(losses, key=lambda found: found[0])
            rest = _Node(node.counts[:], node.room[:], node.links, node.need[:], node.cost)
            self._close(rest, pick)
            left.append(rest)
            forced = [pick]
        for v in forced:
            self._add(node, v)
        # Last in, first out: the part with the pick is looked at before the one without.
        left.append(node)

    def _rated(self, node: _Node, k: int) -> list[tuple[int, int]]:
        """Return the open vertices of a layer, each after its rate, ascending.

        The rate of a vertex is a lower bound of what one of it adds: twice the links to the chosen, and the cheapest
        possible links to the additions of each layer.
        """
        room, links = node.room, node.links
        additions = [(at, need - (at == k)) for at, need in enumerate(node.need) if need > (at == k)]
        rated = []
        for v in self._graph.layers[k].vertices:
            if not room[v]:
                continue
            rate = 2 * links[v]
            # The instance that is rated is one of v itself, and no neighbour of its own.
            room[v] -= 1
            nearest = self._nearest[v]
            for at, count in additions:
                left = count
                for cost, w in nearest[at]:
                    if free := room[w]:
                        if free >= left:
                            rate += left * cost
                            break
                        rate += free * cost
                        left -= free
            room[v] += 1
            rated.append((rate, v))
        rated.sort()
        self._steps += len(rated)
        return rated

    def _add(self, node: _Node, v: int) -> None:
        node.cost += node.links[v]
        node.counts[v] += 1
        node.room[v] -= 1
        node.need[self._layer[v]] -= 1
        node.links = list(map(add, node.links, self._pair[v]))

    def _close(self, node: _Node, v: int) -> None:
        """Add no more of a vertex, nor of those that could stand in for it in every set."""
        for w in self._twins[v]:
            if node.counts[w] == node.counts[v]:
                node.room[w] = 0


class _Cheapest:
    """The cheapest additions of one layer by their rates."""

    __slots__ = ("_at", "_count", "_rated", "_room", "is_enough", "total")

    def __init__(self, rated: list[tuple[int, int]], room: list[int], need: int) -> None:
        self._rated, self._room = rated, room
        self.total = self._at = self._count = 0  # the last vertex inside, and how many of it
        self.is_enough = False
        for at, (rate, v) in enumerate(rated):
            free = room[v]
            if free >= need:
                self.total += need * rate
                self._at, self._count, self.is_enough = at, need, True
                break
            self.total += free * rate
            need -= free

    def losses(self) -> list[tuple[int, int]]:
        """Return the vertices inside, each after what the bound grows by, at least, when none of it is added."""
        at, rated, room = self._at, self._rated, self._room
        rate, last = rated[at]
        beyond = rated[at + 1][0] if at + 1 < len(rated) else _ENDLESS
        after = rate if room[last] > self._count else beyond
        found = [(room[v] * (after - mine), v) for mine, v in rated[:at]]
        found.append((self._count * (beyond - rate), last))
        return found

    def beyond(self, slack: int) -> list[int]:
        """Return the vertices outside of which not even one can be added within the slack."""
        at = bisect_right(self._rated, self._rated[self._at][0] + slack, key=itemgetter(0))
        return [v for _, v in self._rated[at:]]


def _twins(graph: CostGraph) -> list[list[int]]:
    """Return, for each vertex, itself and those that can change places with it in every set at the same cost."""
    sizes = [len(vertex.members) for vertex in graph.vertices]
    looks = [(each.layer, sizes[v], each.must, graph.pair[v][v]) for v, each in enumerate(graph.vertices)]
    twins_of = {v: twins for twins in alike(looks, sizes, graph.pair) for v in twins}
    return [twins_of[v] for v in range(len(sizes))]
