"""Offer the node sets whose free CPUs reach a request, as the kubelet's static CPU manager does.

Source: Kubernetes 1.36, KEP-693 (hints) and KEP-3327 (align-by-socket).
"""

from dataclasses import dataclass

from policies.hints.model import Amount, Hint, Offers
from policies.hints.node_sets import MAX_LISTED_NODES, enough, fewest_nodes, hints_of, listed_nodes
from sysfs.model import Machine

RESOURCE = "cpu"


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs of each node, ascending by node, and the nodes of each socket; all sets are masks.

    A node without CPUs is listed with 0: devices and memory may be on it.
    """

    cpus: tuple[tuple[int, int], ...]
    sockets: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """The mask of all nodes."""
        return sum(1 << node for node, _ in self.cpus)

    @property
    def counted_nodes(self) -> int:
        """The mask of the nodes that hints are made of: all, but of more than can be listed those with CPUs.

        Where GPUs bring nodes of their own a machine has 34, two of them with CPUs. Source: restrict-to-cpu-numa-nodes,
        an option that is proposed for the kubelet (kubernetes#138172).
        """
        return self.nodes if len(self.cpus) <= MAX_LISTED_NODES else sum(1 << node for node in self.cpu_nodes)

    @property
    def cpu_nodes(self) -> tuple[int, ...]:
        """The nodes that have CPUs: the CPU manager knows no others."""
        return tuple(node for node, cpus in self.cpus if cpus)

    @property
    def cpu_sockets(self) -> tuple[int, ...]:
        """The sockets that have CPUs, each as the mask of its nodes that have CPUs."""
        with_cpus = sum(1 << node for node in self.cpu_nodes)
        return tuple(nodes & with_cpus for nodes in self.sockets if nodes & with_cpus)


def topology_of(machine: Machine) -> Topology:
    """Return the nodes and sockets of a machine, with its online CPUs.

    >>> from sysfs.descriptions.machine import describe
    >>> topology_of(describe({"packages": 2, "nodes": 2, "cores": 1, "threads": 2}))
    Topology(cpus=((0, 3), (1, 12), (2, 48), (3, 192)), sockets=(3, 12))
    """
    nodes = tuple((node.id, node.cpus.mask) for node in machine.nodes)
    packages = (package.cpus.mask for package in machine.packages)
    sockets = tuple(sum(1 << node for node, cpus in nodes if cpus & package) for package in packages)
    return Topology(nodes, sockets)


@dataclass(frozen=True, slots=True)
class CpuProvider:
    """Offers the node sets for a number of whole CPUs; sets of CPUs are masks.

    ``request`` is 0 where the CPU manager has nothing to assign. ``free`` are the CPUs that may be assigned,
    ``reusable`` the ones that init containers of the pod had. ``allocated`` is what the container holds already; None:
    it is new.
    """

    topology: Topology
    request: int
    free: int
    reusable: int = 0
    allocated: int | None = None
    is_socket_aligned: bool = False

    def offers(self) -> Offers:
        """Return the hints for ``cpu``; None without a request."""
        if self.request == 0:
            return None
        if self.allocated is None:
            return {RESOURCE: self._hints(self.free | self.reusable, self.reusable)}
        if self.allocated.bit_count() != self.request:
            return {RESOURCE: ()}  # the request has changed: the CPUs that it holds cannot serve it
        return {RESOURCE: self._hints(self.allocated, 0)}

    def _hints(self, usable: int, reusable: int) -> tuple[Hint, ...]:
        topology = self.topology
        nodes = listed_nodes(sum(1 << node for node in topology.cpu_nodes))
        # What init containers had is used first: a set without the node of such a CPU is not offered.
        required = sum(1 << node for node, cpus in topology.cpus if cpus & reusable)
        capacity = [cpus.bit_count() for _, cpus in topology.cpus if cpus]
        free = [(cpus & usable).bit_count() for _, cpus in topology.cpus if cpus]
        size = fewest_nodes(len(nodes), [Amount(capacity, self.request)])
        hints = hints_of(nodes, enough(len(nodes), [Amount(free, self.request)]), size)
        if required:
            hints = tuple(hint for hint in hints if not required & ~(hint.nodes or 0))
        wanted = self._preferred_sockets(size)
        return tuple(self._flagged(hint, wanted) for hint in hints) if wanted else hints

    def _flagged(self, hint: Hint, wanted: int) -> Hint:
        """Return the hint, preferred also where it touches so many sockets."""
        touched = sum(1 for nodes in self.topology.cpu_sockets if nodes & (hint.nodes or 0))
        return Hint(hint.nodes, hint.preferred or touched == wanted)

    def _preferred_sockets(self, size: int) -> int:
        """Return how many sockets a preferred set of nodes touches; 0 where sockets do not count."""
        sockets, nodes = len(self.topology.cpu_sockets), len(self.topology.cpu_nodes)
        if not self.is_socket_aligned or not sockets or nodes < sockets:
            return 0
        return -(-size // (nodes // sockets))
