"""Frozen values of the answers about the node: status and health."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from cri_proxy.codec import FLAT
from cri_proxy.in_force.report import FilesReport
from cri_proxy.node.status.inventory import InventoryDeviceView, InventoryFileView
from policies.alignment import TopologyOptions
from policies.answers import LargestFit
from policies.base import PoolView
from policies.container_name import ContainerName
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.show.cpu_map import CpuMap


@dataclass(frozen=True, slots=True)
class HealthPart:
    """A part that must be healthy for the daemon to be ready: ``name`` of ``metrics.PARTS``, ``problem`` '' = healthy.

    ``is_vital``: only a restart of the daemon helps.
    """

    name: str
    problem: str = ""
    is_vital: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """``is_alive``: a restart would not help. ``is_ready``: decisions are made, nothing is degraded.

    ``problems`` are those of the unhealthy ``parts``, in their order.
    """

    is_alive: bool
    is_ready: bool
    problems: tuple[str, ...] = ()
    parts: tuple[HealthPart, ...] = ()

    @classmethod
    def of(cls, *parts: HealthPart) -> Self:
        """Combine these parts."""
        bad = [part for part in parts if part.problem]
        is_alive = not any(part.is_vital for part in bad)
        return cls(is_alive, not bad, tuple(part.problem for part in bad), parts)


class Unmet(StrEnum):
    """A request of a container that is not met."""

    OVERCOMMITTED = "overcommitted"  # no CPU time is booked for its request
    CPUS_WIDER = "cpus-wider"  # its own CPUs are on several NUMA nodes, any of which has as many
    MEMORY_WIDER = "memory-wider"  # it may use memory nodes beyond its pool's
    CONTESTED = "contested"  # others can run on its own CPUs
    ANNOTATION_IGNORED = "annotation-ignored"  # a value that could not be read


@dataclass(frozen=True, slots=True)
class ContainerView(ContainerName):
    """A container with what it holds. ``kind`` is a ``CpuKind`` value, ``state`` a ``RowState``.

    ``cpus`` and ``mems`` are what it should be pinned to now, None where cri-proxy does not write it;
    ``acknowledged_cpus`` and ``acknowledged_mems`` are what the runtime has confirmed last, None before it has.
    ``pool`` is '' for kinds that have none, ``home_mems`` are that pool's memory nodes and those that it may spill to.
    ``waits_for`` names the containers that are still on its CPUs, ``reachable_by`` those that can run on CPUs it owns
    and are not pinned by cri-proxy. ``notes`` are sentences: an update that waits or failed, an unknown outcome, and
    the above in words.
    ``warm_at_seconds``, since the epoch, is when its cold start ends. ``is_overcommitted``: it shares with no CPU time
    booked for what it asks for. ``shares_pod_cpus``: its CPUs are its pod's, shared by the pod's containers.
    ``claim`` is what decided its CPUs elsewhere, '' = nothing did. ``devices`` are all that it has, as
    ``device_words`` names them. ``workload`` is what made its pod, of ``workload_kind``. ``unmet`` has the codes of
    what is not as it asks (``containers.Unmet``).
    """

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
    acknowledged_cpus: CpuSet | None = None
    acknowledged_mems: NodeSet | None = None
    home_mems: NodeSet = NodeSet()
    memory_bytes: int = 0
    is_cold: bool = False
    warm_at_seconds: float | None = None
    waits_for: tuple[str, ...] = ()
    reachable_by: tuple[str, ...] = ()
    is_overcommitted: bool = False
    shares_pod_cpus: bool = False
    claim: str = ""
    devices: tuple[str, ...] = ()
    workload: str = ""
    workload_kind: str = ""
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HugePageView:
    """A NUMA node's huge pages of one size. ``page_size`` is as in Kubernetes; the promises as of the node's memory."""

    page_size: str
    capacity_bytes: int
    promised_bytes: int
    widely_promised_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryNodeView:
    """A NUMA node with memory. ``promised_bytes``: to containers that have no other node.

    Of ``widely_promised_bytes`` any part may come from this node, and any from others. ``memory_bytes`` is what it has
    outside ``huge_pages``.
    """

    node: int
    kind: str
    memory_bytes: int
    promised_bytes: int
    widely_promised_bytes: int
    containers: int
    huge_pages: tuple[HugePageView, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceHolderView:
    """A container, as ``namespace/pod/container``, and its devices of one type; containers of a pod may share them."""

    container: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceUseView:
    """The devices of one type, as ``TYPE/INSTANCE``: how many cost files list, and which of them are free.

    ``held`` is how many are held, those that cost files list no more (``unlisted``) among them.
    """

    kind: str
    present: int
    held: int
    free: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    holders: tuple[DeviceHolderView, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedView(ContainerName):
    """A container that was refused, or placed and not created, and why; ``workload`` is as of a container."""

    at_seconds: float  # since the epoch
    text: str
    workload: str = ""


@dataclass(frozen=True, slots=True)
class ReloadView:
    """The last reload of the configuration. ``outcome``: applied, unchanged or rejected.

    ``reason`` is why it was rejected. ``is_asked``: by SIGHUP, not because the file changed. ``digest`` is the SHA-256
    of the content that was taken or rejected, '' where it could not be read.
    """

    at_seconds: float  # since the epoch
    outcome: str
    reason: str
    file: str
    is_asked: bool
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationView:
    """The source of the active configuration: ``file`` is '' for the command line alone.

    ``digest`` is the SHA-256 of the file's content, ``since_seconds`` since the epoch. ``needs_restart`` are options
    whose new value takes effect at a restart. ``applied``, ``unchanged`` and ``rejected`` count reloads since the
    start. ``is_kept``: the file was invalid at the start, and the last valid configuration is active. ``overridden``
    are options that the command line sets, which override the file.
    """

    file: str
    group: str
    digest: str
    since_seconds: float
    needs_restart: tuple[str, ...] = ()
    applied: int = 0
    unchanged: int = 0
    rejected: int = 0
    last: ReloadView | None = None
    is_kept: bool = False
    overridden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostFilesView:
    """The cost files of ``directory``, which is '' where none are read.

    ``device_count`` devices are listed; those of ``silent`` say nothing about costs while others of their type do.
    """

    directory: str
    report: FilesReport = field(metadata=FLAT)
    device_count: int = 0
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiView:
    """How containers get the CDI devices granted to them. ``way`` is a ``CdiWay`` value, ``choice`` the option's.

    ``text`` is a sentence with the reason, ``problems`` are sentences about what should be mended.
    """

    way: str
    choice: str
    text: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusView:
    """The node at one moment: ``pools`` parents before children, ``containers`` by namespace, pod and name.

    ``violations`` are sentences: containers whose own CPUs another one still uses. ``refused`` are the newest
    of ``refused_count`` containers that were refused or not created in the last hour and hold nothing.
    ``topology`` is what the configuration says of topology hints; a pod's annotations may say otherwise for its
    containers.
    ``devices`` are those of cost files by type, ``inventory`` the others one by one. ``held_twice`` are sentences:
    devices that containers hold which should not stand beside each other. ``fits`` is what still fits, None where no
    container owns CPUs; ``map`` is where the CPUs are, whose owners are among the containers. ``version`` is the
    daemon's, '' of an older one.
    """

    node: str
    policy: str
    is_ready: bool
    pools: tuple[PoolView, ...]
    containers: tuple[ContainerView, ...]
    warnings: tuple[str, ...] = ()
    memory: tuple[MemoryNodeView, ...] = ()
    violations: tuple[str, ...] = ()
    refused: tuple[RefusedView, ...] = ()
    refused_count: int = 0
    configuration: ConfigurationView | None = None
    topology: TopologyOptions | None = None
    devices: tuple[DeviceUseView, ...] = ()
    costs: CostFilesView | None = None
    cdi: CdiView | None = None
    inventory_file: InventoryFileView | None = None
    inventory: tuple[InventoryDeviceView, ...] = ()
    held_twice: tuple[str, ...] = ()
    fits: LargestFit | None = None
    map: CpuMap | None = None
    version: str = ""
