"""Three clients, grpcio's, one on python-h2 and curl, find the same of real containerd directly and by either relay."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from google.protobuf.any_pb2 import Any

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from cri_proxy.unix_socket import socket_path
from tests.e2e.stage import SETTLE_SECONDS, Stage
from tests.e2e.test_transparency import ANSWERED, REFUSED, RUNTIME
from tests.fakes.waiting import holds
from tests.relay.clients import Answer, CallUnderWay, GrpcioClient
from tests.relay.curl_client import CurlClient
from tests.relay.h2_client import Codes, H2Client, Shape
from tests.testbed.wait import until

CLIENTS = pytest.mark.parametrize("client", ["grpcio", "h2"])
VERSION = RUNTIME + "Version"
# Of no service of CRI: GetContainerEvents came with 1.7
EVENTS, PUBLISH = (f"/containerd.services.events.v1.Events/{name}" for name in ("Subscribe", "Publish"))
SUBSCRIBED_SECONDS = 60.0
FRESH_CONNECTIONS = 30
LISTED_BYTES = 6 * 1024 * 1024  # more than the 4 MiB that gRPC allows who does not ask for more


@dataclass(frozen=True, slots=True)
class Ends:
    """The same kind of client twice: past the proxy, and through it."""

    direct: GrpcioClient | H2Client
    proxied: GrpcioClient | H2Client

    async def both(self, method: str, request: bytes) -> tuple[Answer, Answer]:
        return await self.direct.unary(method, request), await self.proxied.unary(method, request)


@asynccontextmanager
async def ends(stage: Stage, client: str, shape: Shape | None = None) -> AsyncIterator[Ends]:
    paths = [str(socket_path(endpoint)) for endpoint in (stage.containerd.endpoint, stage.daemon.endpoint)]
    made = Ends(*(H2Client(path, shape) if client == "h2" else GrpcioClient(path) for path in paths))
    try:
        yield made
    finally:
        await made.direct.close()
        await made.proxied.close()


@CLIENTS
async def test_answers_and_refusals_are_the_runtimes_own_to_the_last_trailer(stage: Stage, client: str) -> None:
    calls = [*ANSWERED.values(), *((RUNTIME + name, request) for name, request in REFUSED.values())]
    async with ends(stage, client) as two:
        for method, request in calls:
            direct, proxied = await two.both(method, request.SerializeToString())
            assert proxied == direct
        direct, proxied = await two.both("/no.Such/Method", b"")
        assert (proxied, proxied.code) == (direct, 12)


@pytest.mark.parametrize("case", ["start of a container that is not there", "a container without a sandbox"])
async def test_every_fresh_connection_of_curl_that_begins_with_an_intercepted_call_is_served(
    stage: Stage, case: str
) -> None:
    direct, proxied = (
        CurlClient(str(socket_path(endpoint))) for endpoint in (stage.containerd.endpoint, stage.daemon.endpoint)
    )
    name, request = REFUSED[case]
    message = request.SerializeToString()
    expected = await direct.unary(RUNTIME + name, message)
    assert expected.code != 0
    for _ in range(FRESH_CONNECTIONS):
        assert await proxied.unary(RUNTIME + name, message) == expected


async def test_a_client_on_nghttp2_is_answered_and_refused_as_by_the_runtime(stage: Stage) -> None:
    direct, proxied = (
        CurlClient(str(socket_path(endpoint))) for endpoint in (stage.containerd.endpoint, stage.daemon.endpoint)
    )
    # of an unknown method curl itself often misses the status, since containerd does not wait for the message
    refused = [(RUNTIME + name, request) for name, request in REFUSED.values() if name != "NoSuchMethod"]
    for method, request in [*ANSWERED.values(), *refused]:
        message = request.SerializeToString()
        assert await proxied.unary(method, message) == await direct.unary(method, message)


@CLIENTS
async def test_what_the_runtime_cannot_read_is_its_own_to_refuse(stage: Stage, client: str) -> None:
    """Bytes that are no message; a call of ours that we cannot read either is answered by the runtime."""
    async with ends(stage, client) as two:
        for name in ("Version", "ContainerStatus", "CreateContainer", "StartContainer"):
            direct, proxied = await two.both(RUNTIME + name, b"\xff\xff\xff")
            assert (proxied.code, proxied.details) == (direct.code, direct.details)
            assert direct.code != 0


async def test_metadata_that_the_runtime_refuses_is_refused_by_it(stage: Stage, relay: str) -> None:
    """Only the splice brings it there: grpcio's server refuses it by itself. The connection serves on."""
    codes = []
    async with ends(stage, "h2") as two:
        for pair in (("grpc-timeout", "banana"), ("broken-bin", "!not base64!")):
            direct, proxied = [await one_call(client, pair) for client in (two.direct, two.proxied)]
            codes.append(direct.code)
            assert relay == "grpc" or proxied == direct
            assert (await two.proxied.unary(VERSION, b"")).code == 0
    assert any(codes)


async def one_call(client: GrpcioClient | H2Client, pair: tuple[str, str]) -> Answer:
    call = await client.start(VERSION, metadata=[pair])
    await call.write(b"", last=True)
    return await call.end()


@CLIENTS
async def test_30_event_streams_see_the_same_and_can_be_cancelled(stage: Stage, client: str) -> None:
    async with ends(stage, client) as two:
        streams = [await two.proxied.start(EVENTS) for _ in range(30)]
        streams.append(await two.direct.start(EVENTS))
        for stream in streams:
            await stream.write(b"", last=True)
        assert (await two.proxied.unary(VERSION, b"")).code == 0
        await are_subscribed(two.direct, streams)
        await stage.run("seen", ContainerSpec("c0"))
        async with asyncio.timeout(SUBSCRIBED_SECONDS):
            events = [[await stream.read() for _ in range(3)] for stream in streams]
        assert all(seen == events[-1] for seen in events)
        for stream in streams[:-1]:
            stream.cancel()
        assert {(await stream.end()).code for stream in streams[:-1]} == {1}
        assert (await two.proxied.unary(VERSION, b"")).code == 0
        streams[-1].cancel()


async def are_subscribed(client: GrpcioClient | H2Client, streams: Sequence[CallUnderWay]) -> None:
    """Wait until containerd tells all of these, which it says nowhere; then bring all to the same event of ours."""
    loop = asyncio.get_running_loop()
    first = [loop.create_task(stream.read()) for stream in streams]

    async def all_have_heard() -> bool:
        await publish(client, "/e2e/begun")
        return all(task.done() for task in first)

    await until("all streams are subscribed", all_have_heard, seconds=SUBSCRIBED_SECONDS)
    assert all([await task for task in first])
    await publish(client, "/e2e/all")
    async with asyncio.timeout(SUBSCRIBED_SECONDS):
        for stream in streams:
            while b"/e2e/all" not in (await stream.read() or b"/e2e/all: it has ended"):
                pass


async def publish(client: GrpcioClient | H2Client, topic: str) -> None:
    """An event of no meaning (PublishRequest: 1 = topic, 2 = event), in the namespace of CRI."""
    fields = ((0x0A, topic.encode()), (0x12, Any(type_url="none").SerializeToString()))
    call = await client.start(PUBLISH, metadata=[("containerd-namespace", "k8s.io")])
    await call.write(b"".join(bytes((tag, len(value))) + value for tag, value in fields), last=True)
    assert (await call.end()).code == 0


@CLIENTS
async def test_a_deadline_ends_a_stream_of_the_runtime(stage: Stage, client: str) -> None:
    async with ends(stage, client) as two:
        for one in (two.direct, two.proxied):
            stream = await one.start(EVENTS, timeout_seconds=0.5)
            await stream.write(b"", last=True)
            answer = await stream.end()  # the client's clock, or the runtime's, whichever is first
            assert answer.code == 4 or "deadline exceeded" in answer.details


@pytest.mark.parametrize(
    ("client", "shape"),
    [("grpcio", None), ("h2", None), ("h2", Shape(window_bytes=2**31 - 1, frame_bytes=1 << 20, table_bytes=0))],
)
async def test_a_large_list_arrives_byte_for_byte(stage: Stage, client: str, shape: Shape | None) -> None:
    for number in range(3):
        note = (("note", f"{number}" * (LISTED_BYTES // 3)),)
        await stage.kubelet.run_sandbox(PodSpec(f"large{number}", (), namespace="e2e", annotations=note))
    async with ends(stage, client, shape) as two:
        direct, proxied = await two.both(RUNTIME + "ListPodSandbox", pb.ListPodSandboxRequest().SerializeToString())
        assert len(proxied.replies[0]) > LISTED_BYTES
        assert sorted_list(proxied) == sorted_list(direct)


def sorted_list(answer: Answer) -> list[bytes]:
    """Its entries; containerd lists in an order of the moment."""
    return sorted(
        item.SerializeToString(deterministic=True)
        for item in pb.ListPodSandboxResponse.FromString(answer.replies[0]).items
    )


async def test_pings_and_settings_in_the_middle_of_a_connection_are_taken(stage: Stage) -> None:
    async with ends(stage, "h2", Shape(window_bytes=100)) as two:
        assert isinstance(two.proxied, H2Client)
        line = await two.proxied.line()
        for number, window in enumerate((1, 65_535, 2**31 - 1)):
            line.ping(b"%08d" % number)
            line.change_settings({Codes.INITIAL_WINDOW_SIZE: window})
            direct, proxied = await two.both(VERSION, b"")
            assert (proxied, proxied.code) == (direct, 0)
        await holds(
            "the pings are answered, in their order",
            lambda: line.answered == [b"%08d" % number for number in range(3)],
            seconds=SETTLE_SECONDS,
        )
