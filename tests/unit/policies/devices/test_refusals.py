from policies.device_grants import DeviceGrant
from policies.devices import GpuPartition
from tests.unit.policies.devices.build import GPUS, NICS, gpu, inventory, nic, pairs, question, refused

BOTH = ("gpu", "rdma")
TWELVE = [gpu(i, 0, f"p{i}") for i in range(12)]


def test_a_long_list_of_places_is_cut_and_counted() -> None:
    apart = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "PCIe"}})
    assert refused(inventory(*TWELVE), apart).endswith("1 on PCIe p6, 1 on PCIe p7 and 4 places more")
    joint = refused(inventory(*TWELVE, nic(0, 0, "p99")), question({GPUS: 2, NICS: 1}, BOTH, scope="SamePCIe"))
    assert "1 GPU and no rdma device on PCIe p7; and 4 more; ask for fewer, or leave out requiredScope" in joint


def test_one_place_more_than_are_listed_is_counted() -> None:
    nine = inventory(*TWELVE[:9], nic(0, 0, "p99"))
    apart = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "PCIe"}})
    assert refused(nine, apart).endswith("1 on PCIe p7 and 1 place more")
    assert "on PCIe p7; and 1 more; ask" in refused(nine, question({GPUS: 2, NICS: 1}, BOTH, scope="SamePCIe"))


def test_a_joint_refusal_names_what_each_pcie_could_give_and_why_others_give_nothing() -> None:
    node = inventory(gpu(0, 0, "p0"), gpu(1, 0, "p0"), nic(0, 0, "p0"), gpu(2, 0, "p1"), nic(1, 0, "p1"))
    asked = question({GPUS: 3, NICS: 100}, BOTH, scope="SamePCIe")
    assert refused(node, asked, [DeviceGrant("rdma", 1, 100)]) == (
        "device-joint-allocate with SamePCIe: no set of 3 GPUs has an rdma device on every PCIe group that it uses,"
        " 1 rdma device or more in all; free: 2 GPUs and 1 rdma device on PCIe p0; 1 GPU and no rdma device on PCIe"
        " p1; not free: rdma 1: in use; ask for fewer, or leave out requiredScope"
    )


def test_a_joint_refusal_names_the_scope_that_forbids_the_choice() -> None:
    for scope in ("PCIe", "Device"):
        hints = {"rdma": {"requiredTopologyScope": scope}}
        text = refused(pairs(4), question({GPUS: 2, NICS: 1}, BOTH, scope="SamePCIe", hints=hints))
        assert f"in all, rdma with requiredTopologyScope {scope}; free: " in text


def test_refusals_name_the_partition_that_forbids_the_choice() -> None:
    node = inventory(*pairs(4).of("gpu"), nic(0, 0, "p0"), nic(1, 1, "p2"), partitions=[GpuPartition((0, 1))])
    honor = {"gpu-partition-policy": "Honor"}
    joint = refused(node, question({GPUS: 2, NICS: 1}, BOTH, scope="SamePCIe", labels=honor))
    assert "in all, gpu in a partition (the node's gpu-partition-policy Honor); free: " in joint
    narrow = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "PCIe"}}, labels=honor)
    text = "gpu: 2 asked for with requiredTopologyScope PCIe and a partition (the node's gpu-partition-policy Honor);"
    assert refused(node, narrow).startswith(text)
