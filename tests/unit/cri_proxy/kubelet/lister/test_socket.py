"""The socket, called by grpcio as exporters in any language would."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc import aio

from cri_proxy.errors import CallFailed, ConfigError
from cri_proxy.kubelet.lister.socket import MOST_CLIENTS, Handler, UnaryServer
from tests.testbed.wait import until


@asynccontextmanager
async def serving(
    path: Path, handler: Handler, errors: list[BaseException] | None = None
) -> AsyncIterator[UnaryServer]:
    server = UnaryServer(handler, (errors if errors is not None else []).append)
    await server.start(path, path.with_name("kubelet.sock"))
    try:
        yield server
    finally:
        await server.close()


async def call(path: Path, method: str = "/s/M", message: bytes = b"", *, seconds: float = 20.0) -> bytes:
    async with aio.insecure_channel(f"unix:{path}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        answer: bytes = await channel.unary_unary(method, bytes, bytes)(message, timeout=seconds)
        return answer


async def echo(method: str, message: bytes) -> bytes:
    return method.encode() + message


async def test_calls_are_answered_large_ones_too(tmp_path: Path) -> None:
    async def large(method: str, message: bytes) -> bytes:
        return message * 100

    path = tmp_path / "ours.sock"
    async with serving(path, large):
        assert await call(path, message=bytes(30_000)) == bytes(3_000_000)


async def test_many_calls_of_one_client_at_once_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "ours.sock"
    async with serving(path, echo), aio.insecure_channel(f"unix:{path}") as channel:
        asked = [b"%d" % n for n in range(100)]
        answers = await asyncio.gather(*(channel.unary_unary("/s/M", bytes, bytes)(each, timeout=20) for each in asked))
        assert answers == [b"/s/M" + each for each in asked]


async def test_a_refusal_has_code_and_words_and_a_fault_is_reported(tmp_path: Path) -> None:
    async def failing(method: str, message: bytes) -> bytes:
        if method == "/s/Refused":
            raise CallFailed(method, 5, "no such pod")
        raise ValueError("a bug")

    path, errors = tmp_path / "ours.sock", list[BaseException]()
    async with serving(path, failing, errors):
        with pytest.raises(aio.AioRpcError) as refused:
            await call(path, "/s/Refused")
        with pytest.raises(aio.AioRpcError) as failed:
            await call(path, "/s/Failed")
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.NOT_FOUND, "no such pod")
    assert failed.value.code() is grpc.StatusCode.INTERNAL
    assert [str(error) for error in errors] == ["a bug"]


async def test_a_caller_that_leaves_cancels_its_call(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hanging(method: str, message: bytes) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    path = tmp_path / "ours.sock"
    async with serving(path, hanging):
        with pytest.raises(aio.AioRpcError):
            await call(path, seconds=0.2)
        async with asyncio.timeout(20):
            await begun.wait()
            await ended.wait()


async def test_it_has_the_mode_of_the_kubelets_socket_and_is_its_owners_without_one(tmp_path: Path) -> None:
    path, kubelet = tmp_path / "ours.sock", tmp_path / "kubelet.sock"
    async with serving(path, echo) as server:
        assert path.stat().st_mode & 0o777 == 0o600
        assert server.problem() == ""
        path.unlink()
        assert "was removed or replaced" in server.problem()
    with socket.socket(socket.AF_UNIX) as model:
        model.bind(str(kubelet))
        kubelet.chmod(0o660)
        async with serving(path, echo):
            assert path.stat().st_mode & 0o777 == 0o660
    assert not path.exists()


async def test_the_socket_of_a_daemon_before_is_replaced_and_another_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "ours.sock"
    async with serving(path, echo), serving(path, echo):
        assert await call(path) == b"/s/M"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="is not a socket"):
        async with serving(path, echo):
            pass
    assert path.read_text() == "mine"


async def test_clients_beyond_the_bound_and_ones_that_speak_no_http2_are_disconnected(tmp_path: Path) -> None:
    path = tmp_path / "ours.sock"
    async with serving(path, echo) as server:
        idle = [await asyncio.open_unix_connection(str(path)) for _ in range(MOST_CLIENTS)]
        extra, extra_writer = await asyncio.open_unix_connection(str(path))
        assert await extra.read() == b""
        idle[0][1].write(b"GET / HTTP/1.1\r\n\r\n")
        await idle[0][0].read()

        async def one_less() -> bool:
            return len(server.clients) < MOST_CLIENTS

        await until("one has gone", one_less, seconds=20)
        assert await call(path) == b"/s/M"
        for _, writer in (*idle, (extra, extra_writer)):
            writer.close()
