"""Read PCI devices from ``sys/bus/pci/devices``, or from ``sys/devices/pci*`` where the bus directory is missing.

Devices only improve a placement: one that cannot be read is noted and left out. The path of a device comes from the
text of its link: ``../../../devices/pci0000:10/0000:10:01.0/0000:13:00.0``.
Source: Documentation/ABI/testing/sysfs-bus-pci.
"""

import re

from sysfs.cpuset import CpuSet, NodeSet
from sysfs.errors import SysfsError
from sysfs.model import Device
from sysfs.reader import TreeReader

BUS = "sys/bus/pci/devices"
DEVICES = "sys/devices"
VERBS_CLASS = "sys/class/infiniband"
VERBS = "infiniband"  # the directory of what a function is to the RDMA subsystem
MAX_DEPTH = 32  # PCI has 256 buses; no machine nests switches nearly that deep

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


def is_address(text: str) -> bool:
    """Return True for domain:bus:device.function in lower case, the form of sysfs."""
    return _ADDRESS.fullmatch(text) is not None


def parse_address(text: str) -> str:
    """Return an address as sysfs has it, of one as people and tools write it. Raises ValueError.

    NVIDIA's tools write the domain with eight digits, and lspci leaves it out where all devices have the same.

    >>> parse_address("3B:00.0"), parse_address("00000000:3B:00.0"), parse_address("10000:01:00.0")
    ('0000:3b:00.0', '0000:3b:00.0', '10000:01:00.0')
    """
    full = text.lower() if text.count(":") == 2 else f"0000:{text.lower()}"
    if not is_address(full):
        raise ValueError(f"expected a PCI address like 0000:3b:00.0, got {text[:40]!r}")
    domain, _, rest = full.partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def read_devices(reader: TreeReader, online: CpuSet, nodes: NodeSet) -> list[Device]:
    """Return all PCI functions, bridges included, sorted by address. ``local_cpus`` holds online CPUs only."""
    found = []
    for path in device_paths(reader):
        try:
            found.append(_device(reader, path, online, nodes))
        except SysfsError as error:
            reader.note(f"{error}; the device is left out")
    return sorted(found, key=lambda d: d.address)


def device_paths(reader: TreeReader) -> list[str]:
    """Return the device directories; a directory that cannot be listed is noted."""
    try:
        addresses = [name for name in reader.names(BUS) if is_address(name)]
        if not addresses:
            tops = [name for name in reader.names(DEVICES) if _HOST_BRIDGE.fullmatch(name)]
            return [path for top in tops for path in _below(reader, f"{DEVICES}/{top}", MAX_DEPTH)]
    except SysfsError as error:
        reader.note(f"{error}; PCI devices are left out")
        return []
    found = []
    for address in addresses:
        try:
            found.append(reader.link(f"{BUS}/{address}"))
        except SysfsError as error:
            reader.note(f"{error}; the device is left out")
    return found


def _below(reader: TreeReader, path: str, depth: int) -> list[str]:
    """Return the device directories below one, parents first."""
    found = []
    for name in reader.names(path) if depth else ():
        if is_address(name):
            found += [f"{path}/{name}", *_below(reader, f"{path}/{name}", depth - 1)]
    return found


def _device(reader: TreeReader, path: str, online: CpuSet, nodes: NodeSet) -> Device:
    parts = path.split("/")
    # A kernel without CONFIG_NUMA has neither nodes nor this file.
    node = reader.integer(f"{path}/numa_node") if nodes else -1
    if node != -1 and node not in nodes:
        reader.note(f"{path}/numa_node: expected an online node, got {node}; it is taken as unknown")
        node = -1
    return Device(
        address=parts[-1],
        class_code=reader.integer(f"{path}/class", base=16),
        vendor=reader.integer(f"{path}/vendor", base=16),
        device=reader.integer(f"{path}/device", base=16),
        node=node,
        local_cpus=reader.cpus(f"{path}/local_cpulist") & online,
        bridges=tuple(part for part in parts[:-1] if is_address(part) or _HOST_BRIDGE.fullmatch(part)),
        physical_function=_physical_function(reader, path),
        has_rdma=VERBS in reader.names(path),
    )


def _physical_function(reader: TreeReader, path: str) -> str:
    """Return the address of a virtual function's physical function, else ''."""
    target = reader.optional(reader.link, f"{path}/physfn", "").rpartition("/")[2]
    return target if is_address(target) else ""
