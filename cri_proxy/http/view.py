"""What the daemon lets others see: frozen values, filled by the node, shown by HTTP and the commands alike."""

from dataclasses import dataclass
from typing import Protocol

from cri_proxy.config.model import Config
from policies.base import PoolView, Ranked, Reason, Request
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine


@dataclass(frozen=True, slots=True)
class Health:
    """``is_alive``: the process works. ``is_ready``: decisions are made. ``problems`` say what is degraded."""

    is_alive: bool
    is_ready: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container with what it holds. ``kind`` is a ``CpuKind`` value, ``state`` a ``RowState``.

    ``cpus`` and ``mems`` are what it is pinned to now, None where that is not ours to write. ``pool`` is '' for
    kinds that have none. ``notes`` are sentences: unplaced, an update that waits, who can reach its CPUs.
    """

    namespace: str
    pod: str
    name: str
    pod_uid: str
    container_id: str
    qos: str
    state: str
    kind: str
    pool: str
    cpus: CpuSet | None
    mems: NodeSet | None
    exclusive: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    shared_mcpu: int = 0
    reserved_mcpu: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusView:
    """The node at one moment: ``pools`` parents before children, ``containers`` by namespace, pod and name."""

    node: str
    policy: str
    is_ready: bool
    pools: tuple[PoolView, ...]
    containers: tuple[ContainerView, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DisplacedView:
    """Another container whose pinning changed by a decision, and to what."""

    namespace: str
    pod: str
    name: str
    cpus: CpuSet | None
    mems: NodeSet | None


@dataclass(frozen=True, slots=True)
class DecisionView:
    """Why a container sits where it sits, or was refused.

    ``outcome``: placed, refused, or restored (kept from the saved state: no ranking was made in this process).
    ``decided_at_seconds`` is since the epoch, None when it was restored. ``container`` is what it holds now, None
    when it holds nothing. ``displaced`` are containers whose pinning changed, ``moved`` names those among the
    others that were lifted to a wider pool (namespace/pod/container). ``problems`` are annotations that could not
    be read.
    """

    request: Request
    outcome: str
    container: ContainerView | None
    decided_at_seconds: float | None
    duration_seconds: float
    reasons: tuple[Reason, ...] = ()
    ranking: tuple[Ranked, ...] = ()
    displaced: tuple[DisplacedView, ...] = ()
    moved: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainView:
    """The last decision of each container that was asked about, by namespace, pod and container name."""

    decisions: tuple[DecisionView, ...] = ()


class DaemonView(Protocol):
    """Read-only and quick: called on the event loop, for every request."""

    def health(self) -> Health:
        """Whether it lives and decides."""

    def status(self) -> StatusView:
        """Pools and containers now."""

    def explain(self, pod: str, container: str | None) -> ExplainView:
        """Decisions of the pods of this name or uid, in any namespace; of one container when it is named."""

    def topology(self) -> Machine:
        """The machine as discovered."""

    def config(self) -> Config:
        """The configuration in force."""
