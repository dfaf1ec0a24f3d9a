"""Parse a scenario's devices and mounts, add them to CRI requests, and locate them on the simulated machine.

A host path has a place when it contains a PCI address, as names of udev do (``/dev/dri/by-path/
pci-0000:10:00.0-render``, ``/sys/bus/pci/devices/...``), or when the scenario says which device it is ``on``.
"""

import re
from collections.abc import Sequence
from functools import partial

from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.cri.device_sources import locality_paths, pci_addresses
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.simulate.scenario.model import Attachment
from cri_proxy.yaml_fields import YamlField
from policies.base import DeviceLocality
from sysfs.cpuset import NodeSet
from sysfs.documents.forms import TEXT, TRUTH, each, form, matching, scalar
from sysfs.documents.table import KeyRow, Table
from sysfs.model import Machine
from sysfs.pci import parse_address

# How a device plugin would name its devices (CDI: vendor/class=device).
CDI_KIND = "cri-proxy.io/pci"
_ADDRESS_IN_PATH = re.compile(r"(?<![0-9a-f])([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f])")


_path = matching("/.*", "a path of the host, like /mnt/data")


def _at(path: str, on: str = "", container: str = "", **more: bool) -> Attachment:
    found = _ADDRESS_IN_PATH.findall(path)
    return Attachment(path, on or (found[-1] if found else ""), container or path, **more)


_ROWS = (
    KeyRow("path", scalar(_path), "where it is on the host", "path is missing; give one of the host, like /mnt/data"),
    KeyRow("on", scalar(parse_address), "the PCI address of the device that it lies on"),
    KeyRow("container", TEXT, "where the container sees it"),
)
DEVICE = Table(_at, *_ROWS, name="a device")
MOUNT = Table(
    partial(_at, is_mount=True),
    *_ROWS,
    KeyRow("read_only", TRUTH, "true or false", field="is_read_only"),
    name="a mount",
)


def _device(item: YamlField, what: str) -> Attachment:
    """Read a PCI address, a host path, or a mapping with what the path is ``on``."""
    if not item.is_scalar:
        return DEVICE.read(item)
    text = item.text(what)
    return _at(text) if text.startswith("/") else Attachment(address=item.parsed(what, parse_address))


def _mount(item: YamlField, what: str) -> Attachment:
    """Read a host path, or a mapping with what it is ``on``."""
    return _at(item.parsed(what, _path), is_mount=True) if item.is_scalar else MOUNT.read(item)


DEVICES, MOUNTS = each(form(_device)), each(form(_mount))


def attach(config: pb.ContainerConfig, attachments: Sequence[Attachment]) -> None:
    """Add these to the container to be created, as a kubelet does."""
    for item in attachments:
        if not item.path:
            config.CDI_devices.add(name=f"{CDI_KIND}={item.address}")
        elif item.is_mount:
            config.mounts.add(host_path=item.path, container_path=item.container_path, readonly=item.is_read_only)
        else:
            config.devices.add(host_path=item.path, container_path=item.container_path, permissions="rwm")


class DeviceLocator:
    """Locates devices and host paths on the machine, as sysfs does on a node."""

    def __init__(self, machine: Machine) -> None:
        """Know no path yet."""
        self._on: dict[str, str] = {}
        self.use(machine)

    def use(self, machine: Machine) -> None:
        """Use the devices of this machine."""
        self._devices = {device.address: device for device in machine.devices}

    def add(self, attachments: Sequence[Attachment]) -> None:
        """Remember the devices that these paths are on."""
        self._on.update({item.path: item.address for item in attachments if item.path and item.address})

    async def localities_of(
        self, config: pb.ContainerConfig, told: ToldDevices = NOTHING_TOLD
    ) -> Sequence[DeviceLocality]:
        """Return the locality of a container's devices and mounts, in the order of the real reader."""
        named = [(path, self._on.get(path, "")) for path in locality_paths(config)]
        named += [(address, address) for address in pci_addresses(config)]
        found = [(source, self._devices[address]) for source, address in named if address in self._devices]
        known = [(source, device) for source, device in found if device.node >= 0]
        return [DeviceLocality(s, d.local_cpus, NodeSet.of([d.node]), devices=(d.address,)) for s, d in known]
