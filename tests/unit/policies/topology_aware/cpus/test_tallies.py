import pytest

from policies.hardware.domains import Domain, Level
from policies.topology_aware.cpus.tallies import Tallies, siblings_cost, tallies_of
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import four_nodes, tree_of

PLENTY = 1 << 20


def tallies(free: str, *, reserved: str = "", limit: int = PLENTY) -> tuple[Tallies, dict[int, tuple[int, int, int]]]:
    """What is counted, and for each node what it can give; the limit is that of node 0."""
    tree = tree_of(four_nodes(), reserved)
    limits = [limit if pool.name == "NUMA node #0" else PLENTY for pool in tree.pools]
    found = tallies_of(tree, tree.domains.root, tree.root, CpuSet.parse(free).mask, limits)
    return found, {node.id: found.of(node) for node in nodes_in(tree.domains.root)}


def nodes_in(domain: Domain) -> list[Domain]:
    return [domain] if domain.level is Level.NODE else [node for child in domain.children for node in nodes_in(child)]


def test_cpus_on_whole_cores_and_on_broken_ones_are_counted_apart() -> None:
    assert tallies("0-2,4,6")[1] == {0: (3, 2, 1), 1: (2, 0, 2), 2: (0, 0, 0), 3: (0, 0, 0)}


def test_the_sibling_of_a_reserved_cpu_is_neither() -> None:
    assert tallies("1-3", reserved="0")[1][0] == (3, 2, 0)


def test_a_limit_bounds_all_of_it_and_leaves_whole_cores() -> None:
    found, by_node = tallies("0-7", limit=3)
    assert by_node[0] == (3, 2, 0)
    assert found.give[0] == 7


@pytest.mark.parametrize(
    ("count", "whole", "loose", "expected"),
    [(4, 4, 0, (0, 0)), (3, 4, 1, (1, 0)), (3, 4, 0, (1, 1)), (3, 2, 0, (1, 2)), (2, 0, 2, (2, 0)), (5, 4, 3, (1, 0))],
)
def test_single_threads_go_beside_owned_ones_then_break_a_core_then_go_beside_reserved_ones(
    count: int, whole: int, loose: int, expected: tuple[int, int]
) -> None:
    assert siblings_cost(count, whole, loose, 2) == expected
