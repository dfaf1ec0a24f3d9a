"""The runtime's containers and sandboxes as values, read over the proxy's own channel."""

import asyncio
from dataclasses import dataclass

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.channel import RuntimeChannel
from policies.base import ContainerKey

SERVICE = "/runtime.v1.RuntimeService/"
LIST_TIMEOUT_SECONDS = 10.0
STATUS_TIMEOUT_SECONDS = 5.0
# Status calls in flight at once: enough to hide the runtime's latency, few enough not to flood it.
STATUS_CONCURRENCY = 16

_STATES = {pb.CONTAINER_CREATED: "created", pb.CONTAINER_RUNNING: "running"}


@dataclass(frozen=True, slots=True)
class LiveContainer:
    """A container of the runtime's list. ``state`` is created, running or exited (unknown counts as exited)."""

    id: str
    sandbox_id: str
    key: ContainerKey
    state: str
    created_at_ns: int
    grant_annotation: str = ""

    @property
    def is_live(self) -> bool:
        """Created or running: it can use CPUs."""
        return self.state != "exited"


@dataclass(frozen=True, slots=True)
class LiveNode:
    """All containers, and the ids of all sandboxes with their pod's uid."""

    containers: tuple[LiveContainer, ...]
    sandboxes: tuple[tuple[str, str], ...]


async def list_node(channel: RuntimeChannel, grant_key: str) -> LiveNode:
    """List all sandboxes and containers. Raises CallFailed and RuntimeUnavailable."""
    sandboxes = await _sandboxes(channel)
    containers = await list_containers(channel, dict(sandboxes), grant_key)
    return LiveNode(containers, tuple(sorted(sandboxes.items())))


async def list_containers(
    channel: RuntimeChannel, pod_uids: dict[str, str], grant_key: str, *, sandbox_id: str = ""
) -> tuple[LiveContainer, ...]:
    """List the containers of the node, or of one sandbox; ``pod_uids`` maps sandbox ids to pods.

    For a sandbox that is not in ``pod_uids`` the kubelet's label io.kubernetes.pod.uid counts; without any uid (crictl
    may leave it out) the sandbox's id replaces it.
    """
    request = pb.ListContainersRequest()
    if sandbox_id:
        request.filter.pod_sandbox_id = sandbox_id
    answer = await channel.unary(
        SERVICE + "ListContainers", request.SerializeToString(), timeout_seconds=LIST_TIMEOUT_SECONDS
    )
    return tuple(
        LiveContainer(
            id=c.id,
            sandbox_id=c.pod_sandbox_id,
            key=ContainerKey(_pod_uid(c, pod_uids), c.metadata.name),
            state=_STATES.get(c.state, "exited"),
            created_at_ns=c.created_at,
            grant_annotation=c.annotations.get(grant_key, ""),
        )
        for c in pb.ListContainersResponse.FromString(answer).containers
    )


async def container_status(channel: RuntimeChannel, container_id: str) -> pb.ContainerStatusResponse:
    """Return the verbose status of one container."""
    request = pb.ContainerStatusRequest(container_id=container_id, verbose=True)
    answer = await channel.unary(
        SERVICE + "ContainerStatus", request.SerializeToString(), timeout_seconds=STATUS_TIMEOUT_SECONDS
    )
    return pb.ContainerStatusResponse.FromString(answer)


async def sandbox_status(channel: RuntimeChannel, sandbox_id: str) -> pb.PodSandboxStatusResponse:
    """Return the verbose status of one sandbox."""
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=True)
    answer = await channel.unary(
        SERVICE + "PodSandboxStatus", request.SerializeToString(), timeout_seconds=STATUS_TIMEOUT_SECONDS
    )
    return pb.PodSandboxStatusResponse.FromString(answer)


def status_slots() -> asyncio.Semaphore:
    """Return a bound for the status calls in flight."""
    return asyncio.Semaphore(STATUS_CONCURRENCY)


async def _sandboxes(channel: RuntimeChannel) -> dict[str, str]:
    answer = await channel.unary(
        SERVICE + "ListPodSandbox", pb.ListPodSandboxRequest().SerializeToString(), timeout_seconds=LIST_TIMEOUT_SECONDS
    )
    return {s.id: s.metadata.uid or s.id for s in pb.ListPodSandboxResponse.FromString(answer).items}


def _pod_uid(container: pb.Container, pod_uids: dict[str, str]) -> str:
    sandbox_id = container.pod_sandbox_id
    return pod_uids.get(sandbox_id) or container.labels.get("io.kubernetes.pod.uid", "") or sandbox_id
