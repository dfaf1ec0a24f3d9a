"""Query the runtime over the proxy's channel: its containers as frozen values, verbose statuses as CRI messages."""

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from cri_proxy.cri.annotations.read import GRANT_KEY
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.state.rows import RowState
from policies.base import ContainerKey

SERVICE = "/runtime.v1.RuntimeService/"
LIST_TIMEOUT_SECONDS = 10.0
STATUS_TIMEOUT_SECONDS = 5.0
# Status calls in flight at once: enough to hide the runtime's latency, few enough not to flood it.
STATUS_CONCURRENCY = 16

_STATES: Final[dict[int, RowState]] = {pb.CONTAINER_CREATED: "created", pb.CONTAINER_RUNNING: "running"}


@dataclass(frozen=True, slots=True)
class LiveContainer:
    """A container of the runtime's list. ``state`` is created, running or exited (unknown counts as exited)."""

    id: str
    sandbox_id: str
    key: ContainerKey
    state: RowState
    created_at_ns: int
    grant_annotation: str = ""

    @property
    def is_live(self) -> bool:
        """Created or running: it can use CPUs."""
        return self.state != "exited"


@dataclass(frozen=True, slots=True)
class LiveNode:
    """All containers, and the ids of all sandboxes."""

    containers: tuple[LiveContainer, ...]
    sandboxes: frozenset[str]


async def list_node(channel: RuntimeChannel) -> LiveNode:
    """List all sandboxes and containers. Raises CallFailed and RuntimeUnavailable."""
    answer = await _call(channel, "ListPodSandbox", pb.ListPodSandboxRequest(), LIST_TIMEOUT_SECONDS)
    pod_uids = {s.id: s.metadata.uid or s.id for s in pb.ListPodSandboxResponse.FromString(answer).items}
    return LiveNode(await list_containers(channel, pod_uids), frozenset(pod_uids))


async def list_containers(
    channel: RuntimeChannel, pod_uids: dict[str, str], *, sandbox_id: str = ""
) -> tuple[LiveContainer, ...]:
    """List the containers of the node, or of one sandbox; ``pod_uids`` maps sandbox ids to pods.

    For a sandbox that is not in ``pod_uids`` the kubelet's label io.kubernetes.pod.uid counts; without any uid (crictl
    may leave it out) the sandbox's id replaces it.
    """
    request = pb.ListContainersRequest()
    if sandbox_id:
        request.filter.pod_sandbox_id = sandbox_id
    answer = await _call(channel, "ListContainers", request, LIST_TIMEOUT_SECONDS)
    return tuple(
        LiveContainer(
            id=c.id,
            sandbox_id=c.pod_sandbox_id,
            key=ContainerKey(_pod_uid(c, pod_uids), c.metadata.name),
            state=_STATES.get(c.state, "exited"),
            created_at_ns=c.created_at,
            grant_annotation=c.annotations.get(GRANT_KEY, ""),
        )
        for c in pb.ListContainersResponse.FromString(answer).containers
    )


async def container_status(channel: RuntimeChannel, container_id: str) -> pb.ContainerStatusResponse:
    """Return the verbose status of one container."""
    request = pb.ContainerStatusRequest(container_id=container_id, verbose=True)
    return pb.ContainerStatusResponse.FromString(
        await _call(channel, "ContainerStatus", request, STATUS_TIMEOUT_SECONDS)
    )


async def sandbox_status(channel: RuntimeChannel, sandbox_id: str) -> pb.PodSandboxStatusResponse:
    """Return the verbose status of one sandbox."""
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=True)
    answer = await _call(channel, "PodSandboxStatus", request, STATUS_TIMEOUT_SECONDS)
    return pb.PodSandboxStatusResponse.FromString(answer)


async def _call(channel: RuntimeChannel, method: str, request: Message, timeout_seconds: float) -> bytes:
    return await channel.unary(SERVICE + method, request.SerializeToString(), timeout_seconds=timeout_seconds)


def _pod_uid(container: pb.Container, pod_uids: dict[str, str]) -> str:
    sandbox_id = container.pod_sandbox_id
    return pod_uids.get(sandbox_id) or container.labels.get("io.kubernetes.pod.uid", "") or sandbox_id
