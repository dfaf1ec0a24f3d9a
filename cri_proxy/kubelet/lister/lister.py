"""Answer the pod resources API: ask the kubelet for each call, and add what the node has granted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from google.protobuf.message import DecodeError

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.file_workers import FilesFailed
from cri_proxy.http2.status import Code
from cri_proxy.kubelet.lister.answers import NodeGrants
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.runtime.channel import RuntimeChannel

SERVICE: Final = "/v1.PodResourcesLister/"
LIST: Final = SERVICE + "List"
GET: Final = SERVICE + "Get"
MACHINE: Final = SERVICE + "GetAllocatableResources"

_AWAY: Final = "cri-proxy: the kubelet does not answer: "

ANSWER_SECONDS: Final = 5.0
KEPT_SECONDS: Final = 300.0
"""How old an answer of the kubelet may be that stands for one that it does not give: as long as a restart may take."""


class Lister:
    """The kubelet's service with the node's grants. The channel leads to the kubelet's own socket."""

    def __init__(
        self,
        channel: RuntimeChannel,
        granted: Callable[[], NodeGrants],
        clock: Clock,
        journal: Journal,
        *,
        look: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """``granted`` returns the grants now; ``look`` raises FilesFailed where the socket's directory hangs."""
        self._channel = channel
        self._granted = granted
        self._clock = clock
        self._journal = journal
        self._look = look
        self._kept: dict[str, tuple[float, bytes]] = {}  # the last answers of LIST and MACHINE, and when they came
        self._is_away = False

    async def call(self, method: str, message: bytes) -> bytes:
        """Return the answer to a call. Raises CallFailed with the kubelet's status, or UNAVAILABLE without any."""
        try:
            if method == GET:
                return await self._pod(message)
            reply = await self._asked(method, message)
            if method == LIST:
                pods = pb.ListPodResourcesResponse.FromString(reply)
                self._granted().add_to_pods(pods.pod_resources)
                return pods.SerializeToString()
            if method == MACHINE:
                machine = pb.AllocatableResourcesResponse.FromString(reply)
                self._granted().add_to_machine(machine)
                return machine.SerializeToString()
        except DecodeError as error:
            raise CallFailed(
                method, Code.INTERNAL, f"cri-proxy: the kubelet's answer cannot be read: {error}"
            ) from error
        return reply  # of a method that is not known here

    async def _pod(self, message: bytes) -> bytes:
        """Answer Get; where the kubelet is away, or its gate for Get is closed, of the list."""
        try:
            wanted = pb.GetPodResourcesRequest.FromString(message)
        except DecodeError as error:
            problem = f"cri-proxy: the request cannot be read: {error}"
            raise CallFailed(GET, Code.INVALID_ARGUMENT, problem) from error
        answer = pb.GetPodResourcesResponse()
        try:
            answer = pb.GetPodResourcesResponse.FromString(await self._asked(GET, message))
        except CallFailed as error:
            if error.code == Code.UNIMPLEMENTED or "disabled" in error.message:
                listed = await self._asked(LIST, b"")
            elif error.code == Code.UNAVAILABLE:  # it has been waited for
                listed = self._last(LIST, error.message.removeprefix(_AWAY))
            else:
                raise
            pods = pb.ListPodResourcesResponse.FromString(listed).pod_resources
            names = wanted.pod_namespace, wanted.pod_name
            found = next((pod for pod in pods if (pod.namespace, pod.name) == names), None)
            if found is None:
                raise CallFailed(
                    GET, Code.NOT_FOUND, f"cri-proxy: the kubelet lists no pod {'/'.join(names)}"
                ) from error
            answer.pod_resources.CopyFrom(found)
        self._granted().add_to_pods((answer.pod_resources,))
        return answer.SerializeToString()

    async def _asked(self, method: str, message: bytes) -> bytes:
        """Return the kubelet's answer, or the last one where it is away. Raises CallFailed."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._look is not None:
                    await self._look()
                reply = await self._channel.unary(method, message, timeout_seconds=ANSWER_SECONDS)
        except (RuntimeUnavailable, FilesFailed, TimeoutError) as error:
            why = error.problem if isinstance(error, RuntimeUnavailable) else str(error) or "no answer in time"
            self._note_away(why)
            return self._last(method, why)
        self._is_away = False
        if method in (LIST, MACHINE):
            self._kept[method] = self._clock.monotonic_seconds(), reply
        return reply

    def _last(self, method: str, why: str) -> bytes:
        since_seconds, reply = self._kept.get(method, (0.0, None))
        age_seconds = self._clock.monotonic_seconds() - since_seconds
        if reply is None or age_seconds > KEPT_SECONDS:
            last = f"; its last answer is {age_seconds:.0f} s old" if reply is not None else ""
            raise CallFailed(method, Code.UNAVAILABLE, f"{_AWAY}{why}{last}")
        return reply

    def _note_away(self, why: str) -> None:
        if not self._is_away:
            self._journal.noted(events.POD_RESOURCES_AWAY, reason=f"the kubelet does not answer: {why}")
        self._is_away = True
