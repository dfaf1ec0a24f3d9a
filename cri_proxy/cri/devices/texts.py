"""Name to a container the devices of the inventory that it has: variables, Koordinator's annotation. Pure.

Source: Koordinator's ``scheduling.koordinator.sh/device-allocated``, which its scheduler leaves on a pod; here it is on
the container. NVIDIA_VISIBLE_DEVICES is read by NVIDIA's container toolkit.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from cri_proxy.cri.devices.pci_functions import FunctionsByAddress, pci_variables
from policies.device_grants import WHOLE, DeviceGrant
from policies.devices import (
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    NVIDIA,
    OTHERS,
    DeviceInventory,
    InventoryDevice,
    address_in,
    allocated_variables,
    taken,
)
from sysfs.cpuset import gathered

VISIBLE_GPUS: Final = "NVIDIA_VISIBLE_DEVICES"

_RESOURCE_OF: Final = {kind: name for name, kind in OTHERS.items()}
_NOT_READ: Final[FunctionsByAddress] = {}


@dataclass(frozen=True, slots=True)
class DeviceTexts:
    """Additions to the configuration of a container: variables by name, in place of its own of these names.

    ``annotation`` is the text of DEVICE_ALLOCATED; '' = none, and one that comes along stays.
    """

    variables: tuple[tuple[str, str], ...] = ()
    annotation: str = ""


NO_TEXTS: Final = DeviceTexts()


def device_texts(
    allocated: Sequence[DeviceGrant], inventory: DeviceInventory, functions: FunctionsByAddress = _NOT_READ
) -> DeviceTexts:
    """Return the texts that name a container's devices to it; none of types all of whose devices others chose.

    Those have passed texts themselves, which may have a form of their own. ``functions`` are those of
    ``own_functions`` as they are now, as far as they are known.
    """
    kinds = {grant.kind for grant in allocated if not grant.is_given}
    if not kinds:
        return NO_TEXTS
    devices = {device.key: device for device in inventory.devices}
    variables = allocated_variables(grant for grant in allocated if grant.kind in kinds)
    gpus = [devices.get(grant.key, InventoryDevice(GPU, grant.number)) for grant in allocated if grant.kind == GPU]
    # NVIDIA's toolkit reads it; a GPU whose vendor no source names may be one of theirs.
    if GPU in kinds and (visible := [gpu for gpu in gpus if gpu.maker in ("", NVIDIA.name)]):
        # The identifier first: NVML may count GPUs otherwise than the inventory.
        variables[VISIBLE_GPUS] = ",".join(gpu.uuid or str(gpu.minor) for gpu in visible)
    for resource, addresses in own_functions(allocated, inventory).items():
        variables |= pci_variables(resource, addresses, functions)
    return DeviceTexts(tuple(sorted(variables.items())), allocated_text(allocated, inventory))


def own_functions(allocated: Iterable[DeviceGrant], inventory: DeviceInventory) -> dict[str, tuple[str, ...]]:
    """Return the PCI addresses of what a container has alone, by the resource that it asked for; not of GPUs.

    Others have a part of a shared device, and those that others chose have their variables already. A text that is no
    PCI address is none of a function: it would be a path in sysfs.

    >>> own_functions([DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")], DeviceInventory(()))
    {'koordinator.sh/rdma': ('0000:51:00.1',)}
    """
    buses = {device.key: device.path.bus for device in inventory.devices}
    own = (grant for grant in allocated if grant.kind in _RESOURCE_OF and not grant.is_given)
    named = (
        (_RESOURCE_OF[grant.kind], grant.vf or (buses.get(grant.key, "") if grant.amount == WHOLE else ""))
        for grant in own
    )
    addressed = ((name, address) for name, text in named if (address := address_in(text)))
    return {name: tuple(found) for name, found in gathered(addressed).items()}


def allocated_text(allocated: Iterable[DeviceGrant], inventory: DeviceInventory) -> str:
    """Return all devices of a container in Koordinator's format, as JSON.

    >>> nic = InventoryDevice("rdma", 1, uuid="0000:51:00.0")
    >>> allocated_text([DeviceGrant("rdma", 1, 50)], DeviceInventory((nic,)))
    '{"rdma":[{"minor":1,"id":"0000:51:00.0","resources":{"koordinator.sh/rdma":"50"}}]}'
    """
    devices = {device.key: device for device in inventory.devices}
    found: dict[str, list[dict[str, object]]] = {}
    for grant in allocated:
        device = devices.get(grant.key, InventoryDevice(grant.kind, grant.number))
        entry: dict[str, object] = {"minor": grant.minor}
        if device.uuid:
            entry["id"] = device.uuid
        entry["resources"] = {name: str(amount) for name, amount in _resources(grant, device).items()}
        if grant.vf:
            entry["extension"] = {"vfs": [_vf(grant.vf, device)]}
        found.setdefault(grant.kind, []).append(entry)
    return json.dumps(found, separators=(",", ":"))


def _resources(grant: DeviceGrant, device: InventoryDevice) -> dict[str, int]:
    """Return the amounts taken of a device by its own resources' names, as Koordinator's scheduler writes them."""
    if grant.kind != GPU:
        return {_RESOURCE_OF[grant.kind]: grant.amount}
    units, memory = taken(grant, device)
    total_bytes = device.resources.get(GPU_MEMORY, 0)
    amounts = {GPU_CORE: units, GPU_MEMORY: int(memory * total_bytes / WHOLE), GPU_MEMORY_RATIO: ceil(memory)}
    return {name: amount for name, amount in amounts.items() if amount}


def _vf(bus: str, device: InventoryDevice) -> dict[str, object]:
    minors = (vf.minor for group in device.vf_groups for vf in group.vfs if vf.bus == bus)
    minor = next(minors, None)
    return {"busID": bus} if minor is None else {"minor": minor, "busID": bus}
