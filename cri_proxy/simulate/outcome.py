"""What a step did: every container as the runtime has it now, who was moved, and what was said no to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sysfs.cpuset import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container after a step.

    ``cpus`` and ``mems`` are what the runtime has recorded (empty: nothing). ``cpus`` is made of ``exclusive``,
    ``isolated``, ``reserved`` and ``shared``. A container that has ended holds nothing, whatever is on record.
    ``kernel_cpus`` and ``kernel_mems`` are what the kernel lets it use, which the runtime need not know.
    ``told`` are the variables of its ``resources.sh``; empty when it is not told. ``cpu_quota`` 0 = no limit.
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
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Created or running."""
        return self.state in {"created", "running"}

    def json_value(self) -> dict[str, object]:
        """The value of ``simulate -o json`` (design section 5.2)."""
        return {
            "cpus": str(self.cpus),
            "mems": str(self.mems),
            "exclusive": str(self.exclusive),
            "isolated": str(self.isolated),
            "shared": str(self.shared),
            "shared_mcpu": self.shared_mcpu,
            "reserved": str(self.reserved),
            "pool": self.pool,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True)
class MovedContainer:
    """A container that another one's step moved: its sets before and after."""

    container: str
    before: ContainerState
    after: ContainerState


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What came of a step: ``problems`` are what was said no to, one sentence each.

    ``containers`` are all that exist, ``updated`` those that the step did not name and that are on other CPUs or
    memory nodes now. ``named`` are the containers that the step is about, ``reasons`` why they are where they are.
    ``refused`` has a sentence for each container that was said no to, ``codes`` the codes of the reasons of every
    container's last decision, ``update_calls`` counts the UpdateContainerResources that the runtime got,
    ``notices`` the commands that containers were told by.
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
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    update_calls: int = 0
    notices: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything that the step asked for was done, or is true."""
        return not self.problems

    @property
    def error(self) -> str:
        """All problems in one text; '' when ``ok``."""
        return "; ".join(self.problems)

    def json_value(self) -> dict[str, object]:
        """The value of ``simulate -o json`` (design section 5.2)."""
        return {
            "index": self.index,
            "step": self.step,
            "ok": self.ok,
            "error": self.error,
            "updated": [moved.container for moved in self.updated],
            "containers": {name: seen.json_value() for name, seen in self.containers.items()},
        }


def moved_between(
    before: Mapping[str, ContainerState], after: Mapping[str, ContainerState], named: tuple[str, ...]
) -> tuple[MovedContainer, ...]:
    """The containers that lived through a step that does not name them, and came out on other sets."""
    return tuple(
        MovedContainer(name, old, new)
        for name, new in after.items()
        if name not in named
        and (old := before.get(name)) is not None
        and old.is_live
        and new.is_live
        and old.id == new.id
        and (old.cpus, old.mems) != (new.cpus, new.mems)
    )
