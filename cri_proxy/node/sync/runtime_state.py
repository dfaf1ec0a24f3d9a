"""Query the runtime over the proxy's channel: its containers as frozen values, verbose statuses as CRI messages."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_list import read_items
from cri_proxy.runtime.channel import SERVICE, RuntimeChannel, ask
from cri_proxy.state.rows import RowState
from policies.base import ContainerKey

LIST_TIMEOUT_SECONDS = 10.0
STATUS_TIMEOUT_SECONDS = 5.0
# Status calls in flight at once: enough to hide the runtime's latency, few enough not to flood it.
STATUS_CONCURRENCY = 16

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
    annotations_hash: int = 0
    is_abandoned: bool = False

    @property
    def is_live(self) -> bool:
        """Created or running: it can use CPUs."""
        return self.state != "exited" and not self.is_abandoned


@dataclass(frozen=True, slots=True)
class LiveNode:
    """Containers, and the ids of all sandboxes; of those that have ``stopped`` too.

    ``unreadable`` items of the lists are left out: while there are any, what is not listed may be there all the same.
    """

    containers: tuple[LiveContainer, ...]
    sandboxes: frozenset[str]
    unreadable: int = 0
    stopped: frozenset[str] = frozenset()


async def list_node(channel: RuntimeChannel) -> LiveNode:
    """List all sandboxes and containers. Raises CallFailed and RuntimeUnavailable."""

    def take(sandbox: pb.PodSandbox) -> tuple[str, str, bool]:
        return sandbox.id, sandbox.metadata.uid or sandbox.id, sandbox.state == pb.SANDBOX_NOTREADY

    # Item by item: a whole list of 500 as messages takes megabytes that the process does not give back.
    read = partial(read_items, pb.ListPodSandboxResponse, pb.PodSandbox, take=take)
    sandboxes = await ask(channel, pb.ListPodSandboxRequest(), read, timeout_seconds=LIST_TIMEOUT_SECONDS)
    pod_uids = {sandbox_id: pod_uid for sandbox_id, pod_uid, _ in sandboxes.readable}
    listed = await list_containers(channel, pod_uids)
    stopped = frozenset(sandbox_id for sandbox_id, _, is_stopped in sandboxes.readable if is_stopped)
    return LiveNode(listed.containers, frozenset(pod_uids), listed.unreadable + sandboxes.unreadable, stopped)


async def list_containers(channel: RuntimeChannel, pod_uids: Mapping[str, str], *, sandbox_id: str = "") -> LiveNode:
    """List the containers of the node, or of one sandbox, without the sandboxes; ``pod_uids`` maps those to pods.

    For a sandbox that is not in ``pod_uids`` the kubelet's label io.kubernetes.pod.uid counts; without any uid (crictl
    may leave it out) the sandbox's id replaces it.
    """
    request = pb.ListContainersRequest()
    if sandbox_id:
        request.filter.pod_sandbox_id = sandbox_id
    read = partial(read_items, pb.ListContainersResponse, pb.Container, take=partial(_live, pod_uids=pod_uids))
    listed = await ask(channel, request, read, timeout_seconds=LIST_TIMEOUT_SECONDS)
    return LiveNode(listed.readable, frozenset(), listed.unreadable)


def _live(container: pb.Container, pod_uids: Mapping[str, str]) -> LiveContainer:
    return LiveContainer(
        id=container.id,
        sandbox_id=container.pod_sandbox_id,
        key=ContainerKey(_pod_uid(container, pod_uids), container.metadata.name),
        state=_STATES.get(container.state, "exited"),
        created_at_ns=container.created_at,
        grant_annotation=container.annotations.get(GRANT_KEY, ""),
        annotations_hash=hash(frozenset(container.annotations.items())),
    )


async def container_status(channel: RuntimeChannel, container_id: str) -> pb.ContainerStatusResponse:
    """Return the verbose status of one container. Raises CallFailed and RuntimeUnavailable."""
    request = pb.ContainerStatusRequest(container_id=container_id, verbose=True)
    read = pb.ContainerStatusResponse.FromString
    return await ask(channel, request, read, timeout_seconds=STATUS_TIMEOUT_SECONDS)


async def sandbox_status(channel: RuntimeChannel, sandbox_id: str) -> pb.PodSandboxStatusResponse:
    """Return the verbose status of one sandbox. Raises CallFailed and RuntimeUnavailable."""
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=True)
    read = pb.PodSandboxStatusResponse.FromString
    return await ask(channel, request, read, timeout_seconds=STATUS_TIMEOUT_SECONDS)


async def container_events(channel: RuntimeChannel) -> AsyncIterator[pb.ContainerEventResponse]:
    """Yield the events of GetContainerEvents without those that cannot be read. Raises as ``list_node`` does."""
    async for message in channel.stream(SERVICE + "GetContainerEvents", pb.GetEventsRequest().SerializeToString()):
        try:
            event = pb.ContainerEventResponse.FromString(message)
        except DecodeError:
            continue  # perhaps an exit: the slow check finds it
        yield event


def _pod_uid(container: pb.Container, pod_uids: Mapping[str, str]) -> str:
    sandbox_id = container.pod_sandbox_id
    return pod_uids.get(sandbox_id) or container.labels.get("io.kubernetes.pod.uid", "") or sandbox_id
