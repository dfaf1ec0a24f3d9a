"""What the embedded runtime holds: pods, containers, images, and the refusals in containerd's words."""

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CriProxyError
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

# gRPC status numbers, as far as containerd answers them
UNKNOWN = 2
INVALID_ARGUMENT = 3
NOT_FOUND = 5
UNIMPLEMENTED = 12
INTERNAL = 13

DEFAULT_IMAGE = "localhost/app:1"
_T = TypeVar("_T")


@dataclass(eq=False)
class Refusal(CriProxyError):
    """A call that is answered with a status other than OK; the words are containerd's, as recorded from it."""

    code: int
    message: str

    def __str__(self) -> str:
        return self.message

    def within(self, words: str) -> "Refusal":
        """The same, with the words that a caller puts in front."""
        return Refusal(self.code, f"{words}: {self.message}")


@dataclass(slots=True)
class Sandbox:
    """A pod. ``state`` and times as CRI has them."""

    id: str
    config: pb.PodSandboxConfig
    name: str
    runtime_handler: str
    created_at_ns: int
    state: pb.PodSandboxState = pb.SANDBOX_READY

    @property
    def ready(self) -> bool:
        """Whether containers can run in it."""
        return self.state == pb.SANDBOX_READY


@dataclass(slots=True)
class Container:
    """A container. ``record`` is what the runtime remembers of its resources, ``kernel`` what the cgroup enforces.

    They differ after an update that arrived while the container's own start was in flight: runc accepts it and
    answers success, and the kernel keeps the old set.
    """

    id: str
    sandbox_id: str
    config: pb.ContainerConfig
    name: str
    image: "Image"
    created_at_ns: int
    record: pb.LinuxContainerResources
    kernel_cpus: str = ""
    kernel_mems: str = ""
    state: pb.ContainerState = pb.CONTAINER_CREATED
    starting: bool = False
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    pid: int = 0

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.state == pb.CONTAINER_RUNNING

    @property
    def state_name(self) -> str:
        """The state as CRI spells it, for messages."""
        return pb.ContainerState.Name(self.state)


@dataclass(frozen=True, slots=True)
class Image:
    """An image: ``reference`` is its full name with tag."""

    reference: str
    id: str
    digest: str
    size_bytes: int

    @classmethod
    def named(cls, reference: str) -> "Image":
        """An image of this name; id, digest and size follow from the name."""
        full = full_reference(reference)
        digest = hashlib.sha256(full.encode()).hexdigest()
        config = hashlib.sha256(digest.encode()).hexdigest()
        return cls(full, f"sha256:{config}", f"sha256:{digest}", 1_000_000 + int(digest[:5], 16))

    @property
    def repo_digest(self) -> str:
        """NAME@DIGEST, without the tag."""
        return f"{self.reference.rpartition(':')[0]}@{self.digest}"


def full_reference(reference: str) -> str:
    """The name with registry and tag, as image tools complete it.

    >>> full_reference("busybox")
    'docker.io/library/busybox:latest'
    """
    head, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif "." not in head and ":" not in head and head != "localhost":
        reference = f"docker.io/{reference}"
    last = reference.rpartition("/")[2]
    return reference if ":" in last or "@" in last else f"{reference}:latest"


Listener = Callable[[pb.ContainerEventType, str, str], None]  # event, container or sandbox id, sandbox id


@dataclass(slots=True)
class Node:
    """Everything on the simulated node. ``modern``: as for the runtime that holds it."""

    machine: Machine
    now_ns: Callable[[], int]
    modern: bool = True
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    on_event: Listener | None = None
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _pids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1000))

    def new_id(self) -> str:
        """64 hexadecimal digits, the same in every run."""
        return hashlib.sha256(f"embedded/{next(self._ids)}".encode()).hexdigest()

    def new_pid(self) -> int:
        """A process id that no other container has."""
        return next(self._pids)

    def emit(self, event: pb.ContainerEventType, container_id: str, sandbox_id: str) -> None:
        """Tell of a change; sandboxes have events too, under their own id."""
        if self.on_event is not None:
            self.on_event(event, container_id, sandbox_id)

    def sandbox(self, sandbox_id: str, words: str) -> Sandbox:
        """The pod of this id or unique prefix. Raises Refusal that starts with ``words``."""
        return _find(self.sandboxes, sandbox_id, words)

    def container(self, container_id: str, words: str) -> Container:
        """The container of this id or unique prefix. Raises Refusal that starts with ``words``."""
        return _find(self.containers, container_id, words)

    def image(self, reference: str) -> Image | None:
        """The image of this name, id or digest."""
        by_name = self.images.get(full_reference(reference)) if reference else None
        return by_name or next((i for i in self.images.values() if reference in (i.id, i.repo_digest)), None)

    def containers_of(self, sandbox_id: str) -> tuple[Container, ...]:
        """The containers of a pod, oldest first."""
        return tuple(c for c in self.containers.values() if c.sandbox_id == sandbox_id)

    def effective(self, container: Container) -> tuple[CpuSet, NodeSet]:
        """What the kernel lets it use (cgroup v2): a set that is empty or has no online member means the parent's."""
        cpus = _cpus(container.kernel_cpus) & self.machine.online
        mems = _mems(container.kernel_mems) & self.machine.memory_nodes
        return cpus or self.machine.online, mems or self.machine.memory_nodes


@lru_cache(maxsize=1024)
def _cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


@lru_cache(maxsize=256)
def _mems(text: str) -> NodeSet:
    return NodeSet.parse(text)


def _find(table: Mapping[str, _T], wanted: str, words: str) -> _T:
    """The entry of this id, or of an unambiguous prefix of one, as containerd takes them."""
    if wanted in table:
        return table[wanted]
    if not wanted:
        raise Refusal(UNKNOWN, f"{words}: Prefix can't be empty")
    matches = [key for key in table if key.startswith(wanted)]
    if len(matches) > 1:
        raise Refusal(UNKNOWN, f"{words}: Multiple IDs found with provided prefix: {wanted}")
    if not matches:
        raise Refusal(NOT_FOUND, f"{words}: not found")
    return table[matches[0]]


def matches_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether every label of the selector is there with its value."""
    return all(labels.get(key) == value for key, value in selector.items())
