"""Inventories and questions for the tests of devices."""

import json
from collections.abc import Mapping, Sequence

from policies.device_grants import DeviceGrant
from policies.devices import (
    ALLOCATE_HINT,
    GPU,
    GPU_MEMORY,
    JOINT_ALLOCATE,
    PARTITION_SPEC,
    RDMA,
    CannotAllocate,
    DeviceAllocation,
    DeviceAllocator,
    DeviceInventory,
    DeviceQuestion,
    GpuPartition,
    InventoryDevice,
    VfGroup,
    VirtualFunction,
    read_annotations,
)

GPUS = "nvidia.com/gpu"
NICS = "koordinator.sh/rdma"
GIB = 1 << 30


def gpu(minor: int, numa: int | None = 0, pcie: str | None = None, memory: int = 80 * GIB) -> InventoryDevice:
    return InventoryDevice(GPU, minor, numa, pcie, resources={GPU_MEMORY: memory} if memory else {})


def plugin_given(kind: str, minor: int, amount: int = 100, vf: str = "") -> DeviceGrant:
    """A device, or a part of one, that the device plugin has allocated."""
    return DeviceGrant(kind, minor, amount, vf, is_given=True)


def nic(minor: int, numa: int | None = 0, pcie: str | None = None, vfs: int = 0, **labels: str) -> InventoryDevice:
    """A NIC; its VFs are in one group without labels."""
    addresses = tuple(VirtualFunction(vf, f"0000:{minor:02x}:00.{vf + 1}") for vf in range(vfs))
    return InventoryDevice(RDMA, minor, numa, pcie, labels=labels, vf_groups=(VfGroup(addresses),) if vfs else ())


def pairs(count: int, nodes: int = 2, vfs: int = 0) -> DeviceInventory:
    """As many PCIe groups with a GPU and a NIC each, in equal parts on NUMA nodes."""
    per_node = count // nodes
    devices = [gpu(i, i // per_node, f"p{i}") for i in range(count)]
    return DeviceInventory((*devices, *(nic(i, i // per_node, f"p{i}", vfs) for i in range(count))))


def inventory(*devices: InventoryDevice, partitions: Sequence[GpuPartition] | None = None) -> DeviceInventory:
    return DeviceInventory(devices, None if partitions is None else tuple(partitions))


def question(
    requests: Mapping[str, int],
    joint: Sequence[str] = (),
    *,
    scope: str = "",
    hints: Mapping[str, object] | None = None,
    partition: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
) -> DeviceQuestion:
    """What a pod asks for; ``joint`` are the types of its joint annotation, ``scope`` its required scope."""
    texts: dict[str, str] = {}
    if joint:
        texts[JOINT_ALLOCATE] = json.dumps({"deviceTypes": list(joint)} | ({"requiredScope": scope} if scope else {}))
    if hints is not None:
        texts[ALLOCATE_HINT] = json.dumps(hints)
    if partition is not None:
        texts[PARTITION_SPEC] = json.dumps(partition)
    return DeviceQuestion(requests, read_annotations(texts), labels or {})


def allocated(
    devices: DeviceInventory, asked: DeviceQuestion, held: Sequence[DeviceGrant] = (), within: int | None = None
) -> DeviceAllocation:
    answer = DeviceAllocator(devices).allocate(asked, held, within)
    assert isinstance(answer, DeviceAllocation), answer
    return answer


def refused(
    devices: DeviceInventory, asked: DeviceQuestion, held: Sequence[DeviceGrant] = (), within: int | None = None
) -> str:
    answer = DeviceAllocator(devices).allocate(asked, held, within)
    assert isinstance(answer, CannotAllocate), answer
    return answer.problem


def minors(answer: DeviceAllocation, kind: str) -> list[int]:
    return [grant.number for grant in answer.of(kind)]
