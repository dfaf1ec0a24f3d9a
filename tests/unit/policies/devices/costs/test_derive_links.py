from itertools import pairwise

import pytest

from policies.devices import RESOURCE_OF
from policies.devices.costs import CostError, MachineCosts, costs_of_links, nodes_of_gpus
from policies.devices.links import Link, LinkMatrix, MatrixGpu, MatrixNic, matrix_of, read_links
from sysfs.cpuset import NodeSet
from tests.fakes.amd_texts import amd_smi, islands, packages, rocm_smi
from tests.unit.policies.devices.costs.derived import by_pair, machine

HEAD = "GPU0 GPU1 GPU2 NIC0 NIC1 CPU Affinity NUMA Affinity\n"
MATRIX = (
    HEAD
    + "GPU0 X NV2 SYS PIX SYS 0-7 0\nGPU1 NV2 X PHB PXB NODE 0-7 0\nGPU2 SYS PHB X SYS PHB 8-15 1\n"
    + "NIC0 PIX PXB SYS X SYS\nNIC1 SYS NODE PHB SYS X\nNIC0: mlx5_0\nNIC1: mlx5_1\n"
)


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        ("nvidia.com/gpu/gpu0", "nvidia.com/gpu/gpu1", 9),
        ("nvidia.com/gpu/gpu1", "nvidia.com/gpu/gpu2", 20 + 10),
        ("nvidia.com/gpu/gpu0", "nvidia.com/gpu/gpu2", 67 + 10),  # the distance of nodes 0 and 1
        ("nvidia.com/gpu/gpu0", "nic/mlx5_0", 5),
        ("nvidia.com/gpu/gpu1", "nic/mlx5_0", 10),
        ("nvidia.com/gpu/gpu2", "nic/mlx5_1", 20),
        ("nvidia.com/gpu/gpu1", "nic/mlx5_1", 25),
        ("nvidia.com/gpu/gpu0", "nic/mlx5_1", 100),  # the matrix has no node of a NIC
        ("nic/mlx5_0", "nic/mlx5_1", 100),
    ],
)
def test_a_word_of_the_matrix_is_a_cost(one: str, other: str, cost: int) -> None:
    costs = by_pair(costs_of_links(read_links(MATRIX), MachineCosts(machine()).scale))
    assert (costs[one, other], costs[other, one]) == (cost, cost)


def test_more_nvlinks_never_cost_more_and_one_less_than_a_switch_between_gpus() -> None:
    names = ("nvidia.com/gpu/gpu0", "nvidia.com/gpu/gpu1")
    scale = MachineCosts(machine()).scale
    costs = [by_pair(costs_of_links(matrix_of([[0, n], [n, 0]], ()), scale))[names] for n in range(1, 40)]
    assert (costs[0], costs[17], costs[-1]) == (10, 2, 2)
    assert all(more <= fewer for fewer, more in pairwise(costs))
    assert costs[:19] == [10, 9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 2, 2]
    switch = by_pair(costs_of_links(read_links("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X"), scale))
    assert costs[0] < switch[names]


def test_a_nic_without_a_name_in_the_legend_goes_by_that_of_its_column() -> None:
    matrix = read_links("GPU0 NIC0 NUMA Affinity\nGPU0 X PIX N/A\nNIC0 PIX X\n")
    assert costs_of_links(matrix, MachineCosts(machine()).scale).present == ("nvidia.com/gpu/gpu0", "nic/NIC0")
    assert nodes_of_gpus(matrix) == {}


def test_a_gpu_without_links_is_present() -> None:
    matrix = read_links("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 0-1")
    listing = costs_of_links(matrix, MachineCosts(machine()).scale)
    assert (listing.lines, listing.present) == ((), ("nvidia.com/gpu/gpu0",))
    assert nodes_of_gpus(matrix) == {"nvidia.com/gpu/gpu0": NodeSet.of([0, 1])}


@pytest.mark.parametrize("name", ["mlx5/0", "a b", "mlx5-0", "a0-1", "a\x1b", "a\u202e0", "x" * 600])
def test_a_name_of_the_legend_that_is_no_instance_is_refused(name: str) -> None:
    matrix = LinkMatrix((), (MatrixNic("NIC1", name),), {})
    with pytest.raises(CostError) as refused:
        costs_of_links(matrix, MachineCosts(machine()).scale)
    assert str(refused.value) == f"NIC1: expected a device's name in the legend, got {name[:40]!r}; correct it"


def test_a_name_with_a_number_is_an_instance() -> None:
    matrix = LinkMatrix((), (MatrixNic("NIC1", "mlx5_bond_0"),), {})
    assert costs_of_links(matrix, MachineCosts(machine()).scale).present == ("nic/mlx5_bond_0",)


def test_a_pair_of_which_nothing_is_known_is_as_far_as_can_be() -> None:
    costs = by_pair(
        costs_of_links(
            read_links(MATRIX.replace("SYS PIX SYS 0-7", "N/A PIX SYS 0-7").replace("GPU2 SYS", "GPU2 -")),
            MachineCosts(machine()).scale,
        )
    )
    assert costs["nvidia.com/gpu/gpu0", "nvidia.com/gpu/gpu2"] == 100


def test_gpus_of_amd_go_by_their_own_resource_and_xgmi_is_nearer_than_pcie() -> None:
    costs = by_pair(costs_of_links(read_links(amd_smi(packages())), MachineCosts(machine()).scale))
    assert [costs["amd.com/gpu/gpu0", f"amd.com/gpu/gpu{other}"] for other in (1, 2, 4)] == [8, 10, 11]
    far = Link(xgmi=1, xgmi_hops=9)
    pair = LinkMatrix((MatrixGpu(0), MatrixGpu(1)), (), {("GPU0", "GPU1"): far, ("GPU1", "GPU0"): far})
    farthest = by_pair(costs_of_links(pair, MachineCosts(machine()).scale))
    switch = by_pair(costs_of_links(read_links("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X"), MachineCosts(machine()).scale))
    names = ("nvidia.com/gpu/gpu0", "nvidia.com/gpu/gpu1")
    assert farthest[names] < switch[names]


def test_types_of_gpus_are_the_resources_of_their_vendors() -> None:
    for vendor, text in (("nvidia", MATRIX), ("amd", amd_smi(packages()))):
        listing = costs_of_links(read_links(text), MachineCosts(machine()).scale)
        assert listing.present[0] == f"{RESOURCE_OF[vendor]}/gpu0"


def test_nodes_of_gpus_of_amd_are_by_their_own_resource() -> None:
    assert nodes_of_gpus(read_links(rocm_smi(islands(2, 1)))) == {
        "amd.com/gpu/gpu0": NodeSet.of([0]),
        "amd.com/gpu/gpu1": NodeSet.of([1]),
    }
