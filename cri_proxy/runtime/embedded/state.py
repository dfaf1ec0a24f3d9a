"""State of the embedded runtime: pods, containers, images and their lookup, and its errors in containerd's words."""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CriProxyError
from cri_proxy.http2.status import Code
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

DEFAULT_IMAGE = "localhost/app:1"
_T = TypeVar("_T")


@dataclass(eq=False)
class RefusedCall(CriProxyError):
    """A call is answered with a status other than OK; the messages are recorded from containerd."""

    code: int
    message: str

    def __str__(self) -> str:
        return self.message


class UnknownId(RefusedCall):
    """No pod or container has this id."""


@dataclass(slots=True)
class Sandbox:
    """A pod."""

    id: str
    config: pb.PodSandboxConfig
    name: str
    runtime_handler: str
    created_at_ns: int
    state: pb.PodSandboxState = pb.SANDBOX_READY

    @property
    def ready(self) -> bool:
        """Whether containers can be created in it."""
        return self.state == pb.SANDBOX_READY


@dataclass(slots=True)
class Container:
    """A container. ``record`` holds the resources that the runtime reports, ``kernel_*`` what the cgroup enforces.

    They differ after an update during the container's start: runc reports success, and the kernel keeps the old set.
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
        """Whether the process runs."""
        return self.state == pb.CONTAINER_RUNNING

    @property
    def state_name(self) -> str:
        """The name of the state in CRI."""
        return pb.ContainerState.Name(self.state)


@dataclass(frozen=True, slots=True)
class Image:
    """An image; ``reference`` is the full name with tag."""

    reference: str
    id: str
    digest: str
    size_bytes: int

    @classmethod
    def named(cls, reference: str) -> "Image":
        """Return an image of this name; id, digest and size follow from the name."""
        full = full_reference(reference)
        digest = hashlib.sha256(full.encode()).hexdigest()
        config = hashlib.sha256(digest.encode()).hexdigest()
        return cls(full, f"sha256:{config}", f"sha256:{digest}", 1_000_000 + int(digest[:5], 16))

    @property
    def repo_digest(self) -> str:
        """NAME@DIGEST, without the tag."""
        return f"{self.reference.rpartition(':')[0]}@{self.digest}"


def full_reference(reference: str) -> str:
    """Return the name with registry and tag, as image tools complete it.

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


@dataclass(slots=True)
class NodeState:
    """Everything on the simulated node. ``on_event`` gets each change: its kind, the id concerned and the pod's.

    A sandbox has events under its own id.
    """

    machine: Machine
    now_ns: Callable[[], int]
    on_event: Callable[[pb.ContainerEventType, str, str], None] | None = None
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _pids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1000))

    def new_id(self) -> str:
        """Return 64 hexadecimal digits, the same in every run, that nothing here has: what was captured stands too."""
        made = (hashlib.sha256(f"embedded/{number}".encode()).hexdigest() for number in self._ids)
        return next(each for each in made if each not in self.containers and each not in self.sandboxes)

    def new_pid(self) -> int:
        """Return a process id that no other container has."""
        return next(self._pids)

    def emit(self, event: pb.ContainerEventType, container_id: str, sandbox_id: str) -> None:
        """Report a change to ``on_event``."""
        if self.on_event is not None:
            self.on_event(event, container_id, sandbox_id)

    def sandbox(self, sandbox_id: str, words: str) -> Sandbox:
        """Return the pod of this id or unique prefix. Raises a RefusedCall that starts with ``words``."""
        return _find(self.sandboxes, sandbox_id, words)

    def container(self, container_id: str, words: str) -> Container:
        """Return the container of this id or unique prefix. Raises a RefusedCall that starts with ``words``."""
        return _find(self.containers, container_id, words)

    def image(self, reference: str) -> Image | None:
        """Return the image of this name, id or digest."""
        by_name = self.images.get(full_reference(reference)) if reference else None
        return by_name or next((i for i in self.images.values() if reference in (i.id, i.repo_digest)), None)

    def containers_of(self, sandbox_id: str) -> tuple[Container, ...]:
        """Return the containers of a pod, oldest first."""
        return tuple(c for c in self.containers.values() if c.sandbox_id == sandbox_id)

    def filtered(self, wanted: pb.ContainerFilter | pb.ContainerStatsFilter) -> Iterator[Container]:
        """Yield the containers with these ids (or prefixes) and labels, oldest first."""
        for container in self.containers.values():
            has_ids = container.id.startswith(wanted.id) and container.sandbox_id.startswith(wanted.pod_sandbox_id)
            if has_ids and matches_labels(container.config.labels, wanted.label_selector):
                yield container

    def effective(self, container: Container) -> tuple[CpuSet, NodeSet]:
        """Return the sets that the kernel lets it use (cgroup v2): the parent's if one is empty or all offline."""
        cpus = cpu_list(container.kernel_cpus) & self.machine.online
        mems = node_list(container.kernel_mems) & self.machine.memory_nodes
        return cpus or self.machine.online, mems or self.machine.memory_nodes


cpu_list = lru_cache(maxsize=1024)(CpuSet.parse)
node_list = lru_cache(maxsize=256)(NodeSet.parse)


def _find(table: Mapping[str, _T], wanted: str, words: str) -> _T:
    """Return the entry of this id, or of an unambiguous prefix of one, as containerd does."""
    if wanted in table:
        return table[wanted]
    if not wanted:
        raise RefusedCall(Code.UNKNOWN, f"{words}: Prefix can't be empty")
    matches = [key for key in table if key.startswith(wanted)]
    if len(matches) > 1:
        raise RefusedCall(Code.UNKNOWN, f"{words}: Multiple IDs found with provided prefix: {wanted}")
    if not matches:
        raise UnknownId(Code.NOT_FOUND, f"{words}: not found")
    return table[matches[0]]


def matches_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return True when the labels have every label of the selector, with its value."""
    return all(labels.get(key) == value for key, value in selector.items())


def attributes(thing: Sandbox | Container) -> dict[str, Any]:
    """Return the fields that lists, statuses and statistics have in common."""
    config = thing.config
    return {"id": thing.id, "metadata": config.metadata, "labels": config.labels, "annotations": config.annotations}
