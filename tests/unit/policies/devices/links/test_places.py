from itertools import product
from random import Random

import pytest

from policies.devices.links import GpuPlace, GpuRequest, LinkOptions, allocate, matrix_of, places_of, read_links

# Two nodes of four GPUs, of which each two are on a switch.
PLACES = {gpu: GpuPlace(gpu // 4, gpu // 2) for gpu in range(8)}
EQUAL = matrix_of([[0 if i == j else 18 for j in range(8)] for i in range(8)], [])
TOPO = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tPIX\tNODE\t0-3\t0
GPU1\tNV18\t X \tNODE\tPXB\t4-7\t1
NIC0\tPIX\tNODE\t X \tSYS\t\t
NIC1\tNODE\tPXB\tSYS\t X \t\t
"""


def given(free: str, size: int, required: str = "") -> str:
    request = GpuRequest(size, frozenset(map(int, free)), frozenset(map(int, required)), PLACES)
    return "".join(map(str, allocate(EQUAL, request).devices))


@pytest.mark.parametrize(
    ("free", "size", "right"),
    [
        ("045", 2, "45"),
        ("14567", 4, "4567"),
        ("23456", 3, "456"),
        ("0246", 2, "02"),
        ("0135", 2, "01"),
        ("1267", 2, "67"),
    ],
)
def test_equal_links_are_told_apart_by_nodes_then_by_switches(free: str, size: int, right: str) -> None:
    assert given(free, size) == right


def test_what_is_required_stays_and_its_neighbours_join_it() -> None:
    assert given("01234567", 2, required="5") == "45"


def test_a_node_in_use_goes_before_an_idle_one_and_a_switch_likewise() -> None:
    assert given("012367", 2) == "67"
    assert (given("0123467", 1), given("1234567", 1)) == ("4", "1")


def test_links_count_before_places() -> None:
    nvlinks = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]
    nvlinks[0][2] = nvlinks[2][0] = 2
    places = {gpu: GpuPlace(gpu // 2, gpu // 2) for gpu in range(4)}
    found = allocate(matrix_of(nvlinks, []), GpuRequest(2, None, frozenset(), places), LinkOptions(from_all_cuts=True))
    assert (found.devices, found.score, found.total) == ((0, 2), 200, 300)


def test_the_distance_of_nodes_tells_sets_apart_that_are_on_as_many() -> None:
    places = {gpu: GpuPlace(gpu // 2) for gpu in range(8)}
    near = {(0, 3), (3, 0), (1, 2), (2, 1)}

    def distance(one: int, other: int) -> int:
        return 12 if (one, other) in near else 32

    free = frozenset((0, 1, 2, 3, 6, 7))
    found = allocate(EQUAL, GpuRequest(4, free, frozenset(), places, distance))
    assert found.devices == (0, 1, 6, 7)


def test_a_matrix_tells_nodes_and_the_switch_that_a_nic_is_on() -> None:
    assert places_of(read_links(TOPO)) == {0: GpuPlace(0, ("NIC0",)), 1: GpuPlace(1, None)}


def test_without_places_numbers_decide() -> None:
    request = GpuRequest(2, frozenset((0, 4, 5)), frozenset(), {})
    assert allocate(EQUAL, request).devices == (0, 4)


@pytest.mark.parametrize(("seed", "size"), list(product(range(40), (2, 3, 4))))
def test_equal_gpus_of_one_node_are_given_where_it_has_enough(seed: int, size: int) -> None:
    free = frozenset(Random(seed).sample(range(8), 6))
    nodes = [sum(PLACES[gpu].node == node for gpu in free) for node in (0, 1)]
    found = allocate(EQUAL, GpuRequest(size, free, frozenset(), PLACES))
    assert len({PLACES[gpu].node for gpu in found.devices}) == (1 if max(nodes) >= size else 2)
