"""Frozen values of the answers about decisions: explain, and the plan of a configuration."""

from dataclasses import dataclass, field

from cri_proxy.codec import FLAT
from cri_proxy.node.status.model import ContainerView
from cri_proxy.state.decisions import DecisionRecord, PinningChange
from policies.answers import Condition
from policies.container_name import ContainerName
from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class PlanView:
    """The effect of a configuration if it were applied now. ``problem``: why it would be rejected ('' = applied).

    ``needs_restart`` are options whose new value takes effect at a restart, ``moves`` the containers that would be
    updated. ``is_kept`` as in ``ConfigurationView``.
    """

    problem: str
    needs_restart: tuple[str, ...] = ()
    moves: tuple[PinningChange, ...] = ()
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of the ranking's keys: what its value means, and why a pool with a smaller one loses."""

    name: str
    meaning: str
    worse: str


@dataclass(frozen=True, slots=True)
class PoolHolderView(ContainerName):
    """A container with CPUs of a pool: those that it owns, and the shared CPU time that is booked for it there."""

    cpus: CpuSet
    shared_mcpu: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a container is where it is, or was refused: the record of its decision, beside what it holds now.

    In JSON the keys of ``decision`` stand beside the others. ``container`` is None when it holds nothing now.
    ``differences`` between what was decided and what it holds are sentences. ``without_effect`` are annotations that
    are known and change nothing. ``fields`` explain the keys of the ranking. ``moved`` names the containers of
    ``decision.moves``. ``not_exclusive`` is what keeps it from CPUs of its own, ``not_guaranteed_by`` the containers of
    its pod that the QoS class is due to, a sentence each. ``holders`` are others in ``wanted_pool``, the pool that it
    would be in if there were room. ``helps`` are changes that would give it a place, found by dry decisions.
    ``workload`` and ``workload_kind`` are as of a container. In an answer about more than 25 containers there is no
    ranking, no history and nothing about other containers; ``decision`` has its first reason alone.
    """

    decision: DecisionRecord = field(metadata=FLAT)
    container: ContainerView | None = None
    differences: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()
    fields: tuple[FieldView, ...] = ()
    moved: tuple[str, ...] = ()
    not_exclusive: tuple[Condition, ...] = ()
    not_guaranteed_by: tuple[str, ...] = ()
    wanted_pool: str = ""
    holders: tuple[PoolHolderView, ...] = ()
    helps: tuple[str, ...] = ()
    workload: str = ""
    workload_kind: str = ""


@dataclass(frozen=True, slots=True)
class ExplainView:
    """The last decision of each container that was asked about, by namespace, pod and container name.

    ``read_as`` is how the words were read, where they mean more than one whole name. ``candidates`` are the nearest
    names, best first, where they mean none.
    """

    decisions: tuple[Explanation, ...] = ()
    read_as: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventView(ContainerName):
    """An event of a container, or without names to the node: ``what`` is a code, ``text`` a sentence.

    ``count`` is how often it happened in succession, ``last_at_seconds`` when last (None = once).
    """

    at_seconds: float  # since the epoch
    what: str
    text: str
    count: int = 1
    last_at_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The events since a moment, oldest first. Those of ended containers are known from ``started_at_seconds`` on."""

    events: tuple[EventView, ...]
    started_at_seconds: float  # since the epoch: when the daemon started
