"""Walk the layers and take the cheapest instance each time: the first solution."""

from collections.abc import Sequence

from policies.devices.costs.graph import CostGraph


def take_greedily(graph: CostGraph) -> list[int]:
    """Return a set: from the most constrained layer on, each step adds what costs least to all that is chosen.

    Ties go to the first vertex. Instances that must be in the set are chosen before the walk.
    """
    counts = [vertex.must for vertex in graph.vertices]
    links = links_to(graph, counts)
    for layer in graph.layers:
        for _ in range(layer.count - sum(counts[v] for v in layer.vertices)):
            open_vertices = (v for v in layer.vertices if counts[v] < len(graph.vertices[v].members))
            chosen = min(open_vertices, key=links.__getitem__)
            counts[chosen] += 1
            links = [link + cost for link, cost in zip(links, graph.pair[chosen], strict=True)]
    return counts


def links_to(graph: CostGraph, counts: Sequence[int]) -> list[int]:
    """Return, for each vertex, the cost from one of its instances that is not in the set to the whole set."""
    links = [0] * len(graph.vertices)
    for v, count in enumerate(counts):
        if count:
            links = [link + count * cost for link, cost in zip(links, graph.pair[v], strict=True)]
    return links
