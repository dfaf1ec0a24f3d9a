"""A runtime that is broken, or that a pod has made say what it likes."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from tests.hostile.bystander import ANSWER_SECONDS
from tests.hostile.hostile_runtime import of
from tests.hostile.node import AttackedNode
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

PATIENCE_SECONDS = 1.0
LIAR = PodSpec("liar", (guaranteed("c", 1000),))
GARBAGE = b"\xff\xff\xff"
STRANGERS, STREAMS = 100, 3


async def test_a_runtime_that_never_answers_a_creation(node: AttackedNode) -> None:
    """The runtime takes a creation and says nothing, the client gives up: no place is lost, others are created."""
    async with node.under_attack():
        node.runtime.never_answer("CreateContainer", of("unlucky"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await node.kubelet.run_pod(PodSpec("unlucky", (guaranteed("c", 1000),)))


@pytest.mark.parametrize("answer", ["garbage", "nothing", "another's id"])
async def test_a_runtime_that_creates_without_a_usable_id(answer: str, node: AttackedNode) -> None:
    """The runtime answers a creation OK with no id that can be used: no CPU stays with what does not exist."""
    taken = pb.CreateContainerResponse(container_id=node.bystander.container_id).SerializeToString()
    async with node.under_attack():
        reply = {"garbage": GARBAGE, "nothing": b"", "another's id": taken}[answer]
        node.runtime.answer("CreateContainer", of(LIAR.name), reply)
        sandbox_id = await node.kubelet.run_sandbox(LIAR)
        with suppress(CallFailed, DecodeError):  # whatever its client makes of that answer
            await node.kubelet.create(LIAR, LIAR.containers[0], sandbox_id)

        async def holds_nothing() -> bool:
            return all(view.pod != LIAR.name for view in (await node.daemon.admin.status()).containers)

        await until("nothing is held for it, with its sandbox there", holds_nothing, seconds=ANSWER_SECONDS)


async def test_a_runtime_that_ends_the_event_stream_again_and_again(node: AttackedNode) -> None:
    """Each stream of events ends at once, and 100 containers cannot be understood: they are not read each time."""
    reads = Counter[bytes]()

    def unreadable(request: bytes, reply: bytes) -> bytes:
        container_id = pb.ContainerStatusRequest.FromString(request).container_id.encode()
        reads[container_id] += 1
        return GARBAGE if container_id in strangers else reply

    past_the_daemon = PodKubelet(node.runtime, node.kubelet.node)
    async with node.under_attack():
        pods = [PodSpec(f"stranger{number}", (ContainerSpec("c"),)) for number in range(STRANGERS)]
        strangers = {(await past_the_daemon.run_pod(pod)).container_id("c").encode() for pod in pods}
        node.runtime.faults.rewrite("ContainerStatus", unreadable)
        node.runtime.faults.fail_next("GetContainerEvents", 13, "not today", times=1 << 30)
        before = node.runtime.calls["GetContainerEvents"]
        node.runtime.restart()  # the stream of now

        async def opened() -> bool:
            return node.runtime.calls["GetContainerEvents"] >= before + STREAMS

        await until("the stream was opened some times", opened, seconds=ANSWER_SECONDS)
        assert {container_id: reads[container_id] for container_id in strangers if reads[container_id] > 1} == {}
