"""The result of a scenario step as values: each container's CPUs, what moved, refusals; with its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cri_proxy.codec import encode
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine


@dataclass(frozen=True, slots=True)
class Hold:
    """What a container *moves* by: its pool, CPUs of its own or memory nodes (None: not pinned) are others.

    A set of shared CPUs that shrinks because another container owns some now is no move.
    """

    pool: str
    owned: CpuSet
    mems: NodeSet | None


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container after a step.

    ``cpus`` and ``mems`` are what the runtime has recorded (empty: nothing). ``cpus`` is made of ``exclusive``,
    ``isolated``, ``reserved`` and ``shared``. A container that has ended holds nothing, whatever is recorded.
    ``kernel_cpus`` and ``kernel_mems`` are what the kernel lets it use, which may differ from the record.
    ``resource_files`` is the host directory of its ``/.cri-proxy``, None without one. ``cpu_quota`` 0 = no limit.
    ``overcommitted``: it shares with no CPU time booked for what it asks for. ``pod_cpus``: its CPUs are its pod's,
    shared by the pod's containers. ``devices`` are as ``device_words`` names them.
    """

    id: str
    state: str
    cpus: CpuSet = CpuSet()
    mems: NodeSet = NodeSet()
    exclusive: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    shared: CpuSet = CpuSet()
    reserved: CpuSet = CpuSet()
    shared_mcpu: int = 0
    pool: str = ""
    kind: str = ""
    kernel_cpus: CpuSet = CpuSet()
    kernel_mems: NodeSet = NodeSet()
    cpu_shares: int = 0
    cpu_quota: int = 0
    resource_files: Path | None = None
    overcommitted: bool = False
    pod_cpus: bool = False
    devices: tuple[str, ...] = ()

    @property
    def owned(self) -> CpuSet:
        """All CPUs that it owns alone."""
        return self.exclusive | self.isolated

    @property
    def hold(self) -> Hold:
        """What it moves by."""
        return Hold(self.pool, self.owned, self.mems)

    @property
    def is_live(self) -> bool:
        """Created or running."""
        return self.state in {"created", "running"}

    def json_value(self) -> dict[str, object]:
        """Return the value of ``simulate -o json`` (docs/reference/scenarios.md, Answers)."""
        names = ("cpus", "mems", "exclusive", "isolated", "shared", "shared_mcpu", "reserved", "pool", "state")
        value: dict[str, object] = {name: encode(getattr(self, name)) for name in names}
        value |= {"overcommitted": True} if self.overcommitted else {}
        value |= {"pod_cpus": True} if self.pod_cpus else {}
        return value | {"devices": list(self.devices)} if self.devices else value


def nodes_of(machine: Machine, cpus: CpuSet) -> NodeSet:
    """Return the NUMA nodes of these CPUs; a container whose own CPUs have several *spans* them.

    >>> from sysfs.descriptions.machine import describe
    >>> str(nodes_of(describe({"packages": 2, "cores": 2}), CpuSet.parse("1-2")))
    '0-1'
    """
    return NodeSet.of(node.id for node in machine.nodes if not node.cpus.isdisjoint(cpus))


@dataclass(frozen=True, slots=True)
class MovedContainer:
    """A container that moved in a step that does not name it: its state before and after."""

    container: str
    before: ContainerState
    after: ContainerState

    @property
    def is_move(self) -> bool:
        """Whether it went elsewhere, and not only its shared CPUs are others."""
        return self.before.hold != self.after.hold


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of a step; ``problems`` are its refusals, one sentence each.

    ``containers`` are all that exist, ``updated`` those that the step does not name and that are on other CPUs or
    memory nodes now. ``named`` are the containers that the step names, ``reasons`` why they are where they are.
    ``refused`` has a sentence for each refused container. ``update_calls`` counts the UpdateContainerResources that the
    runtime got, ``notices`` the ``notify-exec`` commands that were run.
    """

    index: int
    step: object
    problems: tuple[str, ...]
    containers: Mapping[str, ContainerState]
    updated: tuple[MovedContainer, ...] = ()
    named: tuple[str, ...] = ()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_expectation: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    update_calls: int = 0
    notices: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything was done, or every expectation is met."""
        return not self.problems

    @property
    def error(self) -> str:
        """All problems in one text; '' when ``ok``."""
        return "; ".join(self.problems)

    def json_value(self) -> dict[str, object]:
        """Return the value of ``simulate -o json`` (docs/reference/scenarios.md, Answers)."""
        return {
            "index": self.index,
            "step": self.step,
            "ok": self.ok,
            "error": self.error,
            "updated": [moved.container for moved in self.updated],
            "containers": {name: seen.json_value() for name, seen in self.containers.items()},
        }


NO_STEP = StepOutcome(0, None, (), {})
"""Before the first step."""


def moved_between(
    before: Mapping[str, ContainerState], after: Mapping[str, ContainerState], named: tuple[str, ...]
) -> tuple[MovedContainer, ...]:
    """Return the containers that ran through a step that does not name them and have other sets now."""
    return tuple(
        MovedContainer(name, old, new)
        for name, new in after.items()
        if (old := before.get(name)) is not new  # most are the very same
        and old is not None
        and name not in named
        and old.is_live
        and new.is_live
        and old.id == new.id
        and (old.cpus, old.mems) != (new.cpus, new.mems)
    )
