"""Scenarios as frozen values: a machine, a configuration, and one dataclass for each kind of step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cri_proxy.cri_client.pods import ContainerRole, PodAmounts
from cri_proxy.simulate.scenario.amounts import Amounts
from policies.base import Labels, QosClass
from policies.devices import EMPTY_INVENTORY, DeviceInventory
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.documents.forms import TRUTH, matching, one_of, scalar
from sysfs.documents.table import Form, keyed
from sysfs.model import Machine

Part = Literal["proxy", "runtime", "both"]
PART: Form[Part] = scalar(one_of(("proxy", "runtime", "both")))
_NO_PART = "what is missing; give proxy, runtime or both"
container_name = matching("[^/]+(/[^/]+){1,2}", "pod/container or namespace/pod/container")
CONTAINER_NAME = scalar(container_name)
NO_CONTAINER = "container is missing; name it as pod/container"


def some_cpus(text: str) -> CpuSet:
    """Return the CPUs of a list that has one or more. Raises ValueError."""
    if not (cpus := CpuSet.parse(text)):
        raise ValueError("expected CPUs like 0-3,8, got nothing")
    return cpus


@dataclass(frozen=True, slots=True)
class Attachment:
    """A device or mount of a container.

    ``path`` is the host's ('' = a CDI device), ``address`` the PCI device of the machine behind it ('' = none).
    """

    path: str = ""
    address: str = ""
    container_path: str = ""
    is_mount: bool = False
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class NewContainer:
    """A container of a create step, with its devices and mounts.

    ``cpuset_cpus`` are CPUs that the kubelet sends, as with its own CPU manager; empty = none.
    """

    name: str
    amounts: Amounts
    attachments: tuple[Attachment, ...] = ()
    role: ContainerRole = ContainerRole.REGULAR
    cpuset_cpus: CpuSet = CpuSet()


@dataclass(frozen=True, slots=True)
class Create:
    """Create a pod with containers, or more containers of a pod that exists.

    ``namespace`` None: the pod's, or ``default``. ``qos`` None: what follows from the containers, or the pod's.
    ``is_static``: its manifest is a file of the node, so it has the same uid whenever it is created. ``amounts`` are
    the resources of the pod as a whole, from which its QoS class follows. ``count`` above 1: so many pods like it, each
    a step of its own, ``web-0`` and on.
    """

    pod: str
    namespace: str | None = None
    qos: QosClass | None = None
    annotations: Labels = ()
    labels: Labels = ()
    containers: tuple[NewContainer, ...] = ()
    is_static: bool = False
    amounts: PodAmounts = field(default_factory=PodAmounts)
    count: int = 1


@dataclass(frozen=True, slots=True)
class OnContainer:
    """Stop, end or restart one container, named ``pod/container`` or ``namespace/pod/container``."""

    what: Literal["stop", "exit", "restart-container"]
    container: str


@dataclass(frozen=True, slots=True)
class Resize:
    """Resize a container in place, or send a set as the kubelet's own CPU manager does."""

    container: str
    amounts: Amounts
    cpuset_cpus: CpuSet = CpuSet()


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a pod, named ``pod`` or ``namespace/pod``."""

    pod: str


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Change these options of the configuration; all others stay."""

    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart the proxy, the runtime, or both. Containers keep running.

    ``loses_state``: what the proxy had saved is lost.
    """

    what: Part = keyed(PART, "proxy, runtime or both", missing=_NO_PART)
    loses_state: bool = keyed(TRUTH, "without the state that was saved", False)

    def __post_init__(self) -> None:
        """Refuse what has no state. Raises ValueError."""
        if self.loses_state and self.what == "runtime":
            raise ValueError("the runtime has no state of the proxy to lose; give proxy or both")


@dataclass(frozen=True, slots=True)
class ResetNode:
    """Run ``cri-proxy reset``: the proxy ends, every container is widened, calls go to the runtime directly."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Let time pass, in which only the proxy's own timers act."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CpuHotplug:
    """Take CPUs offline, or bring them online."""

    what: Literal["offline", "online"]
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Tamper:
    """Rewrite a container's cgroup without the runtime; None leaves that file as it is."""

    container: str = keyed(CONTAINER_NAME, "which one", missing=NO_CONTAINER)
    cpus: CpuSet | None = keyed(scalar(some_cpus), "what is written as its CPUs", None)
    mems: NodeSet | None = keyed(scalar(NodeSet.parse), "what is written as its memory nodes", None)

    def __post_init__(self) -> None:
        """Refuse to write nothing. Raises ValueError."""
        if self.cpus is None and self.mems is None:
            raise ValueError("nothing is written; give cpus, mems, or both")


@dataclass(frozen=True, slots=True)
class CostText:
    """A listing of costs as text; ``source`` is its file, or the scenario's with the ``line`` on which it begins."""

    source: str
    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class ChangeCosts:
    """Let these costs take the place of those before, as when the node's cost files change."""

    costs: CostText


@dataclass(frozen=True, slots=True)
class ChangeInventory:
    """Let this inventory take the place of that before, as when the node's file changes."""

    listed: DeviceInventory


@dataclass(frozen=True, slots=True)
class Expect:
    """Check that these expressions are true."""

    expressions: tuple[str, ...]


OnPods = Create | OnContainer | Resize | Delete
OnNode = Reconfigure | Restart | ResetNode | Advance | CpuHotplug | Tamper | ChangeCosts | ChangeInventory
Action = OnPods | OnNode | Expect


@dataclass(frozen=True, slots=True)
class Step:
    """One step; ``written`` is the step as in the file, ``line`` its line."""

    action: Action
    written: object
    line: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One document. ``source`` names the file, ``about`` says in a sentence what it shows ('' = not given).

    ``machine`` is as written, or one that is loaded.
    """

    source: str
    line: int
    machine: Machine | str | Mapping[str, object]
    config: Mapping[str, object]
    steps: tuple[Step, ...]
    about: str = ""
    costs: CostText | None = None
    listed: DeviceInventory = EMPTY_INVENTORY
