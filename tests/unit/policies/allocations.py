"""Short ways to ask for devices of an inventory, and to hold them, for the tests of policies."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from policies.base import CpuKind, Grant, Request
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.device_requests import DeviceAsk
from policies.devices import ALLOCATE_HINT, JOINT_ALLOCATE, DeviceInventory, InventoryDevice
from policies.topology_aware import TopologyAware
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.model import Machine
from tests.unit.policies.build import context_of, options, request, tree_of

RESOURCES = {"gpu": "nvidia.com/gpu", "rdma": "koordinator.sh/rdma", "fpga": "koordinator.sh/fpga"}
PCIE, DEVICE = ExclusivePolicy.PCIE_LEVEL, ExclusivePolicy.DEVICE_LEVEL


def ask(
    joint: Sequence[str] = (), hints: Mapping[str, object] | None = None, scope: str = "", **counts: int
) -> DeviceAsk:
    """What a container asks for: amounts by type, ``core`` being units of GPUs, and the texts of its pod."""
    texts = {}
    if joint:
        texts[JOINT_ALLOCATE] = json.dumps({"deviceTypes": list(joint)} | ({"requiredScope": scope} if scope else {}))
    if hints is not None:
        texts[ALLOCATE_HINT] = json.dumps(hints)
    names = RESOURCES | {"core": "koordinator.sh/gpu"}
    requests = tuple(sorted((names[kind], count) for kind, count in counts.items()))
    return DeviceAsk((), requests, tuple(sorted(texts.items())))


def asking(name: str, wanted: DeviceAsk, mcpu: int = 1000, **keys: object) -> Request:
    return request(name, mcpu, devices=wanted, **keys)  # type: ignore[arg-type]  # by name


def gpus_on(*nodes: int | None) -> DeviceInventory:
    """A GPU for each of these NUMA nodes, numbered by its place in the list, each on a PCIe of its own."""
    return DeviceInventory(tuple(InventoryDevice("gpu", i, node, f"p{i}") for i, node in enumerate(nodes)))


def holding(name: str, *devices: DeviceGrant, **keys: object) -> Grant:
    return Grant(request(name, **keys), "root", CpuKind.SHARED, devices=devices)  # type: ignore[arg-type]  # by name


def whole(minor: int, kind: str = "gpu") -> DeviceGrant:
    """A whole device, as a container gets it that asks for one."""
    amount = 1 if kind == "gpu" else 100
    return DeviceGrant(kind, minor, 100, resources=((RESOURCES[kind], amount),))


def choosing(
    machine: Machine, devices: DeviceInventory, wanted: Request, *others: Grant, **keys: object
) -> PlacementContext:
    found = context_of(tree_of(machine), wanted, *others, **keys)
    return replace(found, machine_devices=MachineDevices(machine, devices))


def with_inventory(machine: Machine, devices: DeviceInventory, **keys: object) -> TopologyAware:
    return TopologyAware(machine, options(machine, **keys), devices)  # type: ignore[arg-type]  # by name


def names(devices: Sequence[DeviceGrant]) -> str:
    return ", ".join(map(str, devices))
