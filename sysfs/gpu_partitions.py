"""Find the compute partitions of AMD's GPUs (DPX, QPX, CPX): platform devices that have no place but that of their GPU.

The first partition is the PCI function itself. Each other one is a platform device ``amdgpu_xcp_N`` (``amdgpu_xcp.N``
before Linux 6.5) with a render node of its own; the driver makes eight for each GPU, of which those are in use that the
topology of KFD has. There a node has the render node's minor, and domain and ``location_id`` of the PCI function: bus
and device in bits 15 to 3, and the partition in bits 31 to 28, or on older kernels in those of the function.
Source: kfd_topology.c and amdgpu_xcp_drv.c of the kernel.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sysfs.errors import SysfsError
from sysfs.model import Device
from sysfs.reader import TreeReader

KFD = "sys/devices/virtual/kfd/kfd/topology"
KFD_NODES = f"{KFD}/nodes"
PLATFORM = "sys/devices/platform"

_NAME = re.compile(r"amdgpu_xcp[._](?:0|[1-9]\d{0,3})", re.ASCII)
_RENDER = re.compile(r"renderD([1-9]\d{1,5})", re.ASCII)
_FIELDS = ("domain", "location_id", "drm_render_minor")
_AMD, _DISPLAY, _ACCELERATORS = 0x1002, 0x03, 0x12


def is_partition(text: str) -> bool:
    """Return True for the name of a partition as the kernel and AMD's device plugin have it.

    >>> is_partition("amdgpu_xcp_3"), is_partition("amdgpu_xcp.12"), is_partition("0000:05:00.0")
    (True, True, False)
    """
    return _NAME.fullmatch(text) is not None


def with_partitions(reader: TreeReader, devices: Sequence[Device]) -> list[Device]:
    """Return the devices, GPUs with the names of their partitions but the first, in the order of their render nodes."""
    gpus = {device.address for device in devices if _is_gpu(device)}
    found: dict[str, list[str]] = {}
    for name, address in partitions(reader, gpus).items():
        found.setdefault(address, []).append(name)
    return [replace(d, partitions=tuple(found[d.address])) if d.address in found else d for d in devices]


def partitions(reader: TreeReader, gpus: Collection[str] | None = None) -> Mapping[str, str]:
    """Return the PCI address of the GPU of each partition in use, in the order of their render nodes.

    ``gpus`` are the addresses of AMD's GPUs; None: the function 0 is one.
    """
    minors = dict(sorted((minor, name) for name in _names(reader) for minor in _render_minors(reader, name)))
    # Most machines have no partitions, and need not read a file for each of KFD's nodes.
    nodes = dict(_nodes(reader)) if minors else {}
    found = {}
    for minor, name in minors.items():
        if (place := nodes.get(minor)) is not None and (address := _address(*place, gpus)):
            found[name] = address
    return found


def _names(reader: TreeReader) -> list[str]:
    none: list[str] = []
    return [name for name in reader.lenient(reader.names, PLATFORM, none) if is_partition(name)]


def _render_minors(reader: TreeReader, name: str) -> Iterator[int]:
    none: list[str] = []
    for entry in reader.lenient(reader.names, f"{PLATFORM}/{name}/drm", none):
        if minor := _RENDER.fullmatch(entry):
            yield int(minor[1])


def _nodes(reader: TreeReader) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the minor of each GPU or partition that KFD has, with its domain and ``location_id``."""
    none: list[str] = []
    for node in reader.lenient(reader.names, KFD_NODES, none):
        path = f"{KFD_NODES}/{node}/properties"
        try:
            words = (line.split() for line in reader.text(path).splitlines())
            fields = {pair[0]: pair[1] for pair in words if len(pair) == 2}
            domain, location, minor = (int(fields.get(name, "0")) for name in _FIELDS)
        except (SysfsError, ValueError) as error:
            problem = str(error) if isinstance(error, SysfsError) else f"{path}: expected lines of a name and a number"
            reader.note(f"{problem}; a partition of a GPU is left out")
            continue
        # KFD's nodes of CPUs have no render node, which it writes as 0.
        if minor > 0:
            yield minor, (domain, location)


def _address(domain: int, location: int, gpus: Collection[str] | None) -> str:
    """Return the address of the GPU, '' where there is none."""
    slot = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}"
    if gpus is None:
        return f"{slot}.0"
    # Where those bits are the partition's, no GPU has that function, and 0 is meant.
    return next((each for each in (f"{slot}.{location & 7}", f"{slot}.0") if each in gpus), "")


def _is_gpu(device: Device) -> bool:
    return device.vendor == _AMD and device.class_code >> 16 in (_DISPLAY, _ACCELERATORS)
