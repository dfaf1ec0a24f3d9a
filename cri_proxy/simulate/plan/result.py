"""The result of a plan as values: who was placed where, who was refused and why, what is left; with its JSON form."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cri_proxy.codec import encode
from cri_proxy.simulate.nodes import MovedInFleet
from cri_proxy.simulate.outcome import ContainerState
from policies.answers import LargestFit
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.show.cpu_map import CpuMap


@dataclass(frozen=True, slots=True)
class PlacedContainer:
    """A container that was placed.

    ``nodes`` and ``packages`` are those of its own CPUs, of one without any those of the CPUs that it shares.
    ``far`` are memory nodes with CPUs of their own that none of its CPUs belongs to.
    """

    name: str
    workload: str
    state: ContainerState
    nodes: NodeSet
    packages: tuple[int, ...]
    far: NodeSet

    @property
    def place(self) -> str:
        """Where it is, in a few words."""
        packages = ",".join(map(str, self.packages))
        return f"CPUs {self.state.owned or self.state.cpus}, node {self.nodes}, package {packages}"

    @property
    def owns_cpus(self) -> bool:
        """Whether CPUs are its own: that these span nodes is a fault, that shared ones do is not."""
        return bool(self.state.owned)

    def json_value(self) -> dict[str, object]:
        """Return what ``simulate -o json`` says of it."""
        value = {"workload": self.workload, **self.state.json_value()}
        return value | {"nodes": str(self.nodes), "packages": list(self.packages), "far_memory": str(self.far)}


@dataclass(frozen=True, slots=True)
class PlanRefusal:
    """A container that was refused on its node, or (``container`` and ``node`` '') a pod that no node is chosen for."""

    workload: str
    pod: str
    container: str
    node: str
    reason: str

    @property
    def name(self) -> str:
        """The pod, with the container where only that was refused."""
        return f"{self.pod}/{self.container}" if self.container else self.pod


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node after all pods have arrived. ``moves`` counts containers that were moved to make room for others.

    ``requested_mcpu`` is what its pods request, of ``allocatable_mcpu``. ``pods`` counts those bound to it. Of a
    captured node ``standing`` are the CPUs of containers that were there and own some, ``moved`` are those that were
    there and hold something else now.
    """

    name: str
    containers: tuple[PlacedContainer, ...]
    pods: int
    moves: int
    requested_mcpu: int
    allocatable_mcpu: int
    fit: LargestFit | None
    map: CpuMap
    standing: Mapping[str, CpuSet] = field(default_factory=dict)
    moved: tuple[MovedInFleet, ...] = ()

    @property
    def all_moves(self) -> int:
        """How many containers made room, those that were there before among them."""
        return self.moves + len(self.moved)

    def json_value(self) -> dict[str, object]:
        """Return what ``simulate -o json`` says of it."""
        return {
            "name": self.name,
            "pods": self.pods,
            "moves": self.all_moves,
            "requested_mcpu": self.requested_mcpu,
            "allocatable_mcpu": self.allocatable_mcpu,
            "largest_fit": encode(self.fit) if self.fit is not None else None,
            "containers": {container.name: container.json_value() for container in self.containers},
            "standing": {name: str(cpus) for name, cpus in self.standing.items()},
            "moved": [encode(each) for each in self.moved],
        }


@dataclass(frozen=True, slots=True)
class PlanResult:
    """One plan: all pods on all nodes, in one order of arrival.

    ``title`` tells it from the one beside it. ``machine`` and ``order`` are sentences. ``pods`` is how many arrived.
    ``worst_of`` are the refused pods of each order that was tried, this one's among them.
    """

    title: str
    machine: str
    order: str
    pods: int
    nodes: tuple[PlannedNode, ...]
    refused: tuple[PlanRefusal, ...]
    notes: tuple[str, ...] = ()
    worst_of: tuple[int, ...] = ()

    def containers(self) -> Iterator[tuple[PlannedNode, PlacedContainer]]:
        """Yield every placed container with its node."""
        return ((node, container) for node in self.nodes for container in node.containers)

    @property
    def refused_pods(self) -> int:
        """How many pods lack a node, or a container of theirs was refused."""
        return len({refusal.pod for refusal in self.refused})

    @property
    def moves(self) -> int:
        """How many times a container was moved to make room."""
        return sum(node.all_moves for node in self.nodes)

    @property
    def spans(self) -> dict[str, int]:
        """How many containers own CPUs of several NUMA nodes, and of several packages."""
        owners = [container for _, container in self.containers() if container.owns_cpus]
        return {
            "nodes": sum(len(container.nodes) > 1 for container in owners),
            "packages": sum(len(container.packages) > 1 for container in owners),
        }

    @property
    def far_memory(self) -> int:
        """How many containers with CPUs of their own may allocate from a node of other CPUs."""
        return sum(bool(container.far) and container.owns_cpus for _, container in self.containers())

    @property
    def badness(self) -> tuple[int, ...]:
        """The figures by which orders are compared: refusals, then spans of packages and nodes, far memory, moves."""
        spans = self.spans
        return self.refused_pods, spans["packages"], spans["nodes"], self.far_memory, self.moves

    @property
    def largest_fit(self) -> int:
        """The CPUs of the largest container that could own its CPUs on some node, if sharers may move."""
        return max((node.fit.cpus_with_moves for node in self.nodes if node.fit is not None), default=0)

    def with_notes(self, notes: tuple[str, ...]) -> "PlanResult":
        """Return the plan with these notes before its own."""
        return replace(self, notes=(*notes, *self.notes))

    def json_value(self) -> dict[str, object]:
        """Return the value of ``simulate -o json`` of manifests (docs/reference/planning.md, Answers)."""
        value: dict[str, object] = {
            "title": self.title,
            "machine": self.machine,
            "order": self.order,
            "pods": self.pods,
            "placed": self.pods - self.refused_pods,
            "refused": [encode(refusal) for refusal in self.refused],
            "spans": self.spans,
            "far_memory": self.far_memory,
            "moves": self.moves,
            "nodes": [node.json_value() for node in self.nodes],
            "notes": list(self.notes),
        }
        return value | ({"refused_by_order": list(self.worst_of)} if self.worst_of else {})
