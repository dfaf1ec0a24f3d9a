"""Make an inventory of the devices that plugins have registered with the kubelet, with what containers have of them.

Source: GetAllocatableResources and List of the kubelet's pod resources API v1, which has healthy devices alone. Plugins
name devices as they like: our own by type and minor, or VFs by PCI address, others by UUID, PCI address or number.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError, Message

from cri_proxy.errors import CallFailed, CommandFailed, RuntimeUnavailable
from cri_proxy.kubelet.pod_resources import SERVICE
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.runtime.channel import RuntimeChannel
from policies.container_name import ContainerName
from policies.device_grants import WHOLE, DeviceGrant, DeviceKey
from policies.devices import DEVICE_TYPES, DeviceInventory, InventoryDevice, PciePath, natural_order, type_named
from sysfs.cpuset import NodeSet

ANSWER_SECONDS: Final = 5.0

_OURS: Final = re.compile(rf"({'|'.join(DEVICE_TYPES)})-(\d{{1,6}})(-.*)?", re.ASCII)
_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PluginHolder:
    """A container that has a device, or parts of one: by the ``ids`` of this resource."""

    container: str
    type: str
    minor: int
    resource: str
    ids: tuple[str, ...]

    @property
    def key(self) -> DeviceKey:
        """The device."""
        return self.type, self.minor


@dataclass(frozen=True, slots=True)
class PluginInventory:
    """The devices of types that are known here, who has them, and resources of other types."""

    inventory: DeviceInventory
    holders: tuple[PluginHolder, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def held(self) -> tuple[DeviceGrant, ...]:
        """The devices that containers have, each once."""
        each = dict.fromkeys((holder.type, holder.minor) for holder in self.holders)
        return tuple(DeviceGrant(*place, WHOLE, is_given=True) for place in each)


async def ask_plugins(channel: RuntimeChannel, socket: str) -> PluginInventory:
    """Return what the kubelet behind this channel knows. Raises CommandFailed, which names the socket."""
    try:
        offered = await _call(channel, "GetAllocatableResources", pb.AllocatableResourcesRequest())
        listed = await _call(channel, "List", pb.ListPodResourcesRequest())
        return inventory_of_plugins(
            pb.AllocatableResourcesResponse.FromString(offered), pb.ListPodResourcesResponse.FromString(listed)
        )
    except CallFailed as error:
        raise CommandFailed(f"the kubelet refuses to list devices: {error.message} ({socket})") from error
    except RuntimeUnavailable as error:
        problem = error.problem.removeprefix(f"{socket}: ")
        raise CommandFailed(f"the kubelet does not answer on {socket}: {problem}") from error
    except DecodeError as error:
        raise CommandFailed(f"what answers on {socket} is no kubelet: {error}") from error


async def _call(channel: RuntimeChannel, method: str, message: Message) -> bytes:
    return await channel.unary(SERVICE + method, message.SerializeToString(), timeout_seconds=ANSWER_SECONDS)


def inventory_of_plugins(
    offered: pb.AllocatableResourcesResponse, listed: pb.ListPodResourcesResponse
) -> PluginInventory:
    """Return the devices that these answers name; a share of one that cri-proxy offers counts as the device.

    A device without a number of its own gets the lowest free one of its type, by resource and id. One that several
    resources offer is in each of them.
    """
    nodes: dict[tuple[str, str], int | None] = {}
    others: set[str] = set()
    for group in offered.devices:
        if not type_named(group.resource_name):
            others.add(group.resource_name)
            continue
        for name in group.device_ids:
            nodes[group.resource_name, name] = _node(group.topology)
    minors = _minors(nodes)
    found = {minors[key]: _device(minors[key], key[1], node) for key, node in nodes.items()}
    inventory = DeviceInventory(tuple(found[key] for key in sorted(found, key=_order)))
    holders = sorted(_holders(listed, minors), key=lambda each: (*_order((each.type, each.minor)), each.container))
    return PluginInventory(inventory, tuple(holders), tuple(sorted(others)))


def _minors(names: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], tuple[str, int]]:
    """Return type and minor of each device, named by resource and id."""
    found: dict[tuple[str, str], tuple[str, int]] = {}
    unnumbered = []
    for key in sorted(names, key=lambda key: (key[0], natural_order(key[1]))):
        ours = _OURS.fullmatch(key[1])
        if ours is None:
            unnumbered.append(key)
        else:
            found[key] = (ours[1], int(ours[2]))
    taken = set(found.values())
    following = dict.fromkeys(DEVICE_TYPES, 0)
    for key in unnumbered:
        kind = type_named(key[0])
        while (kind, following[kind]) in taken:
            following[kind] += 1
        found[key] = (kind, following[kind])
        following[kind] += 1
    return found


def _device(place: tuple[str, int], name: str, node: int | None) -> InventoryDevice:
    address = _PCI_ADDRESS.search(name)
    bus = address[0].lower() if address is not None and not _OURS.fullmatch(name) else ""
    # An id of our own plugin is type and number, which the device has anyway.
    uuid = "" if _OURS.fullmatch(name) or bus else name
    return InventoryDevice(*place, numa=node, path=PciePath(bus=bus), uuid=uuid)


def _node(topology: pb.TopologyInfo) -> int | None:
    """Return the only node; of several none is the device's."""
    # A plugin may name any number, and a set has a bit for each up to its highest.
    nodes = NodeSet.of(node.ID for node in topology.nodes if 0 <= node.ID < 1024)
    return next(iter(nodes)) if len(nodes) == 1 else None


def _holders(
    listed: pb.ListPodResourcesResponse, minors: Mapping[tuple[str, str], tuple[str, int]]
) -> Iterator[PluginHolder]:
    """Yield the containers that have devices, with each of these."""
    containers = ((pod, container) for pod in listed.pod_resources for container in pod.containers)
    for pod, container in containers:
        name = str(ContainerName(pod.namespace, pod.name, container.name))
        found: dict[tuple[str, tuple[str, int]], list[str]] = {}
        for resource, each in ((group.resource_name, each) for group in container.devices for each in group.device_ids):
            if place := minors.get((resource, each)):
                found.setdefault((resource, place), []).append(each)
        for (resource, place), ids in found.items():
            yield PluginHolder(name, *place, resource, tuple(sorted(ids, key=natural_order)))


def _order(place: tuple[str, int]) -> tuple[int, int]:
    return DEVICE_TYPES.index(place[0]), place[1]
