"""CDI specifications of an inventory's PCI functions, under the names by which grants name them. Pure.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md). A file has the lowest version that knows
what it uses, since a runtime refuses files of versions that it does not know: 0.5.0 lets names begin with a digit,
0.6.0 has dots in a class, 1.1.0 has ``netDevices``.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.cri.devices.names import names_of
from cri_proxy.cri.devices.pci_functions import NODE_DIRECTORIES, FunctionsByAddress, PciFunction
from policies.device_grants import WHOLE, DeviceGrant
from policies.devices import NIC, RDMA, VF_UNITS, DeviceInventory, natural_order
from sysfs.cpuset import gathered
from sysfs.text import some

_VERSION: Final = "0.5.0"
_DOTTED_CLASS_VERSION: Final = "0.6.0"
_INTERFACE_VERSION: Final = "1.1.0"
_SHOWN: Final = 6
_PCI: Final = "/sys/bus/pci"
_INTERFACES: Final = "not declared: network interfaces, which stay the host's, or which CNI plugins give to pods"
_OF_VENDORS: Final = "not declared: left to their vendors' tools, such as nvidia-ctk cdi generate"

Edits = Mapping[str, Sequence[Mapping[str, str]]]
"""The ``containerEdits`` of a device."""


@dataclass(frozen=True, slots=True)
class CdiEntry:
    """A device of a specification; ``device`` is the one of the inventory that it is, or is a VF of: ``rdma 1``."""

    name: str
    edits: Edits
    device: str
    driver: str


@dataclass(frozen=True, slots=True)
class CdiFile:
    """A specification: the name of its file, and its devices in their order."""

    name: str
    kind: str
    version: str
    devices: tuple[CdiEntry, ...]

    @property
    def document(self) -> Mapping[str, object]:
        """Its content."""
        devices = [{"name": each.name, "containerEdits": each.edits} for each in self.devices]
        return {"cdiVersion": self.version, "kind": self.kind, "devices": devices}

    @property
    def text(self) -> str:
        """Its content as JSON, always the same for the same devices."""
        return _written(self.document)


@dataclass(frozen=True, slots=True)
class SpecifiedFunctions:
    """All specifications of an inventory. ``refused``: devices that cannot be declared, and the remedy; ``notes``."""

    files: tuple[CdiFile, ...] = ()
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiNaming:
    """The names of devices. ``kind`` '': those of grants; else all devices are of it, by their PCI addresses.

    ``has_interfaces``: VFs that are network interfaces alone are declared too.
    """

    kind: str = ""
    has_interfaces: bool = False


@dataclass(frozen=True, slots=True)
class _Unit:
    """A function that a container may get: ``bus`` is its address, ``owner`` the address of a VF's device."""

    grant: DeviceGrant
    bus: str
    owner: str = ""

    @property
    def is_network(self) -> bool:
        return self.grant.kind in (RDMA, NIC)

    @property
    def what(self) -> str:
        here = "" if self.grant.vf or not self.bus else f" ({self.bus})"
        return f"{self.grant}{here}"


def cdi_files(inventory: DeviceInventory, functions: FunctionsByAddress, naming: CdiNaming) -> SpecifiedFunctions:
    """Return the specifications of these devices, as their functions are now."""
    entries: list[tuple[str, CdiEntry]] = []
    refused, left, groups = list[str](), dict[str, list[str]](), dict[str, list[str]]()
    for unit in _units(inventory):
        function = functions.get(unit.bus)
        edits = {} if function is None else _edits(unit, function, naming)
        if problem := _problem(unit, function):
            refused.append(f"{unit.what} {problem}")
        elif function is not None and edits:
            kind, _, name = _name(unit, naming).partition("=")
            device = f"{unit.grant.kind} {unit.grant.minor}"
            entries.append((kind, CdiEntry(name, edits, device, function.driver)))
            groups.setdefault(function.vfio, []).append(unit.what)
        else:
            left.setdefault(_INTERFACES if unit.is_network else _OF_VENDORS, []).append(unit.what)
    notes = [f"{some(whats, _SHOWN)}: {why}" for why, whats in left.items()]
    notes += (
        f"{some(same, _SHOWN)} are in one IOMMU group, {node}: one container at a time can open it"
        for node, same in groups.items()
        if node and len(same) > 1
    )
    return SpecifiedFunctions(tuple(_files(entries)), tuple(refused), tuple(notes))


def is_own_text(text: str) -> bool:
    """Return whether a file has what ``CdiFile.text`` writes and nothing else: then no word of others is in it.

    >>> is_own_text('{"cdiVersion": "0.5.0", "kind": "example.com/nic", "devices": []}')
    False
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict) or _written(document) != text or [*document] != ["cdiVersion", "kind", "devices"]:
        return False
    devices = document["devices"]
    return isinstance(devices, list) and all(map(_is_own_device, devices))


def _is_own_device(device: object) -> bool:
    if not isinstance(device, dict) or [*device] != ["name", "containerEdits"]:
        return False
    edits = device["containerEdits"]
    if not isinstance(edits, dict) or len(edits) != 1:
        return False
    ((key, entries),) = edits.items()
    is_own = {"deviceNodes": _is_own_node, "netDevices": _is_own_interface}.get(key)
    return is_own is not None and isinstance(entries, list) and all(map(is_own, entries))


def _is_own_node(node: object) -> bool:
    path = node.get("path") if isinstance(node, dict) else None
    return isinstance(path, str) and path.startswith(NODE_DIRECTORIES) and node == _node(path)


def _is_own_interface(interface: object) -> bool:
    name = interface.get("name") if isinstance(interface, dict) else None
    return isinstance(name, str) and interface == _interface(name)


def _written(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _node(path: str) -> Mapping[str, str]:
    return {"path": path, "permissions": "rw"}


def _interface(name: str) -> Mapping[str, str]:
    return {"hostInterfaceName": name, "name": name}


def file_names(naming: CdiNaming, kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all files that may hold devices of these kinds."""
    every = (naming.kind,) if naming.kind else kinds
    return tuple(_file_name(kind, is_net=is_net) for kind in every for is_net in (False, True))


def _units(inventory: DeviceInventory) -> Iterator[_Unit]:
    for device in inventory.devices:
        yield _Unit(DeviceGrant(device.kind, device.minor, WHOLE), device.path.bus)
        vfs = (vf.bus for group in device.vf_groups for vf in group.vfs)
        for bus in sorted(vfs, key=natural_order):
            yield _Unit(DeviceGrant(device.kind, device.minor, VF_UNITS, bus), bus, device.path.bus)


def _name(unit: _Unit, naming: CdiNaming) -> str:
    """Return the CDI name of a unit: of those that a grant may have its own, which no vendor declares."""
    return f"{naming.kind}={unit.bus}" if naming.kind else names_of(unit.grant, DeviceInventory(()))[-1]


def _problem(unit: _Unit, function: PciFunction | None) -> str:
    """Return why this function cannot be given, with the remedy; '' where it can, or is none that CDI has to name."""
    if not unit.bus:
        return "has no bus in the inventory: add its PCI address" if unit.is_network else ""
    if function is None:
        enable = f"enable VFs: echo NUMBER > {_PCI}/devices/{unit.owner or 'ADDRESS'}/sriov_numvfs"
        return f"is no PCI function of this machine: {enable if unit.grant.vf else 'correct its bus'}"
    if not function.driver:
        to_vfio = f"echo vfio-pci > {_PCI}/devices/{unit.bus}/driver_override"
        return f"has no driver: bind it by echo {unit.bus} > {_PCI}/drivers_probe, to vfio by {to_vfio} before that"
    if function.is_vfio and not function.vfio:
        return f"is bound to {function.driver}, in no IOMMU group: boot with intel_iommu=on, or amd_iommu=on"
    if function.rdma and not function.verbs:
        return f"has the RDMA device {function.rdma[0]} without verbs: modprobe ib_uverbs"
    # The driver of a whole NIC is the host's business: it may be the one that the node talks through.
    is_useful = function.nodes or function.interfaces or not unit.grant.vf or not unit.is_network
    return "" if is_useful else f"is bound to {function.driver}, which offers containers nothing: bind it to vfio-pci"


def _edits(unit: _Unit, function: PciFunction, naming: CdiNaming) -> Edits:
    if function.nodes:
        return {"deviceNodes": [_node(path) for path in function.nodes]}
    if naming.has_interfaces and unit.grant.vf and function.interfaces:  # that of a whole NIC may be the host's own
        return {"netDevices": [_interface(name) for name in function.interfaces]}
    return {}


def _files(entries: Iterable[tuple[str, CdiEntry]]) -> Iterator[CdiFile]:
    """Yield a file for each kind, and one of their own for interfaces, which older runtimes do not know."""
    by_file = gathered(((kind, "netDevices" in entry.edits), entry) for kind, entry in entries)
    for (kind, is_net), devices in sorted(by_file.items(), key=lambda item: item[0]):
        dotted = "." in kind.partition("/")[2]
        version = _INTERFACE_VERSION if is_net else _DOTTED_CLASS_VERSION if dotted else _VERSION
        yield CdiFile(_file_name(kind, is_net=is_net), kind, version, tuple(devices))


def _file_name(kind: str, *, is_net: bool) -> str:
    return f"{kind.replace('/', '-')}{'-net' if is_net else ''}.json"
