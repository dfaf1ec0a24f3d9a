"""Parse a scenario's devices and mounts, add them to CRI requests, and locate them on the simulated machine.

A host path has a place when it contains a PCI address, as names of udev do (``/dev/dri/by-path/
pci-0000:10:00.0-render``, ``/sys/bus/pci/devices/...``), or when the scenario says which device it is ``on``.
"""

import re
from collections.abc import Sequence

from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.cri.device_sources import hint_paths, pci_addresses
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.simulate.scenario.fields import Field
from cri_proxy.simulate.scenario.model import Attachment
from policies.base import DeviceLocality
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.pci import is_address

# How a device plugin would name its devices (CDI: vendor/class=device).
CDI_KIND = "cri-proxy.io/pci"
DEVICE_KEYS = ("path", "on", "container")
MOUNT_KEYS = (*DEVICE_KEYS, "read_only")
_ADDRESS_IN_PATH = re.compile(r"(?<![0-9a-f])([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f])")


def read_device(item: Field) -> Attachment:
    """Read a device: a PCI address, a host path, or a mapping with what the path is ``on``. Raises ScenarioError."""
    if not item.is_scalar:
        return _mapped(item, DEVICE_KEYS, "a device")
    text = item.text("devices")
    return _at(text) if text.startswith("/") else Attachment(address=_address(item, "devices"))


def read_mount(item: Field) -> Attachment:
    """Read a mount: a host path, or a mapping with what it is ``on``. Raises ScenarioError."""
    if not item.is_scalar:
        return _mapped(item, MOUNT_KEYS, "a mount")
    if not item.text("mounts").startswith("/"):
        raise item.refuse(f"mounts: expected a host path, got {item.shown()}")
    return _at(item.text("mounts"), is_mount=True)


def _at(path: str, *, is_mount: bool = False) -> Attachment:
    found = _ADDRESS_IN_PATH.findall(path)
    return Attachment(path, found[-1] if found else "", container_path=path, is_mount=is_mount)


def _mapped(item: Field, keys: Sequence[str], what: str) -> Attachment:
    fields = item.mapping(keys, what)
    if "path" not in fields or not fields["path"].text("path").startswith("/"):
        raise item.refuse(f"{what}: path is a path of the host, like /mnt/data")
    path = fields["path"].text("path")
    return Attachment(
        path=path,
        address=_address(fields["on"], "on") if "on" in fields else _at(path).address,
        container_path=fields["container"].text("container") if "container" in fields else path,
        is_mount="read_only" in keys,
        is_read_only="read_only" in fields and fields["read_only"].truth("read_only"),
    )


def _address(value: Field, what: str) -> str:
    """Return a PCI address, as machines and CDI names spell it. Raises ScenarioError."""
    text = value.text(what).lower()
    full = text if text.count(":") == 2 else f"0000:{text}"
    if not is_address(full):
        raise value.refuse(f"{what}: expected a PCI address like 0000:3b:00.0, got {value.shown()}")
    return full


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

    async def hints_of(self, config: pb.ContainerConfig, told: ToldDevices = NOTHING_TOLD) -> Sequence[DeviceLocality]:
        """Return the locality of a container's devices and mounts, in the order of the real reader."""
        named = [(path, self._on.get(path, "")) for path in hint_paths(config)]
        named += [(address, address) for address in pci_addresses(config)]
        found = [(source, self._devices[address]) for source, address in named if address in self._devices]
        known = [(source, device) for source, device in found if device.node >= 0]
        return [DeviceLocality(s, d.local_cpus, NodeSet.of([d.node]), devices=(d.address,)) for s, d in known]
