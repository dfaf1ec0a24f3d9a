from collections.abc import Mapping, Sequence
from dataclasses import replace

from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, pcie_groups, usage_of
from policies.devices.candidates import FoundDevices, find_candidates
from policies.devices.demand import read_demands
from policies.devices.refusals import shortage_text
from tests.unit.policies.devices.build import GIB, GPUS, NICS, gpu, inventory, nic, question

MEMORY = "koordinator.sh/gpu-memory"


def candidates(
    node: DeviceInventory,
    requests: Mapping[str, int],
    hint: Mapping[str, object] | None = None,
    held: Sequence[DeviceGrant] = (),
    within: int | None = None,
) -> tuple[FoundDevices, str]:
    """The candidates for the only type of a request, and the sentence for too few of them."""
    kind = "rdma" if NICS in requests else "gpu"
    (demand,) = read_demands(requests, node, question({}, hints={kind: hint} if hint else None).annotations)
    groups = pcie_groups(node.devices)
    found = find_candidates(demand, groups, usage_of(held, node, groups), within)
    return found, shortage_text(demand, found)


def minors(found: FoundDevices) -> list[int]:
    return [candidate.device.minor for candidate in found.usable]


def test_the_sentence_says_of_every_device_why_it_cannot_serve() -> None:
    node = inventory(gpu(0), gpu(1), replace(gpu(2), is_healthy=False), gpu(3, 1), gpu(4))
    held = [DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 30)]
    found, text = candidates(node, {GPUS: 4}, held=held, within=0b1)
    assert minors(found) == [4]
    assert text == (
        "gpu: 4 asked for, 1 can be given (gpu 0: in use; 1: in use: 70 of 100 units free; 2: unhealthy; 3: on another"
        " NUMA node)"
    )


def test_a_node_without_such_devices_is_told_as_such() -> None:
    assert candidates(inventory(gpu(0)), {NICS: 1})[1] == "rdma: 1 asked for, and the inventory has none"


def test_memory_counts_by_the_bytes_of_each_gpu() -> None:
    node = inventory(gpu(0), gpu(1, memory=16 * GIB), gpu(2, memory=0), gpu(3))
    held = [DeviceGrant("gpu", 3, 80)]
    found, text = candidates(node, {MEMORY: 24 * GIB}, held=held)
    assert minors(found) == [0]
    assert text == (
        "gpu: 1 with 24Gi of memory each asked for, 1 can be given (gpu 1: its memory is smaller than the"
        f" 24Gi asked for; 2: the inventory does not say its {MEMORY}; 3: in use: 20 of 100 units of memory"
        " free)"
    )


def test_core_and_memory_are_separate_shares() -> None:
    node = inventory(gpu(0))
    half = {"koordinator.sh/gpu-memory-ratio": 50}
    held = [DeviceGrant("gpu", 0, 60, resources=(("koordinator.sh/gpu-core", 60),))]
    assert minors(candidates(node, half, held=held)[0]) == [0]
    found, text = candidates(node, half | {"koordinator.sh/gpu-core": 50}, held=held)
    assert (minors(found), text.partition("(")[0]) == (
        [],
        "gpu: 1 with 50 units and 50 units of memory each asked for, none can be given ",
    )


def test_labels_decide_which_nics_and_which_vfs_are_meant() -> None:
    node = inventory(nic(0, vfs=1, speed="100G"), nic(1, vfs=1, speed="400G"), nic(2, speed="400G"))
    fast = {"selector": {"matchLabels": {"speed": "400G"}}}
    assert minors(candidates(node, {NICS: 1}, fast)[0]) == [1, 2]
    found, text = candidates(node, {NICS: 1}, fast | {"vfSelector": {}})
    assert [(c.device.minor, c.vf) for c in found.usable] == [(1, "0000:01:00.1")]
    assert text.endswith("(rdma 0: its labels do not match the selector; 2: it has no VFs)")
    none = {"vfSelector": {"matchLabels": {"network": "storage"}}}
    assert candidates(node, {NICS: 1}, none)[1].endswith(
        "(rdma 0-1: none of its VFs matches the vfSelector; 2: it has no VFs)"
    )


def test_the_free_vf_of_the_lowest_address_is_given() -> None:
    node = inventory(nic(0, vfs=3))
    one = DeviceGrant("rdma", 0, 1, "0000:00:00.1")
    found, _ = candidates(node, {NICS: 1}, {"vfSelector": {}}, [one])
    assert found.usable[0].vf == "0000:00:00.2"
    rest = [one, *(replace(one, vf=f"0000:00:00.{vf}") for vf in (2, 3))]
    assert candidates(node, {NICS: 1}, {"vfSelector": {}}, rest)[1].endswith(
        "(rdma 0: all of its VFs that match are in use)"
    )


def test_an_exclusive_device_has_to_be_idle_and_is_then_in_use_as_a_whole() -> None:
    node = inventory(nic(0), nic(1))
    found, text = candidates(node, {NICS: 5}, {"exclusivePolicy": "DeviceLevel"}, [DeviceGrant("rdma", 0, 1)])
    (demand,) = read_demands(
        {NICS: 5}, node, question({}, hints={"rdma": {"exclusivePolicy": "DeviceLevel"}}).annotations
    )
    assert (minors(found), found.usable[0].grant(demand).amount) == ([1], 100)
    assert text.endswith("(rdma 0: in use (DeviceLevel asks for an idle one))")


def test_the_amount_of_memory_alone_is_rounded_up() -> None:
    node = inventory(gpu(0, memory=3 * GIB))
    (demand,) = read_demands({MEMORY: GIB}, node, question({}).annotations)
    assert candidates(node, {MEMORY: GIB})[0].usable[0].grant(demand).amount == 34
