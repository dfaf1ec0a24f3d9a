import pytest

from policies.costs.derive_scale import NodeScale
from sysfs.cpuset import NodeSet
from sysfs.descriptions.machine import describe


def scale(*rows: tuple[int, ...]) -> NodeScale:
    return NodeScale(describe({"packages": 1, "nodes": len(rows), "memory": "1Gi", "distances": [*map(list, rows)]}))


@pytest.mark.parametrize(("distance", "cost"), [(10, 15), (11, 24), (12, 32), (16, 66), (20, 100)])
def test_a_cost_grows_with_the_distance_up_to_the_largest_one(distance: int, cost: int) -> None:
    known = scale((10, distance, 20), (distance, 10, 20), (20, 20, 10))
    assert known.between(0, 1) == known.between(1, 0) == cost
    assert known.between(0, 0) == 15


def test_another_node_is_never_as_near_as_the_own_one() -> None:
    known = scale((10, 11, 254), (11, 10, 254), (254, 254, 10))
    assert (known.between(0, 1), known.between(0, 2)) == (16, 100)


def test_a_node_that_cannot_be_reached_is_farthest_and_stretches_no_scale() -> None:
    known = scale((10, 20, 255), (20, 10, 255), (255, 255, 10))
    assert [known.between(0, node) for node in (1, 2)] == [100, 100]


def test_nodes_that_are_all_as_near_cost_as_one() -> None:
    """What the kernel's emulated nodes (numa=fake=) report."""
    assert scale((10, 10), (10, 10)).between(0, 1) == 15


def test_an_unknown_node_is_farthest_from_all() -> None:
    known = scale((10, 20), (20, 10))
    assert known.between(-1, 0) == known.between(0, 9) == known.between(-1, -1) == 100
    assert known.nearest(NodeSet(), NodeSet.of([0])) == 100


def test_of_several_nodes_the_nearest_counts() -> None:
    known = scale((10, 12, 20), (12, 10, 20), (20, 20, 10))
    assert known.nearest(NodeSet.of([1, 2]), NodeSet.of([0])) == known.between(0, 1)


def test_without_a_known_node_a_machine_with_one_has_it() -> None:
    assert scale((10,)).home(NodeSet()) == NodeSet.of([0])
    assert scale((10, 20), (20, 10)).home(NodeSet()) == NodeSet()
    assert scale((10,)).home(NodeSet.of([3])) == NodeSet.of([3])
