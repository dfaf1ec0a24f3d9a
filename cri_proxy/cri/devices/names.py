"""The CDI names of the inventory's devices, and the devices behind CDI names and the kubelet's ids. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from policies.device_grants import DeviceGrant
from policies.devices import DEVICE_TYPES, GPU, DeviceInventory, InventoryDevice, JoinedDevices, Piece

OWN_VENDOR: Final = "cri-proxy.io"
"""Of the kinds under which an operator may declare any device of the inventory."""
VF_KIND: Final = f"{OWN_VENDOR}/vf"
_NVIDIA: Final = "nvidia.com/gpu"
_ALL_GPUS: Final = f"{_NVIDIA}=all"
"""A device of the specifications that ``nvidia-ctk cdi generate`` writes: every GPU."""
_SHARE: Final = "::"
_PART: Final = re.compile(rf"({'|'.join(DEVICE_TYPES)})-(\d{{1,6}})-(?:vf|share)-.*", re.ASCII)
"""Ids of our device plugin for parts of a device."""


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
    pieces = dict.fromkeys(piece for name in names for piece in _pieces(name, joined))
    return tuple(map(joined.given, pieces))


def devices_allocated(names: Iterable[str], joined: JoinedDevices) -> tuple[DeviceGrant, ...]:
    """Return the devices that the kubelet has allocated by these names, RESOURCE/ID, as far as they are known here.

    Ids are what plugins make them: NVIDIA's are UUIDs, and ``UUID::2`` where several containers share a GPU; those of
    AMD's and of the SR-IOV network device plugin are PCI addresses.

    >>> gpus = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a"),)))
    >>> [(str(grant), grant.is_shared) for grant in devices_allocated(["nvidia.com/gpu/GPU-5a::2"], gpus)]
    [('gpu 0', True)]
    """
    found = {}
    for name in names:
        device, is_shared, _ = name.partition(_SHARE)
        piece = joined.meant(device)
        if piece is not None:
            found[piece] = replace(joined.given(piece), is_shared=bool(is_shared))
    return tuple(found.values())


def source_of(name: str, joined: JoinedDevices) -> str:
    """Return the source of the place of a device that the kubelet has allocated as RESOURCE/ID; '' = it is not known.

    >>> gpus = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 1, uuid="GPU-5a"),)))
    >>> [source_of(f"cri-proxy.io/{each}", gpus) for each in ("gpu/gpu-1", "rdma/rdma-0-share-3", "gpu/GPU-7c")]
    ['gpu/1', 'rdma/0', '']
    """
    found = devices_allocated((name,), joined)
    if found:
        return found[0].source
    part = _PART.fullmatch(name.rpartition("/")[2])
    return f"{part[1]}/{part[2]}" if part is not None else ""


def _pieces(name: str, joined: JoinedDevices) -> Iterator[Piece]:
    """Yield the pieces of hardware behind a CDI name."""
    if name == _ALL_GPUS:
        yield from (piece for piece in joined.pieces if _is_nvidia_gpu(piece))
    piece = joined.meant(name.replace("=", "/", 1))
    if piece is not None:
        yield piece


def _is_nvidia_gpu(piece: Piece) -> bool:
    if piece.device is not None:
        return piece.device.kind == GPU and not piece.vf
    return any(name.startswith(f"{_NVIDIA}/") for name in piece.names)


def _names(device: InventoryDevice) -> tuple[str, ...]:
    own = f"{OWN_VENDOR}/{device.kind}={device.minor}"
    if device.kind != GPU:
        return (own,)
    return (*((f"{_NVIDIA}={device.uuid}",) if device.uuid else ()), f"{_NVIDIA}={device.minor}", own)
