"""The runtime client, in conversation with a gRPC server on a socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.status import Code
from cri_proxy.runtime.client import RuntimeClient
from tests.fakes.grpc_runtime import GrpcRuntime, Script

ECHO = "/s/Echo"


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[GrpcRuntime]:
    runtime = GrpcRuntime(str(tmp_path / "runtime"))
    await runtime.start()
    yield runtime
    await runtime.stop()
    await asyncio.sleep(0)


@pytest.fixture
async def client(runtime: GrpcRuntime, tmp_path: Path) -> AsyncIterator[RuntimeClient]:
    client = RuntimeClient(f"unix://{tmp_path / 'runtime'}")
    yield client
    await client.close()


@pytest.mark.parametrize("size", [0, 10, 200_000, 15_000_000])
async def test_a_unary_call_gives_its_reply(size: int, client: RuntimeClient, runtime: GrpcRuntime) -> None:
    assert await client.unary(ECHO, b"x" * size, timeout_seconds=15) == b"x" * size
    assert [seen.method for seen in runtime.calls] == [ECHO]


async def test_a_status_other_than_ok_is_raised(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    runtime.play_next(Script(code=5, message="né 100%"))
    with pytest.raises(CallFailed) as error:
        await client.unary(ECHO, b"", timeout_seconds=15)
    assert (error.value.method, error.value.code, error.value.message) == (ECHO, 5, "né 100%")


async def test_calls_share_one_connection_and_do_not_wait_for_each_other(
    client: RuntimeClient, runtime: GrpcRuntime
) -> None:
    messages = [b"%d" % number for number in range(100)]
    replies = await asyncio.gather(*(client.unary(ECHO, message, timeout_seconds=15) for message in messages))
    assert replies == messages


async def test_time_that_runs_out_is_unavailable_and_cancels_the_call(
    client: RuntimeClient, runtime: GrpcRuntime
) -> None:
    runtime.otherwise = Script(hang=True)
    for seconds in (0.1, 0.5, 2.5, 8.0):  # on a busy machine it may run out on the way
        with pytest.raises(RuntimeUnavailable, match=f"no answer within {seconds:g} s"):
            await client.unary(ECHO, b"", timeout_seconds=seconds)
        if runtime.calls:
            break
    while not runtime.calls[0].ended:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    assert runtime.calls[0].seconds_left is not None
    runtime.otherwise = None
    assert await client.unary(ECHO, b"next", timeout_seconds=15) == b"next"


async def test_without_a_runtime_calls_fail_at_once(tmp_path: Path) -> None:
    client = RuntimeClient(str(tmp_path / "runtime"))
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeUnavailable, match="No such file"):
            await client.unary(ECHO, b"", timeout_seconds=60)
        with pytest.raises(RuntimeUnavailable):
            await anext(aiter(client.stream(ECHO, b"")))


async def test_it_finds_a_runtime_that_came_back(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    for _ in range(3):
        assert await client.unary(ECHO, b"x", timeout_seconds=15) == b"x"
        await runtime.stop()
        with pytest.raises(RuntimeUnavailable):
            await client.unary(ECHO, b"x", timeout_seconds=15)
        await runtime.start()


async def test_a_runtime_that_dies_breaks_the_call(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    runtime.play_next(Script(hang=True))
    call = asyncio.get_running_loop().create_task(client.unary(ECHO, b"x", timeout_seconds=15))
    while not runtime.calls:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    await runtime.stop()
    with pytest.raises((RuntimeUnavailable, CallFailed)):  # grpcio's server sends a status when it stops
        await call


async def test_a_stream_gives_its_messages_in_order_until_its_end(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    runtime.play_next(Script(replies=1000, reply_bytes=1000))
    numbers = [int(message.split()[0]) async for message in client.stream(ECHO, b"")]
    assert numbers == list(range(1000))


async def test_a_stream_that_is_left_early_is_cancelled(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    runtime.play_next(Script(replies=1, hang=True))
    stream = client.stream(ECHO, b"")
    await anext(aiter(stream))
    await stream.aclose()  # type: ignore[attr-defined] # it is a generator
    while not runtime.calls[0].ended:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)


async def test_closing_breaks_calls_under_way(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    runtime.play_next(Script(hang=True))
    call = asyncio.get_running_loop().create_task(client.unary(ECHO, b"x", timeout_seconds=15))
    while not runtime.calls:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    await client.close()
    with pytest.raises(RuntimeUnavailable):
        await call


async def test_a_connection_that_is_closed_at_once_breaks_the_call_at_once(tmp_path: Path) -> None:
    """A relay whose runtime is away accepts and closes: the end can come before the call has begun."""

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_unix_server(close, tmp_path / "runtime")
    client = RuntimeClient(str(tmp_path / "runtime"))
    async with asyncio.timeout(20):
        for _ in range(50):
            with pytest.raises(RuntimeUnavailable):
                await client.unary(ECHO, b"", timeout_seconds=15)
    server.close()


async def test_a_runtime_is_reached_while_its_socket_takes_connections(tmp_path: Path) -> None:
    client = RuntimeClient(str(tmp_path / "runtime"))
    assert not client.reaches_runtime()
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), tmp_path / "runtime")
    assert client.reaches_runtime()
    server.close()
    await server.wait_closed()
    assert not client.reaches_runtime()


@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1])
async def test_a_longer_reply_than_its_method_may_have_fails_its_call_alone(
    size: int, runtime: GrpcRuntime, tmp_path: Path
) -> None:
    client = RuntimeClient(f"unix://{tmp_path / 'runtime'}", max_reply_bytes={"/s/Exec": 64 * 1024})
    other = asyncio.create_task(client.unary(ECHO, b"x" * size, timeout_seconds=15))  # noqa: TID251 - awaited below
    if size > 64 * 1024:
        with pytest.raises(CallFailed, match="more than 65536") as error:
            await client.unary("/s/Exec", b"x" * size, timeout_seconds=15)
        assert error.value.code == Code.RESOURCE_EXHAUSTED
    else:
        assert len(await client.unary("/s/Exec", b"x" * size, timeout_seconds=15)) == size
    assert len(await other) == size
    await client.close()


async def test_a_connection_that_is_lost_is_counted(client: RuntimeClient, runtime: GrpcRuntime) -> None:
    await client.unary(ECHO, b"", timeout_seconds=15)
    assert client.losses() == 0
    await runtime.stop()
    with pytest.raises(RuntimeUnavailable):
        await client.unary(ECHO, b"", timeout_seconds=15)
    assert client.losses() == 1
