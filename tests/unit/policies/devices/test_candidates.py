from collections.abc import Mapping, Sequence
from dataclasses import replace

from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory
from tests.unit.policies.devices.build import GIB, GPUS, NICS, allocated, gpu, inventory, minors, nic, question, refused

MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
Held = Sequence[DeviceGrant]


def nics(node: DeviceInventory, amount: int, hint: Mapping[str, object], held: Held = ()) -> tuple[DeviceGrant, ...]:
    return allocated(node, question({NICS: amount}, hints={"rdma": hint}), held).grants


def no_nic(node: DeviceInventory, amount: int, hint: Mapping[str, object], held: Held = ()) -> str:
    return refused(node, question({NICS: amount}, hints={"rdma": hint}), held)


def test_the_sentence_says_of_every_device_why_it_cannot_serve() -> None:
    node = inventory(gpu(0), gpu(1), replace(gpu(2), is_healthy=False), gpu(3, 1), gpu(4))
    held = [DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 30)]
    assert minors(allocated(node, question({GPUS: 1}), held, 0b1), "gpu") == [4]
    assert refused(node, question({GPUS: 4}), held, 0b1) == (
        "gpu: 4 asked for, 1 can be given (gpu 0: in use; 1: in use: 70 of 100 units free; 2: unhealthy; 3: on another"
        " NUMA node)"
    )


def test_a_node_without_such_devices_is_told_as_such() -> None:
    assert refused(inventory(gpu(0)), question({NICS: 1})) == "rdma: 1 asked for, and the inventory has none"


def test_memory_counts_by_the_bytes_of_each_gpu() -> None:
    node = inventory(gpu(0), gpu(1, memory=16 * GIB), gpu(2, memory=0), gpu(3))
    asked, held = question({MEMORY: 24 * GIB}), [DeviceGrant("gpu", 3, 80)]
    assert minors(allocated(node, asked, held), "gpu") == [0]
    assert refused(node, asked, [*held, DeviceGrant("gpu", 0, 100)]) == (
        "gpu: 1 with 24Gi of memory each asked for, none can be given (gpu 0: in use; 1: its memory is smaller than the"
        f" 24Gi asked for; 2: the inventory does not say its {MEMORY}; 3: in use: 20 of 100 units of memory"
        " free)"
    )


def test_all_that_match_are_no_fewer_for_an_unhealthy_one() -> None:
    sick = replace(nic(1, speed="400G"), is_healthy=False)
    node = inventory(nic(0, speed="400G"), sick, replace(nic(2, speed="100G"), is_healthy=False), nic(3, speed="100G"))
    fast = {"allocateStrategy": "ApplyForAll", "selector": {"matchLabels": {"speed": "400G"}}}
    text = no_nic(node, 100, fast)
    assert text.startswith("rdma: all that match asked for, 1 can be given (rdma 1: unhealthy; ")
    assert "2-3: its labels do not match the selector" in text
    well = inventory(*(device for device in node.devices if device != sick))
    assert [grant.minor for grant in nics(well, 100, fast)] == [0]


def test_core_and_memory_are_separate_shares() -> None:
    node, core = inventory(gpu(0)), "koordinator.sh/gpu-core"
    held = [DeviceGrant("gpu", 0, 60, resources=((core, 60),))]
    assert minors(allocated(node, question({RATIO: 50}), held), "gpu") == [0]
    text = refused(node, question({RATIO: 50, core: 50}), held)
    assert text.startswith("gpu: 1 with 50 units and 50 units of memory each asked for, none can be given (")


def test_labels_decide_which_nics_and_which_vfs_are_meant() -> None:
    node = inventory(nic(0, vfs=1, speed="100G"), nic(1, vfs=1, speed="400G"), nic(2, speed="400G"))
    fast = {"selector": {"matchLabels": {"speed": "400G"}}}
    assert [grant.minor for grant in nics(node, 200, fast)] == [1, 2]
    assert [(grant.minor, grant.vf) for grant in nics(node, 1, fast | {"vfSelector": {}})] == [(1, "0000:01:00.1")]
    no_vf = no_nic(node, 1, fast | {"vfSelector": {}}, [DeviceGrant("rdma", 1, 100)])
    assert no_vf.endswith("(rdma 0: its labels do not match the selector; 1: in use; 2: it has no VFs)")
    none = {"vfSelector": {"matchLabels": {"network": "storage"}}}
    assert no_nic(node, 1, none).endswith("(rdma 0-1: none of its VFs matches the vfSelector; 2: it has no VFs)")


def test_the_free_vf_of_the_lowest_address_is_given() -> None:
    node = inventory(nic(0, vfs=3))
    one = DeviceGrant("rdma", 0, 1, "0000:00:00.1")
    assert [grant.vf for grant in nics(node, 1, {"vfSelector": {}}, [one])] == ["0000:00:00.2"]
    every = [replace(one, vf=f"0000:00:00.{vf}") for vf in (1, 2, 3)]
    assert no_nic(node, 1, {"vfSelector": {}}, every).endswith("(rdma 0: all of its VFs that match are in use)")


def test_an_exclusive_device_has_to_be_idle_and_is_then_in_use_as_a_whole() -> None:
    alone, held = {"exclusivePolicy": "DeviceLevel"}, [DeviceGrant("rdma", 0, 1)]
    (found,) = nics(inventory(nic(0), nic(1)), 5, alone, held)
    assert (found.minor, found.amount) == (1, 100)
    assert no_nic(inventory(nic(0)), 5, alone, held).endswith("(rdma 0: in use (DeviceLevel asks for an idle one))")


def test_the_amount_of_memory_alone_is_rounded_up() -> None:
    (found,) = allocated(inventory(gpu(0, memory=3 * GIB)), question({MEMORY: GIB})).grants
    assert found.amount == 34


def test_a_gpu_of_which_a_part_is_held_is_given_neither_whole_nor_in_shares() -> None:
    node = inventory(gpu(0), gpu(1))
    part = DeviceGrant("gpu", 0, 1, "0:1", is_given=True)
    assert minors(allocated(node, question({GPUS: 1}), [part]), "gpu") == [1]
    assert minors(allocated(node, question({"koordinator.sh/gpu": 10}), [part]), "gpu") == [1]
    assert "gpu 0: parts of it (MIG) are in use: 0:1" in refused(node, question({GPUS: 2}), [part])


def test_a_gpu_that_is_cut_into_parts_is_given_neither_as_a_whole_nor_in_shares() -> None:
    node = inventory(replace(gpu(0), parts=("MIG-5a", "MIG-7c")), gpu(1))
    assert minors(allocated(node, question({GPUS: 1})), "gpu") == [1]
    assert refused(node, question({GPUS: 2})) == ("gpu: 2 asked for, 1 can be given (gpu 0: cut into parts (MIG))")
    assert refused(inventory(node.devices[0]), question({"koordinator.sh/gpu": 50})).endswith(
        "(gpu 0: cut into parts (MIG))"
    )
    held = [DeviceGrant("gpu", 0, 1, "MIG-5a", is_given=True)]
    assert "gpu 0: parts of it (MIG) are in use: MIG-5a" in refused(node, question({GPUS: 2}), held)
