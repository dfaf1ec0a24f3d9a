"""Scenarios as values: a machine, a configuration, and the steps that pods and operators take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from policies.base import Labels, QosClass

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


@dataclass(frozen=True, slots=True)
class NewContainer:
    """A container of a create step; ``devices`` are PCI addresses of the machine that it is given."""

    name: str
    amounts: Amounts
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """Make a pod with containers, or more containers of a pod that exists.

    ``namespace`` None: the pod's, or ``default``. ``qos`` None: what follows from the containers, or the pod's.
    """

    pod: str
    namespace: str | None
    qos: QosClass | None
    annotations: Labels
    labels: Labels
    containers: tuple[NewContainer, ...]


@dataclass(frozen=True, slots=True)
class OnContainer:
    """Something that happens to one container, named ``pod/container`` or ``namespace/pod/container``."""

    what: Literal["stop", "exit", "restart-container"]
    container: str


@dataclass(frozen=True, slots=True)
class Update:
    """The kubelet resizes a container in place."""

    container: str
    amounts: Amounts


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
    """The proxy, the runtime, or both end and come back. Containers live on."""

    what: Literal["proxy", "runtime", "both"]


@dataclass(frozen=True, slots=True)
class Expect:
    """Expressions that must be true now."""

    expressions: tuple[str, ...]


Action = Create | OnContainer | Update | Delete | Reconfigure | Restart | Expect


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
