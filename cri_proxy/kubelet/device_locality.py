"""What the kubelet says of a pod's devices, as topology hints (pure)."""

from collections.abc import Iterable

from cri_proxy.cri.annotations.device_filter import POD_RESOURCES
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from policies.base import DeviceLocality
from sysfs.cpuset import CpuSet, NodeSet


def hints_of_container(pod: pb.PodResources, container: str, known: NodeSet) -> tuple[DeviceLocality, ...]:
    """One hint per group of devices of this container that the device plugin has told the place of, by source.

    ``known`` are the machine's nodes: others, and devices on all of them, tell nothing.
    """
    found = [
        DeviceLocality(_source(devices), CpuSet(), nodes)
        for resources in pod.containers
        if resources.name == container
        for devices in resources.devices
        if (nodes := _nodes(devices.topology.nodes, known)) and nodes != known
    ]
    return tuple(sorted(found, key=lambda hint: hint.source))


def _source(devices: pb.ContainerDevices) -> str:
    """The resource and its devices, ``podresapi:example.com/nic/0,1``."""
    return f"{POD_RESOURCES}{devices.resource_name}/{','.join(sorted(devices.device_ids))}"


def _nodes(nodes: Iterable[pb.NUMANode], known: NodeSet) -> NodeSet:
    present = set(known)  # a plugin may name any number: only those that are there are made into a set
    return NodeSet.of(node.ID for node in nodes if node.ID in present)
