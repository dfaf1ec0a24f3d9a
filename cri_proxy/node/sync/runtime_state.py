"""Query the runtime over the proxy's channel: its containers as frozen values, verbose statuses as CRI messages."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from cri_proxy.cri.annotations.read import GRANT_KEY
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_list import Items, read_items
from cri_proxy.errors import UnreadableReply
from cri_proxy.http2.status import Code
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.state.rows import RowState
from policies.base import ContainerKey

SERVICE = "/runtime.v1.RuntimeService/"
LIST_TIMEOUT_SECONDS = 10.0
STATUS_TIMEOUT_SECONDS = 5.0
# Status calls in flight at once: enough to hide the runtime's latency, few enough not to flood it.
STATUS_CONCURRENCY = 16

M = TypeVar("M", bound=Message)
_STATES: Final[dict[int, RowState]] = {pb.CONTAINER_CREATED: "created", pb.CONTAINER_RUNNING: "running"}


@dataclass(frozen=True, slots=True)
class LiveContainer:
    """A container of the runtime's list. ``state`` is created, running or exited (unknown counts as exited).

    ``is_abandoned``: it was created, and no kubelet starts it any more (``reconcile.with_abandoned``).
    """

    id: str
    sandbox_id: str
    key: ContainerKey
    state: RowState
    created_at_ns: int
    grant_annotation: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    is_abandoned: bool = False

    @property
    def is_live(self) -> bool:
        """Created or running: it can use CPUs."""
        return self.state != "exited" and not self.is_abandoned


@dataclass(frozen=True, slots=True)
class LiveNode:
    """Containers, and the ids of all sandboxes.

    ``unreadable`` items of the lists are left out: while there are any, what is not listed may be there all the same.
    """

    containers: tuple[LiveContainer, ...]
    sandboxes: frozenset[str]
    unreadable: int = 0


async def list_node(channel: RuntimeChannel) -> LiveNode:
    """List all sandboxes and containers. Raises CallFailed and RuntimeUnavailable."""
    answer = await _call(channel, "ListPodSandbox", pb.ListPodSandboxRequest(), LIST_TIMEOUT_SECONDS)
    sandboxes = _items("ListPodSandbox", pb.ListPodSandboxResponse, pb.PodSandbox, answer)
    pod_uids = {s.id: s.metadata.uid or s.id for s in sandboxes.readable}
    listed = await list_containers(channel, pod_uids)
    return LiveNode(listed.containers, frozenset(pod_uids), listed.unreadable + sandboxes.unreadable)


async def list_containers(channel: RuntimeChannel, pod_uids: dict[str, str], *, sandbox_id: str = "") -> LiveNode:
    """List the containers of the node, or of one sandbox, without the sandboxes; ``pod_uids`` maps those to pods.

    For a sandbox that is not in ``pod_uids`` the kubelet's label io.kubernetes.pod.uid counts; without any uid (crictl
    may leave it out) the sandbox's id replaces it.
    """
    request = pb.ListContainersRequest()
    if sandbox_id:
        request.filter.pod_sandbox_id = sandbox_id
    answer = await _call(channel, "ListContainers", request, LIST_TIMEOUT_SECONDS)
    listed = _items("ListContainers", pb.ListContainersResponse, pb.Container, answer)
    containers = tuple(
        LiveContainer(
            id=c.id,
            sandbox_id=c.pod_sandbox_id,
            key=ContainerKey(_pod_uid(c, pod_uids), c.metadata.name),
            state=_STATES.get(c.state, "exited"),
            created_at_ns=c.created_at,
            grant_annotation=c.annotations.get(GRANT_KEY, ""),
            annotations=c.annotations,
        )
        for c in listed.readable
    )
    return LiveNode(containers, frozenset(), listed.unreadable)


async def container_status(channel: RuntimeChannel, container_id: str) -> pb.ContainerStatusResponse:
    """Return the verbose status of one container. Raises CallFailed and RuntimeUnavailable."""
    request = pb.ContainerStatusRequest(container_id=container_id, verbose=True)
    answer = await _call(channel, "ContainerStatus", request, STATUS_TIMEOUT_SECONDS)
    return _read("ContainerStatus", pb.ContainerStatusResponse, answer)


async def sandbox_status(channel: RuntimeChannel, sandbox_id: str) -> pb.PodSandboxStatusResponse:
    """Return the verbose status of one sandbox. Raises CallFailed and RuntimeUnavailable."""
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=True)
    answer = await _call(channel, "PodSandboxStatus", request, STATUS_TIMEOUT_SECONDS)
    return _read("PodSandboxStatus", pb.PodSandboxStatusResponse, answer)


async def container_events(channel: RuntimeChannel) -> AsyncIterator[pb.ContainerEventResponse]:
    """Yield the events of GetContainerEvents without those that cannot be read. Raises as ``list_node`` does."""
    async for message in channel.stream(SERVICE + "GetContainerEvents", pb.GetEventsRequest().SerializeToString()):
        try:
            event = pb.ContainerEventResponse.FromString(message)
        except DecodeError:
            continue  # perhaps an exit: the slow check finds it
        yield event


def _read(method: str, kind: type[M], answer: bytes) -> M:
    try:
        return kind.FromString(answer)
    except DecodeError as error:
        raise _unreadable(method, error) from error


def _items(method: str, reply_kind: type[Message], kind: type[M], answer: bytes) -> Items[M]:
    try:
        return read_items(reply_kind, kind, answer)
    except DecodeError as error:
        raise _unreadable(method, error) from error


def _unreadable(method: str, error: DecodeError) -> UnreadableReply:
    return UnreadableReply(SERVICE + method, Code.INTERNAL, f"the runtime's answer cannot be read: {error}")


async def _call(channel: RuntimeChannel, method: str, request: Message, timeout_seconds: float) -> bytes:
    return await channel.unary(SERVICE + method, request.SerializeToString(), timeout_seconds=timeout_seconds)


def _pod_uid(container: pb.Container, pod_uids: dict[str, str]) -> str:
    sandbox_id = container.pod_sandbox_id
    return pod_uids.get(sandbox_id) or container.labels.get("io.kubernetes.pod.uid", "") or sandbox_id
