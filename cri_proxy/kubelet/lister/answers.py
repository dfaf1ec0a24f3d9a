"""Add what the node has granted to the kubelet's answers about pods and about the machine. Pure.

Fields that are not named here stay as the kubelet has them: devices of its plugins, of claims, and those to come.
Source: the pod resources API v1 (KEP-2043, KEP-2403); a container's ``cpu_ids`` are those that it has alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from cri_proxy.cri.devices.names import devices_allocated
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.state.rows import Row
from policies.base import Grant
from policies.device_grants import DeviceGrant, DeviceKey, listed_only
from policies.devices import (
    OWN_DOMAIN,
    HeldHardware,
    OfferedDevice,
    listed_devices,
)
from policies.policy import Policy
from policies.topology_aware import promised_bytes
from sysfs.cpuset import NodeSet, gathered
from sysfs.quantity import bytes_text

MEMORY: Final = "memory"
"""The type of ordinary memory; that of huge pages is ``hugepages-`` and their size."""

_Names = tuple[str, str, str]
_Place = tuple[str, int | None]  # a resource, and a NUMA node


@dataclass(frozen=True)
class NodeGrants:
    """The grants that count now by namespace, pod and name of their containers, and the policy in force."""

    policy: Policy
    grants: Mapping[_Names, Grant]

    @classmethod
    def of(cls, policy: Policy, rows: Iterable[Row]) -> Self:
        """Index the grants of these rows. The kubelet tells no UID: of two pods of one name the newest row counts."""
        oldest_first = sorted(rows, key=lambda row: row.created_order)
        requests = ((row.grant.request, row.grant) for row in oldest_first)
        return cls(policy, {(r.pod.namespace, r.pod.name, r.container.name): grant for r, grant in requests})

    def add_to_pods(self, pods: Iterable[pb.PodResources]) -> None:
        """Add to each container of these pods what it was granted."""
        for pod in pods:
            self._add_to_pod(pod)

    def _add_to_pod(self, pod: pb.PodResources) -> None:
        """What containers of a pod have together stands once, with the first of them: readers add up containers."""
        sharing: list[Grant] = []
        namespace, name = pod.namespace, pod.name
        for container in pod.containers:
            grant = self.grants.get((namespace, name, container.name))
            if grant is None:
                continue
            container.cpu_ids[:] = () if any(map(grant.shares_cpus_with, sharing)) else grant.owned
            if grant.mems and not container.memory:  # else the kubelet's own memory manager has given it
                _add_memory(container, grant, sharing)
            if grant.devices:
                self._add_devices(container, grant.devices)
            if grant.share is not None:
                sharing.append(grant)

    def add_to_machine(self, answer: pb.AllocatableResourcesResponse) -> None:
        """Add what containers may be granted: CPUs but the reserved ones, memory of each node, healthy devices."""
        answer.cpu_ids[:] = self.policy.available - self.policy.reserved
        for node in self.policy.machine.nodes if not answer.memory else ():
            if node.memory_bytes:
                _add(answer, MEMORY, node.ordinary_bytes, NodeSet.of((node.id,)))
            for pages in node.huge_pages:
                _add(answer, _of_pages(pages.page_bytes), pages.total_bytes, NodeSet.of((node.id,)))
        of_inventory = (each.part for each in self._offered if each.is_healthy)
        of_costs = (name for names in self.policy.devices.costs.devices.values() for name in names)
        only_there = (listed_only(name) for name in of_costs if self.policy.known.named(name).device is None)
        self._add_devices(answer, (*of_inventory, *only_there))

    @cached_property
    def _offered(self) -> tuple[OfferedDevice, ...]:
        return listed_devices(self.policy.devices)

    @cached_property
    def _offered_of(self) -> Mapping[tuple[DeviceKey, str], Sequence[OfferedDevice]]:
        """The parts that are listed of each virtual function, and of each device as a whole ('')."""
        return gathered(((each.part.key, vf), each) for each in self._offered for vf in {"", each.part.vf})

    def _add_devices(
        self, message: pb.ContainerResources | pb.AllocatableResourcesResponse, devices: Iterable[DeviceGrant]
    ) -> None:
        """Add these devices by the names that our device plugin gives them, but those that the kubelet has named."""
        names = (f"{group.resource_name}/{each}" for group in message.devices for each in group.device_ids)
        told = HeldHardware(self.policy.known, devices_allocated(names, self.policy.known))
        new = [device for device in devices if not told.overlap(device)]
        for (resource, node), ids in gathered(each for device in new for each in self._listed(device)).items():
            topology = None if node is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
            message.devices.add(resource_name=resource, device_ids=ids, topology=topology)

    def _listed(self, device: DeviceGrant) -> Iterator[tuple[_Place, str]]:
        """Yield resource and node with each id of a device; one that has virtual functions is listed by them."""
        if isinstance(device.minor, str):  # of cost files alone
            yield (device.kind, None), device.minor
            return
        for each in self._offered_of.get((device.key, device.vf), ()):
            yield (f"{OWN_DOMAIN}/{device.kind}", each.node), each.id


class LedgerGrants:
    """The grants of a ledger, indexed once for each of its states: monitors ask again and again."""

    def __init__(self, ledger: Ledger) -> None:
        """Nothing is indexed yet."""
        self._ledger = ledger
        self._state: tuple[int, Policy] | None = None
        self._grants = NodeGrants(ledger.policy, {})

    def now(self) -> NodeGrants:
        """Return the grants that count now."""
        state = self._ledger.version, self._ledger.policy
        if state != self._state:
            self._state, self._grants = state, NodeGrants.of(self._ledger.policy, self._ledger.active())
        return self._grants


def _add_memory(container: pb.ContainerResources, grant: Grant, sharing: Iterable[Grant]) -> None:
    """Add what a container is promised, on the nodes that it is pinned to."""
    promised, share = promised_bytes(grant.request), grant.share
    if share is not None and share.memory_bytes is not None:
        is_told = any(other.share is not None and other.share.memory_bytes is not None for other in sharing)
        promised = 0 if is_told else share.memory_bytes
    if promised:
        _add(container, MEMORY, promised, grant.mems)
    for wanted in grant.request.huge_pages:
        _add(container, _of_pages(wanted.page_bytes), wanted.limit_bytes, grant.mems)


def _add(
    message: pb.ContainerResources | pb.AllocatableResourcesResponse, kind: str, size_bytes: int, nodes: NodeSet
) -> None:
    topology = message.memory.add(memory_type=kind, size=size_bytes).topology
    for node in nodes:
        topology.nodes.add(ID=node)


def _of_pages(page_bytes: int) -> str:
    return f"hugepages-{bytes_text(page_bytes)}"
