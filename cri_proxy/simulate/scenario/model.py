"""Scenarios as values: a machine, a configuration, and the steps that pods and operators take."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from policies.base import Labels, QosClass
from sysfs.cpuset import CpuSet, NodeSet

# What a container of a Guaranteed pod is given when the scenario only speaks of CPUs.
DEFAULT_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a container asks for, as the scenario says it; None = not said.

    ``cpu_mcpu`` and ``memory_bytes`` are short for request and limit alike (request only in a Burstable pod).
    """

    cpu_mcpu: int | None = None
    cpu_request_mcpu: int | None = None
    cpu_limit_mcpu: int | None = None
    memory_bytes: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None

    @property
    def is_empty(self) -> bool:
        """True when nothing is asked for."""
        return self == Amounts()


class ContainerRole(StrEnum):
    """What a container is to its pod. The kubelet starts init containers and sidecars before the others."""

    REGULAR = "regular"
    INIT = "init"  # runs to its end before the next container is made
    SIDECAR = "sidecar"  # an init container whose restartPolicy is Always: it stays
    EPHEMERAL = "ephemeral"  # as of ``kubectl debug``: comes later, and may ask for nothing


@dataclass(frozen=True, slots=True)
class Attachment:
    """A device or mount that a container is given.

    ``path`` is the host's ('' = a CDI device), ``address`` the PCI device of the machine behind it ('' = none).
    """

    path: str = ""
    address: str = ""
    container_path: str = ""
    is_mount: bool = False
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class NewContainer:
    """A container of a create step, with the devices and mounts that it is given.

    ``cpuset_cpus`` are CPUs that it brings along, as from a kubelet whose own CPU manager is on; empty = none.
    """

    name: str
    amounts: Amounts
    attachments: tuple[Attachment, ...] = ()
    role: ContainerRole = ContainerRole.REGULAR
    cpuset_cpus: CpuSet = CpuSet()


@dataclass(frozen=True, slots=True)
class Create:
    """Make a pod with containers, or more containers of a pod that exists.

    ``namespace`` None: the pod's, or ``default``. ``qos`` None: what follows from the containers, or the pod's.
    ``is_static``: its manifest is a file of the node, so that it has the same uid whenever it is made.
    """

    pod: str
    namespace: str | None
    qos: QosClass | None
    annotations: Labels
    labels: Labels
    containers: tuple[NewContainer, ...]
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class OnContainer:
    """Something that happens to one container, named ``pod/container`` or ``namespace/pod/container``."""

    what: Literal["stop", "exit", "restart-container"]
    container: str


@dataclass(frozen=True, slots=True)
class Resize:
    """The kubelet resizes a container in place, or its own CPU manager sends a set."""

    container: str
    amounts: Amounts
    cpuset_cpus: CpuSet = CpuSet()


@dataclass(frozen=True, slots=True)
class Delete:
    """A pod is removed, named ``pod`` or ``namespace/pod``."""

    pod: str


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The operator changes these options; all others stay as they are."""

    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Restart:
    """The proxy, the runtime, or both end and come back. Containers live on.

    ``loses_state``: what the proxy had saved is gone.
    """

    what: Literal["proxy", "runtime", "both"]
    loses_state: bool = False


@dataclass(frozen=True, slots=True)
class ResetNode:
    """The operator uninstalls: the proxy ends, every container is widened, calls go straight to the runtime."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Nothing happens for so long but what the proxy does by itself."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CpuHotplug:
    """CPUs go offline, or come back online."""

    what: Literal["offline", "online"]
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Tamper:
    """Somebody else rewrites a container's cgroup behind the runtime's back; None leaves that file as it is."""

    container: str
    cpus: CpuSet | None = None
    mems: NodeSet | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """Expressions that must be true now."""

    expressions: tuple[str, ...]


OnPods = Create | OnContainer | Resize | Delete
OnNode = Reconfigure | Restart | ResetNode | Advance | CpuHotplug | Tamper
Action = OnPods | OnNode | Expect


@dataclass(frozen=True, slots=True)
class Step:
    """One step; ``written`` is it as the file has it, ``line`` where."""

    action: Action
    written: object
    line: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One document. ``source`` names the file, ``about`` says in a sentence what it shows ('' = nothing said)."""

    source: str
    line: int
    machine: str | Mapping[str, object]
    config: Mapping[str, object]
    steps: tuple[Step, ...]
    about: str = ""
