from random import Random

from policies.costs.convex import Curvature, is_positive_definite


def random_costs(random: Random, count: int) -> list[list[float]]:
    costs = [[0.0] * count for _ in range(count)]
    for v in range(count):
        for w in range(v):
            costs[v][w] = costs[w][v] = random.random()
    return costs


def test_positive_definite_is_what_has_a_cholesky_root() -> None:
    assert is_positive_definite([[2.0, 1.0], [1.0, 2.0]])
    assert not is_positive_definite([[1.0, 2.0], [2.0, 1.0]])
    assert not is_positive_definite([[1.0, 1.0], [1.0, 1.0]])
    assert not is_positive_definite([[0.0]])
    assert is_positive_definite([])


def test_with_the_least_lifts_no_exchange_within_a_layer_bends_the_cost_downwards() -> None:
    random = Random(2)
    for _ in range(20):
        costs = random_costs(random, 8)
        layers = [0, 0, 0, 0, 1, 1, 1, 1]
        lifts = Curvature(costs, layers).least_lifts(range(8), [1.0] * 8)
        for _ in range(50):
            way = [random.uniform(-1, 1) for _ in range(8)]
            for layer in (range(4), range(4, 8)):
                mean = sum(way[v] for v in layer) / 4
                for v in layer:
                    way[v] -= mean
            bend = sum(way[v] * way[w] * costs[v][w] for v in range(8) for w in range(8))
            assert bend + sum(lift * x * x for lift, x in zip(lifts, way, strict=True)) > -1e-9


def test_the_least_lifts_are_nearly_the_least() -> None:
    """Two instances of a layer at a cost of 1: exchanging shares bends by -2 and twice the lift."""
    lifts = Curvature([[0.0, 1.0], [1.0, 0.0]], [0, 0]).least_lifts((0, 1), (1.0, 1.0))
    assert 1 <= lifts[0] <= 1.001
    assert lifts[0] == lifts[1]


def test_fewer_vertices_bend_less() -> None:
    costs = random_costs(Random(5), 12)
    curvature = Curvature(costs, [0] * 12)
    lifts = curvature.least_lifts(range(12), [1.0] * 12)
    smaller = [0.9 * lift for lift in lifts]
    assert curvature.is_convex(range(12), lifts)
    assert not curvature.is_convex(range(12), smaller)
    assert curvature.is_convex(range(6), smaller)
