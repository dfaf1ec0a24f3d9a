"""Write the node as a NodeResourceTopology object, in the dialect of the schedulers that read it. Pure.

Sources: types.go and the CRD of github.com/k8stopologyawareschedwg/noderesourcetopology-api, version v1alpha2;
the filter of kubernetes-sigs/scheduler-plugins (pkg/noderesourcetopology), which compares the requests of a Guaranteed
pod with ``available`` of each zone of type Node, and only under the policy single-numa-node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.codec import Plain
from cri_proxy.node_topology.fingerprint import fingerprint
from policies.alignment import TopologyOptions, TopologyPolicy
from policies.answers import FreeOnNode
from policies.base import Allocations, PoolView
from policies.devices import OWN_DOMAIN, HeldHardware, listed_devices
from policies.policy import Policy
from sysfs.cpuset import gathered
from sysfs.model import NumaNode
from sysfs.quantity import bytes_text

API_VERSION: Final = "topology.node.k8s.io/v1alpha2"
KIND: Final = "NodeResourceTopology"
FINGERPRINT: Final = "topology.node.k8s.io/fingerprint"
DIGEST: Final = f"{OWN_DOMAIN}/config-digest"
VERSION: Final = f"{OWN_DOMAIN}/version"
POOL: Final = f"{OWN_DOMAIN}/pool"

_MOST_NODES: Final = 64
"""NUMA nodes with higher ids are left out: the scheduler plugins index an array of so many by them."""
_USUAL_NODES: Final = 8
"""Nodes that schedulers reckon with unless an attribute says that there are more."""
_TYPES: Final = {"root": "Machine", "package": "Package", "die": "Die", "l3": "L3", "node": "Node"}

Zone = dict[str, Plain]


@dataclass(frozen=True, slots=True)
class TopologySnapshot:
    """The content of the object: the grants that count under the policy in force, and the pods that are here.

    Two are equal where the ledger was at the same ``ledger_version``. ``single_node``: a container that owns CPUs is
    refused rather than spread over NUMA nodes. ``digest`` is that of the configuration, '' without a file.
    """

    node: str
    policy: Policy
    held: Allocations = field(compare=False)
    rules: TopologyOptions
    single_node: bool
    pods: tuple[tuple[str, str], ...]
    digest: str
    version: str
    ledger_version: int = 0


@dataclass(frozen=True, slots=True)
class _Amounts:
    """A resource of a zone; CPUs in thousandths."""

    name: str
    capacity: int
    allocatable: int
    available: int

    def plain(self) -> Plain:
        text = _cpus if self.name == "cpu" else str
        amounts = (("capacity", self.capacity), ("allocatable", self.allocatable), ("available", self.available))
        return {"name": self.name, **{key: text(amount) for key, amount in amounts}}


def node_resource_topology(snapshot: TopologySnapshot, free: Iterable[FreeOnNode]) -> dict[str, Plain]:
    """Return the object, as plain data; ``free`` is what the grants leave."""
    signed = fingerprint(snapshot.pods)
    zones = _ZoneRows(snapshot, free)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": snapshot.node, "annotations": {FINGERPRINT: signed}},
        "attributes": _attributes(dict(_facts(snapshot, signed))),
        "zones": [*zones.of_nodes(), *zones.of_pools()],
    }


def _facts(snapshot: TopologySnapshot, signed: str) -> Iterator[tuple[str, str]]:
    rules, count = snapshot.rules, len(snapshot.policy.machine.nodes)
    refuses = snapshot.single_node and rules.policy is not TopologyPolicy.RESTRICTED
    yield "topologyManagerPolicy", str(TopologyPolicy.SINGLE_NUMA_NODE if refuses else rules.policy)
    yield "topologyManagerScope", str(rules.scope)
    if count > _USUAL_NODES:
        yield "topologyManagerMaxNUMANodes", str(count)
    yield "nodeTopologyPodsFingerprint", signed
    yield "nodeTopologyPodsFingerprintMethod", "all"
    yield DIGEST, snapshot.digest
    yield VERSION, snapshot.version


class _ZoneRows:
    """The zones of one moment."""

    def __init__(self, snapshot: TopologySnapshot, free: Iterable[FreeOnNode]) -> None:
        policy = snapshot.policy
        self._machine, self._available, self._reserved = policy.machine, policy.available, policy.reserved
        self._nodes = {node.id: node for node in policy.machine.nodes}
        self._free = {each.node: each for each in free}
        self._devices = _devices_of(policy, snapshot.held)
        pools = policy.pools(snapshot.held)
        by_cpus = {node.cpus & self._available: node for node in policy.machine.nodes if node.cpus & self._available}
        self._pools = {pool.name: pool for pool in pools}
        # The pool of a NUMA node is the zone of this node.
        self._node_of = {pool.name: by_cpus[pool.cpus].id for pool in reversed(pools) if pool.cpus in by_cpus}
        self._pool_of = {node: name for name, node in self._node_of.items()}

    def of_nodes(self) -> Iterator[Plain]:
        """Yield a zone for each NUMA node."""
        listed = [node for node in self._machine.nodes if node.id < _MOST_NODES]
        for node in listed:
            pool = self._pools.get(self._pool_of.get(node.id, ""))
            zone: Zone = {"name": _node_name(node.id), "type": "Node"}
            zone |= self._below(pool)
            if pool is not None:
                zone["attributes"] = _attributes({POOL: pool.name})
            distances = ((other.id, node.distance_to(other.id)) for other in listed)
            zone["costs"] = [{"name": _node_name(other), "value": distance} for other, distance in distances]
            zone["resources"] = [amounts.plain() for amounts in self._resources(node)]
            yield zone

    def _resources(self, node: NumaNode) -> Iterator[_Amounts]:
        """Yield what a node has. Memory of nodes without CPUs is with the nodes that it belongs to."""
        free = self._free.get(node.id)
        if free is not None:
            cpus = node.cpus & self._machine.online
            usable = len(node.cpus & self._available - self._reserved)
            yield _Amounts("cpu", 1000 * len(cpus), 1000 * usable, min(free.cpu_mcpu, 1000 * usable))
            yield from self._memory(free)
        yield from self._devices.get(node.id, ())

    def _memory(self, free: FreeOnNode) -> Iterator[_Amounts]:
        nodes = [self._nodes[n] for n in free.mems]
        capacity, usable = sum(node.memory_bytes for node in nodes), sum(node.ordinary_bytes for node in nodes)
        yield _Amounts("memory", capacity, usable, min(free.memory_bytes, usable))
        for size, available in free.huge_pages:
            pages = (pages for node in nodes for pages in node.huge_pages if pages.page_bytes == size)
            total = sum(each.total_bytes for each in pages)
            yield _Amounts(f"hugepages-{bytes_text(size)}", total, total, min(available, total))

    def of_pools(self) -> Iterator[Plain]:
        """Yield a zone for each other pool; no zone of a type beside Node counts in the scheduler's filter."""
        for pool in self._pools.values():
            if pool.name in self._node_of:
                continue
            usable = 1000 * len(pool.cpus - self._reserved)
            resources = [
                _Amounts("cpu", 1000 * len(pool.cpus), usable, min(pool.shared_free_mcpu, usable)),
                _Amounts("memory", pool.memory_bytes, pool.memory_bytes, pool.memory_free_bytes),
            ]
            zone: Zone = {"name": pool.name, "type": _TYPES.get(pool.kind, pool.kind)}
            zone |= self._below(pool)
            yield {**zone, "resources": [amounts.plain() for amounts in resources]}

    def _below(self, pool: PoolView | None) -> Zone:
        """Return the member that names the zone around this one."""
        if pool is None or not pool.parent:
            return {}
        node = self._node_of.get(pool.parent)
        return {"parent": pool.parent if node is None else _node_name(node)}


def _devices_of(policy: Policy, held: Allocations) -> Mapping[int, tuple[_Amounts, ...]]:
    """Return the devices of the inventory by NUMA node; those whose node is unknown count in no zone."""
    taken = HeldHardware(policy.known, (device for grant in held.grants for device in grant.devices))
    by_node = gathered((each.node, each) for each in listed_devices(policy.devices) if each.node is not None)
    found = {}
    for node, devices in by_node.items():
        by_kind = gathered((each.part.kind, each) for each in devices)
        found[node] = tuple(
            _Amounts(
                f"{OWN_DOMAIN}/{kind}",
                len(listed),
                sum(each.is_healthy for each in listed),
                sum(each.is_healthy and not taken.overlap(each.part) for each in listed),
            )
            for kind, listed in sorted(by_kind.items())
        )
    return found


def _attributes(values: Mapping[str, str]) -> Plain:
    return [{"name": name, "value": value} for name, value in values.items()]


def _node_name(node: int) -> str:
    return f"node-{node}"


def _cpus(mcpu: int) -> str:
    """Return CPUs as a quantity.

    >>> _cpus(3000), _cpus(2500)
    ('3', '2500m')
    """
    return f"{mcpu}m" if mcpu % 1000 else str(mcpu // 1000)
