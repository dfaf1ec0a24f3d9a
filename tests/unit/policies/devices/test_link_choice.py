"""GPUs of two nodes of four, each node with a ring of double NVLinks 0-3-2-1 and 4-7-6-5, single links beside them."""

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from policies.device_grants import DeviceGrant
from policies.devices import DeviceAllocator, DeviceInventory, PciePath, device_hints, links_of
from policies.devices.costs import CostLine, CostListing, Inventory, compile_costs
from policies.devices.links import LinkMatrix, matrix_of, read_links
from tests.fakes.amd_texts import amd_smi, packages
from tests.unit.policies.devices.build import GPUS, NICS, allocated, gpu, minors, nic, pairs, question

DOUBLE = ((0, 3), (3, 2), (2, 1), (4, 7), (7, 6), (6, 5))


def links(double: tuple[tuple[int, int], ...] = DOUBLE) -> LinkMatrix:
    rows = [[0 if a == b else 2 if (a, b) in double or (b, a) in double else 1 for b in range(8)] for a in range(8)]
    return matrix_of(rows, [])


def node(*, matrix: LinkMatrix | None = None) -> DeviceInventory:
    """Two GPUs and a NIC on each PCIe."""
    gpus = (gpu(minor, minor // 4, f"p{minor // 2}") for minor in range(8))
    nics = (nic(minor, minor // 2, f"p{minor}") for minor in range(4))
    return DeviceInventory((*gpus, *nics), links=matrix)


def given(inventory: DeviceInventory, count: int, **kwargs: object) -> list[int]:
    return minors(allocated(inventory, question({GPUS: count}, **kwargs)), "gpu")  # type: ignore[arg-type]  # by name


def test_gpus_by_themselves_are_those_with_the_best_links_of_a_node() -> None:
    assert given(node(), 2) == [0, 1]
    assert given(node(matrix=links()), 2) == [0, 3]
    assert given(node(matrix=links(((4, 7),))), 2) == [4, 7]


def test_more_gpus_than_a_node_has_are_on_as_few_nodes_as_without_links() -> None:
    assert given(node(matrix=links()), 4) == [0, 1, 2, 3]
    assert len(given(node(matrix=links()), 6)) == 6


@pytest.mark.parametrize("hint", [{"requiredTopologyScope": "PCIe"}, {"allocateStrategy": "ApplyForAll"}])
def test_links_do_not_count_where_a_hint_names_the_place_or_all(hint: dict[str, str]) -> None:
    count = 1 if "allocateStrategy" in hint else 2
    assert given(node(matrix=links()), count, hints={"gpu": hint}) == given(node(), count, hints={"gpu": hint})


def test_with_nics_the_pcie_decides_before_links() -> None:
    """Not 0 and 3 on two PCIe, but the best linked two of one."""
    asked = question({GPUS: 2, NICS: 1}, joint=["gpu", "rdma"])
    assert minors(allocated(node(matrix=links()), asked), "gpu") == [2, 3]
    assert minors(allocated(node(matrix=links(((0, 3),))), asked), "gpu") == [0, 1]


def test_devices_that_links_do_not_tell_apart_are_chosen_as_without_them() -> None:
    for requests in ({NICS: 200}, {"koordinator.sh/gpu": 120, "koordinator.sh/gpu.shared": 2}, {GPUS: 1}):
        plain, linked = (allocated(node(matrix=matrix), question(requests)) for matrix in (None, links(((4, 7),))))
        assert plain == linked


def test_where_the_matrix_lacks_a_gpu_the_choice_is_as_without_links() -> None:
    small = matrix_of([[0, 2], [2, 0]], [])
    assert given(node(matrix=small), 2) == [0, 1]


def test_hints_are_those_of_the_same_devices_without_links() -> None:
    asked = question({GPUS: 2})
    assert device_hints(DeviceAllocator(node(matrix=links())), asked) == device_hints(DeviceAllocator(node()), asked)


@pytest.mark.parametrize(("count", "score"), [(1, None), (2, 200), (8, 6 * 200 + 22 * 100)])
def test_the_score_of_gpus_is_that_of_their_links(count: int, score: int | None) -> None:
    (choice,) = allocated(node(matrix=links()), question({GPUS: count})).choices
    assert choice.link_score == score


def test_gpus_that_the_matrix_lacks_have_no_score() -> None:
    (choice,) = allocated(node(matrix=matrix_of([[0, 2], [2, 0]], [])), question({GPUS: 3})).choices
    assert choice.link_score == 0


ALL = tuple((str(gpu), 0, "cpu/cpu0") for gpu in range(8))
UNIFORM = matrix_of([[int(a != b) for b in range(8)] for a in range(8)], [])


def costs(*lines: tuple[str, int, str]) -> Inventory:
    """Costs of GPUs, which are known by their numbers there."""
    listed = tuple(CostLine((f"{GPUS}/{one}",), cost, (other,)) for one, cost, other in lines)
    return Inventory(compile_costs(CostListing(listed)))


def test_of_gpus_with_equal_links_those_that_cost_least_are_taken() -> None:
    far = [(str(gpu), 9, f"{GPUS}/{other}") for gpu in range(8) for other in range(gpu) if (other, gpu) != (1, 2)]
    assert given(replace(node(matrix=UNIFORM), costs=costs(*far)), 2) == [1, 2]
    to_cpus = [(str(gpu), 9 - gpu, "cpu/cpu0") for gpu in range(8)]
    assert given(replace(node(matrix=UNIFORM), costs=costs(*to_cpus)), 2) == [2, 3]


def test_links_and_numa_nodes_decide_before_costs() -> None:
    cheap = costs(*[("1", 9, f"{GPUS}/{other}") for other in (0, 3, 4)], ("0", 9, f"{GPUS}/3"), ("2", 1, f"{GPUS}/3"))
    assert given(replace(node(matrix=links()), costs=cheap), 2) == [1, 2]
    assert given(replace(node(matrix=links(((0, 3),))), costs=cheap), 2) == [0, 3]
    assert given(replace(node(matrix=UNIFORM), costs=costs(("0", 9, f"{GPUS}/1"), *ALL)), 2) == [0, 2]


def test_costs_change_no_choice_that_they_say_nothing_of() -> None:
    assert given(replace(node(matrix=UNIFORM), costs=costs(("0", 9, f"{GPUS}/1"))), 2) == [0, 1]  # of two of them alone
    of_others = Inventory(compile_costs(CostListing((CostLine(("example.com/nic/0",), 5, ("cpu/cpu0",)),))))
    assert given(replace(node(matrix=links()), costs=of_others), 2) == [0, 3]
    assert given(replace(node(matrix=links()), costs=costs(("0", 0, "cpu/cpu0"))), 2) == [0, 3]


def test_a_pair_costs_as_much_as_what_a_gpu_costs_the_cpus() -> None:
    """Three pairs at 1 are cheaper than one pair at 1 and a GPU that is 3 from the CPUs."""
    pairs = [("0", 1, f"{GPUS}/1"), ("0", 1, f"{GPUS}/2"), ("1", 1, f"{GPUS}/2")]
    to_cpus = [(str(gpu), cost, "cpu/cpu0") for gpu, cost in enumerate((0, 0, 0, 3, 50, 50, 50, 50))]
    assert given(replace(node(matrix=UNIFORM), costs=costs(*pairs, *to_cpus)), 3) == [0, 1, 2]
    nearer = [(str(gpu), cost, "cpu/cpu0") for gpu, cost in enumerate((0, 0, 0, 1, 50, 50, 50, 50))]
    assert 3 in given(replace(node(matrix=UNIFORM), costs=costs(*pairs, *nearer)), 3)


def test_of_gpus_with_equal_links_those_of_a_known_node_come_first() -> None:
    known = tuple(gpu(minor, None if minor < 4 else 0, f"p{minor}") for minor in range(8))
    assert given(DeviceInventory(known, links=UNIFORM), 2) == [4, 5]


@pytest.mark.parametrize(("seed", "count"), [(seed, count) for seed in range(20) for count in (2, 3, 4)])
def test_with_nics_the_best_linked_of_the_gpus_with_equal_places_are_taken(seed: int, count: int) -> None:
    """Each of eight PCIe has a GPU and a NIC, so that every set of one node is as near to its NICs."""
    rng = Random(seed)
    rows = [[0] * 8 for _ in range(8)]
    for a, b in combinations(range(8), 2):
        rows[a][b] = rows[b][a] = rng.randrange(4)
    held = [DeviceGrant("gpu", minor, 100) for minor in rng.sample(range(8), 1)]
    free = set(range(8)) - {grant.number for grant in held}
    asked = question({GPUS: count, NICS: 1}, joint=["gpu", "rdma"])
    answer = allocated(replace(pairs(8), links=matrix_of(rows, [])), asked, held)

    def place(some: tuple[int, ...]) -> tuple[int, bool]:
        nodes = {gpu // 4 for gpu in some}
        return len(nodes), held[0].number // 4 not in nodes

    sets = [some for some in combinations(range(8), count) if free.issuperset(some)]
    nearest = min(map(place, sets))
    best = max(sum(rows[a][b] for a, b in combinations(some, 2)) for some in sets if place(some) == nearest)
    assert answer.choices[0].link_score == 100 * best
    assert sum(rows[a][b] for a, b in combinations(minors(answer, "gpu"), 2)) == best
    assert minors(answer, "rdma") == minors(answer, "gpu")


def test_of_several_gpus_on_a_pcie_the_best_linked_go_with_the_nic() -> None:
    asked = question({GPUS: 2, NICS: 1}, joint=["gpu", "rdma"], scope="SamePCIe")
    one_switch = DeviceInventory((*(gpu(i, 0, "a") for i in range(8)), nic(0, 0, "a")), links=links(((4, 7),)))
    answer = allocated(one_switch, asked)
    assert (minors(answer, "gpu"), minors(answer, "rdma"), answer.choices[0].link_score) == ([4, 7], [0], 200)
    costly = costs(*[("4", 9, f"{GPUS}/{other}") for other in range(8) if other != 4])
    assert minors(allocated(replace(one_switch, costs=costly), asked), "gpu") == [4, 7]


def test_equal_links_and_those_of_gpus_that_the_matrix_lacks_change_nothing_with_nics() -> None:
    asked = question({GPUS: 2, NICS: 1}, joint=["gpu", "rdma"])
    for matrix in (UNIFORM, matrix_of([[0, 2], [2, 0]], []), None):
        assert minors(allocated(replace(pairs(8), links=matrix), asked), "gpu") == [0, 1]


def test_very_many_equal_sets_are_compared_as_far_as_is_quick() -> None:
    matrix = matrix_of([[int(a != b) for b in range(24)] for a in range(24)], [])
    asked = question({GPUS: 12, NICS: 1}, joint=["gpu", "rdma"])
    answer = allocated(replace(pairs(24, nodes=1), links=matrix), asked)
    assert minors(answer, "gpu") == list(range(12))


DOWN = matrix_of([[18 if a != b and 0 not in (a, b) else 0 for b in range(8)] for a in range(8)], [])


def test_a_gpu_whose_nvlinks_are_down_is_the_last_of_those_with_as_good_a_place() -> None:
    assert [given(replace(pairs(8), links=DOWN), count) for count in (1, 2, 8)] == [[1], [2, 3], list(range(8))]
    both = question({GPUS: 1, NICS: 1}, joint=["gpu", "rdma"])
    assert minors(allocated(replace(pairs(8), links=DOWN), both), "gpu") == [1]
    one_nic = DeviceInventory((*pairs(8).of("gpu"), nic(0, 0, "p0")), links=DOWN)
    assert minors(allocated(one_nic, both), "gpu") == [0]
    held = [DeviceGrant("gpu", minor, 100) for minor in range(1, 8)]
    assert minors(allocated(replace(pairs(8), links=DOWN), question({GPUS: 1}), held), "gpu") == [0]


AMD = read_links(amd_smi(packages()))
"""Eight GPUs by address, from 0000:05:00.0 to 0000:75:00.0; four links between two of a package."""


def by_address(*minors: int, parts: int = 0) -> DeviceInventory:
    """GPUs at the addresses of that matrix with these minors, each with so many more partitions behind it."""
    gpus = []
    for number, minor in enumerate(minors):
        bus = f"0000:{number}5:00.0"
        whole = gpu(minor, 0, f"p{number}")
        gpus.append(replace(whole, path=PciePath(bus=bus)))
        gpus += (replace(whole, minor=minor + 1 + n, part_of=bus) for n in range(parts))
    return DeviceInventory(tuple(gpus), links=AMD)


def test_gpus_that_a_tool_names_by_address_are_known_by_it_whatever_their_numbers() -> None:
    assert given(by_address(0, 1, 2, 3, 4, 5, 6, 7), 2) == [0, 1]
    assert given(by_address(7, 0, 1, 2, 3, 4, 5, 6), 2) == [0, 7]
    assert given(by_address(3, 5), 2) == [3, 5]  # the others of the matrix are not listed


def test_a_matrix_of_whole_gpus_says_nothing_of_their_partitions() -> None:
    inventory = by_address(0, 4, 8, 12, 16, 20, 24, 28, parts=3)
    held, asked = [DeviceGrant("gpu", 0, 100)], question({GPUS: 4})
    plain = allocated(replace(inventory, links=None), asked, held)
    assert minors(allocated(inventory, asked, held), "gpu") == minors(plain, "gpu") == [4, 5, 6, 7]
    gpus = inventory.of("gpu")
    every = matrix_of([[0 if a == b else 1 for b in range(32)] for a in range(32)], [])
    assert links_of(every, gpus) is every
    assert links_of(None, gpus) is None
