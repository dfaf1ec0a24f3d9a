"""The CDI names of the inventory's devices, and the devices behind CDI names. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from policies.device_grants import DeviceGrant
from policies.devices import GPU, VF_UNITS, WHOLE, DeviceInventory, InventoryDevice, JoinedDevices

OWN_VENDOR: Final = "cri-proxy.io"
"""Of the kinds under which an operator may declare any device of the inventory."""
VF_KIND: Final = f"{OWN_VENDOR}/vf"
_NVIDIA: Final = "nvidia.com/gpu"
_ALL_GPUS: Final = f"{_NVIDIA}=all"
"""A device of the specifications that ``nvidia-ctk cdi generate`` writes: every GPU."""


def names_of(grant: DeviceGrant, inventory: DeviceInventory) -> tuple[str, ...]:
    """Return the CDI names that may stand for a device, the best one first; of a VF only its own.

    >>> names_of(DeviceGrant("gpu", 0, 100), DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a"),)))
    ('nvidia.com/gpu=GPU-5a', 'nvidia.com/gpu=0', 'cri-proxy.io/gpu=0')
    >>> names_of(DeviceGrant("rdma", 1, 1, vf="0000:51:00.1"), DeviceInventory(()))
    ('cri-proxy.io/vf=0000:51:00.1',)
    """
    if grant.vf:
        return (f"{VF_KIND}={grant.vf}",)
    device = next((device for device in inventory.devices if device.key == grant.key), None)
    return _names(InventoryDevice(grant.kind, grant.number) if device is None else device)


def devices_named(names: Iterable[str], joined: JoinedDevices) -> tuple[DeviceGrant, ...]:
    """Return the devices that these CDI names are of, each once, as others chose them; other names are no matter.

    >>> gpus = DeviceInventory((InventoryDevice("gpu", 0), InventoryDevice("gpu", 1)))
    >>> [str(grant) for grant in devices_named(["nvidia.com/gpu=1", "example.com/nic=a"], JoinedDevices(gpus))]
    ['gpu 1']
    """
    asked = frozenset(name.lower() for name in names)
    found = []
    for device in joined.inventory.devices if asked else ():
        own = (*_names(device), *((_ALL_GPUS,) if device.kind == GPU else ()))
        if not asked.isdisjoint(map(str.lower, own)):
            found.append(DeviceGrant(device.kind, device.minor, WHOLE, is_given=True))
        found += (
            DeviceGrant(device.kind, device.minor, VF_UNITS, vf=vf.bus, is_given=True)
            for group in device.vf_groups
            for vf in group.vfs
            if f"{VF_KIND}={vf.bus}" in asked
        )
    had = {(grant.key, grant.vf) for grant in found}
    listed = (joined.granted(name) for name in _listed(asked, joined))
    more = (replace(grant, listed_as="", is_given=True) for grant in listed if (grant.key, grant.vf) not in had)
    return (*found, *{(grant.key, grant.vf): grant for grant in more}.values())


def _listed(asked: frozenset[str], joined: JoinedDevices) -> Iterator[str]:
    """Yield the names of cost files that are these CDI names."""
    for kind, listed in joined.inventory.costs.devices.items() if asked else ():
        yield from (name for name in listed if f"{kind}={name.rpartition('/')[2]}".lower() in asked)


def _names(device: InventoryDevice) -> tuple[str, ...]:
    own = f"{OWN_VENDOR}/{device.kind}={device.minor}"
    if device.kind != GPU:
        return (own,)
    return (*((f"{_NVIDIA}={device.uuid}",) if device.uuid else ()), f"{_NVIDIA}={device.minor}", own)
