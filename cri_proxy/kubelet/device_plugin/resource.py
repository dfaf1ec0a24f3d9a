"""Answer the kubelet about one resource of a plugin, in messages of its API. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.cri.devices.names import NO_PROOFS, CandidateNames, Proofs
from cri_proxy.cri.devices.pci_functions import FunctionsByAddress, pci_variables
from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit
from cri_proxy.kubelet.device_plugin.settings import PluginResource
from cri_proxy.kubelet.device_plugin.sources import PluginKnowledge
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb
from policies.device_grants import DeviceGrant
from policies.devices import (
    GPU,
    GPU_VENDOR,
    NVIDIA,
    VENDOR_OF,
    Chooser,
    DeviceInventory,
    JoinedDevices,
    KnownCloseness,
    OfferedDevice,
    OfferedDevices,
    allocated_annotations,
    allocated_variables,
    chooser_of,
    links_of,
    offered_devices,
    partition_rule,
)
from sysfs.text import some

OPTIONS: Final = pb.DevicePluginOptions(get_preferred_allocation_available=True)
VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"

_NVIDIA_DOMAIN: Final = "nvidia.com"
_SHOWN_IDS: Final = 8
_HEALTH: Final[Mapping[bool, str]] = {True: "Healthy", False: "Unhealthy"}


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The files of the node about its devices; all of it blocks.

    ``declared`` returns those of these CDI names that a specification declares, ``functions`` the PCI functions at
    these addresses, ``proofs`` the hardware behind these CDI names.
    """

    declared: Callable[[Sequence[str]], tuple[str, ...]]
    functions: Callable[[Sequence[str]], FunctionsByAddress]
    proofs: Callable[[Sequence[str]], Proofs] = lambda _: NO_PROOFS


class AllocationRefused(CriProxyError):
    """Devices that a container cannot get; ``problem`` names the id and the remedy."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource with its devices as they are now. ``is_nvidia``: so are GPUs whose vendor no source names.

    ``joined`` are the devices of the inventory that it is of.
    """

    name: str
    offered: OfferedDevices
    chooser: Chooser
    joined: JoinedDevices
    is_nvidia: bool = False

    def listing(self) -> pb.ListAndWatchResponse:
        """Return all devices with health and NUMA node."""
        return pb.ListAndWatchResponse(devices=[_device(device) for device in self.offered.devices.values()])

    def preferred(self, request: pb.ContainerPreferredAllocationRequest) -> tuple[str, ...]:
        """Return the ids to take; empty where the kubelet may take any, or has too few.

        Source: devicemanager of the kubelet, v1.36.
        """
        known = self.offered.devices
        # The kubelet may still count ids that are not offered any more.
        available = tuple(name for name in request.available_deviceIDs if name in known and known[name].is_healthy)
        included = tuple(dict.fromkeys(request.must_include_deviceIDs))
        # No error: for one the kubelet fails the pod, and for an empty answer it takes devices itself.
        if not set(included) <= set(available) or not 0 < request.allocation_size <= len(set(available)):
            return ()
        if len(included) > request.allocation_size:
            return ()
        return tuple(self.chooser.choose(available, included, request.allocation_size))

    def allocation(self, ids: Sequence[str], files: NodeFiles) -> pb.ContainerAllocateResponse:
        """Return what a container with these devices gets. Raises AllocationRefused for an id that it cannot have."""
        devices = self.checked(ids)
        parts = self.offered.parts(device.id for device in devices)
        of = {device.part.minor: device for device in devices}
        addresses = tuple(part.vf or of[part.minor].bus for part in parts if part.vf or part.kind != GPU)
        addresses = tuple(filter(None, addresses))
        envs = allocated_variables(parts) | pci_variables(self.name, addresses, files.functions(addresses))
        # The identifier first: NVIDIA's toolkit counts GPUs as NVML does, and a minor may be another number.
        visible = [of[part.minor].uuid or str(part.minor) for part in parts if self._is_nvidia(part, of[part.minor])]
        if visible:
            envs[VISIBLE_DEVICES] = ",".join(visible)
        names = self._cdi_names(parts, files)
        return pb.ContainerAllocateResponse(
            envs=envs,
            annotations=allocated_annotations(parts),
            cdi_devices=[pb.CDIDevice(name=name) for name in dict.fromkeys(names) if name],
        )

    def _cdi_names(self, parts: Sequence[DeviceGrant], files: NodeFiles) -> tuple[str, ...]:
        """Return the CDI name of each of these parts, '' where none is declared."""
        names = CandidateNames.of(parts, self.joined.inventory)
        names = names.those(frozenset(files.declared(names.every)))
        proofs = files.proofs(names.to_prove) if names.to_prove else NO_PROOFS
        return names.given(self.joined, proofs)

    def checked(self, ids: Sequence[str]) -> tuple[OfferedDevice, ...]:
        """Return the devices of these ids. Raises AllocationRefused."""
        found = []
        for name in ids:
            device = self.offered.devices.get(name)
            if device is None:
                known = some(list(self.offered.devices), _SHOWN_IDS) or "none"
                raise AllocationRefused(f"{repr(admit(name))[1:-1]}: {self.name} has no such device; it has {known}")
            if not device.is_healthy:
                raise AllocationRefused(f"{name}: {self.name} has it as unhealthy; ask for another one")
            found.append(device)
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise AllocationRefused(f"{twice}: asked for twice; a device can be had once")
        return tuple(found)

    def _is_nvidia(self, part: DeviceGrant, device: OfferedDevice) -> bool:
        is_own = device.vendor == NVIDIA.name or (self.is_nvidia and not device.vendor)
        return part.kind == GPU and not part.vf and is_own


def served_resource(resource: PluginResource, inventory: DeviceInventory, known: PluginKnowledge) -> ServedResource:
    """Return a resource as an inventory and what is known of its devices make it.

    One that is a vendor's name for GPUs has none of other vendors.
    """
    vendor = VENDOR_OF.get(resource.name, "")
    own = tuple(device for device in inventory.devices if not vendor or device.maker in ("", vendor))
    inventory = replace(inventory, devices=own)
    offered = offered_devices(inventory, resource.kind, resource.offer)
    rule = partition_rule(inventory, inventory.node_labels, None)
    links = links_of(known.links or inventory.links, inventory.of(GPU))
    chooser = chooser_of(offered, resource.name, KnownCloseness(links, known.costs, rule))
    are_nvidia = resource.name.startswith(f"{_NVIDIA_DOMAIN}/") or inventory.node_labels.get(GPU_VENDOR) == NVIDIA.name
    return ServedResource(resource.name, offered, chooser, JoinedDevices(inventory), are_nvidia)


def _device(device: OfferedDevice) -> pb.Device:
    place = None if device.node is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=device.node)])
    return pb.Device(ID=device.id, health=_HEALTH[device.is_healthy], topology=place)
