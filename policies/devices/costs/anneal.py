"""Improve a set by simulated annealing: random replacements inside a layer, then those that make it cheaper."""

import random
from collections.abc import Sequence
from math import exp, sqrt

from policies.devices.costs.graph import CostGraph

WALK_STEPS = 2000
# The most replacements that are looked at after the walk, a few milliseconds; large graphs do not end by themselves.
SETTLING_LOOKS = 20_000


def anneal(graph: CostGraph, start: list[int], seed: int, steps: int = WALK_STEPS) -> list[int]:
    """Return the cheapest set that the walk from ``start`` meets, settled.

    The temperature falls in equal steps from the spread of what single replacements change at the start.
    """
    pair, sizes = graph.pair, [len(vertex.members) for vertex in graph.vertices]
    counts, links = list(start), graph.links_to(start)
    rows = [graph.layers[vertex.layer].vertices for vertex in graph.vertices]
    # The instances that may be replaced, each by its vertex.
    chosen = [v for v, vertex in enumerate(graph.vertices) for _ in range(counts[v] - vertex.must)]
    ways = ((old, new) for old in dict.fromkeys(chosen) for new in rows[old] if new != old and counts[new] < sizes[new])
    changes = [links[new] - pair[old][new] - links[old] + pair[old][old] for old, new in ways]
    if not changes:
        return counts
    # The standard deviation. statistics.pstdev takes ten times as long as the walk for 4,000 changes.
    # 1.0 where all changes are the same, as the temperature is a divisor.
    hot = sqrt(len(changes) * sum(change * change for change in changes) - sum(changes) ** 2) / len(changes) or 1.0
    best, best_change, change = list(counts), 0, 0
    drawn = random.Random(seed)
    for step in range(steps):
        at = drawn.randrange(len(chosen))
        old = chosen[at]
        new = rows[old][drawn.randrange(len(rows[old]))]
        if counts[new] == sizes[new]:
            continue
        delta = links[new] - pair[old][new] - links[old] + pair[old][old]
        if delta > 0 and drawn.random() >= exp(-delta / (hot * (1 - step / steps))):
            continue
        counts[old] -= 1
        counts[new] += 1
        chosen[at] = new
        change += delta
        links = [link - gone + come for link, gone, come in zip(links, pair[old], pair[new], strict=True)]
        if change < best_change:
            best, best_change = list(counts), change
    return _settled(graph, best)


def _settled(graph: CostGraph, start: Sequence[int]) -> list[int]:
    """Return the set after replacements that each make it cheaper, until none does or the looks are used up."""
    pair, counts, links = graph.pair, list(start), graph.links_to(start)
    rows = [graph.layers[vertex.layer].vertices for vertex in graph.vertices]
    looks, is_better = SETTLING_LOOKS, True
    while is_better:
        is_better = False
        for old, vertex in enumerate(graph.vertices):
            if counts[old] <= vertex.must:
                continue
            looks -= len(rows[old])
            if looks < 0:
                return counts
            to = pair[old]
            free = (new for new in rows[old] if counts[new] < len(graph.vertices[new].members))
            cost, new = min(((links[new] - to[new], new) for new in free), default=(links[old], old))
            if cost < links[old] - to[old]:
                counts[old] -= 1
                counts[new] += 1
                links = [link - gone + come for link, gone, come in zip(links, pair[old], pair[new], strict=True)]
                is_better = True
    return counts
