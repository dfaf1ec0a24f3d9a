"""The gRPC relay's own matters; what it has in common with the splice is in tests/relay."""

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc import aio

from cri_proxy.errors import ConfigError
from cri_proxy.relay.grpcio.calls import Runtime, StreamCall, _pump, _Requests
from cri_proxy.relay.grpcio.relay import GrpcRelay
from cri_proxy.tasks import Tasks
from tests.fakes.scripted_interceptor import ScriptedInterceptor


def relay(directory: Path) -> GrpcRelay:
    return GrpcRelay(
        listen=str(directory / "relay"), runtime=str(directory / "runtime"), interceptor=ScriptedInterceptor()
    )


async def test_its_socket_is_private_and_goes_when_it_stops(tmp_path: Path) -> None:
    made = relay(tmp_path)
    await made.start()
    assert stat.S_IMODE((tmp_path / "relay").stat().st_mode) == 0o600
    await made.stop(0)
    assert list(tmp_path.iterdir()) == []


async def test_it_does_not_take_a_socket_that_answers(tmp_path: Path) -> None:
    first, second = relay(tmp_path), relay(tmp_path)
    await first.start()
    with pytest.raises(ConfigError):
        await second.start()
    await first.stop(0)


async def test_stopping_what_never_started_is_harmless(tmp_path: Path) -> None:
    await relay(tmp_path).stop(0)


class Broken:
    """A call that has ended meanwhile: in one of grpcio's ways whatever is done with it fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def write(self, request: object) -> None:
        raise self._error

    async def done_writing(self) -> None:
        raise self._error

    async def read(self) -> object:
        raise self._error


async def one_request_and_the_end() -> _Requests:
    requests, coming = _Requests(), iter([b"x", aio.EOF])  # type: ignore[attr-defined] # grpc-stubs lack it

    async def read() -> object:
        return next(coming)

    await requests.read_all(read)
    return requests


@pytest.mark.parametrize(
    "error",
    [
        asyncio.InvalidStateError("RPC already finished."),
        aio.InternalError("Failed execute_batch"),
        aio.UsageError("RPC already finished."),
        aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), "", ""),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_call_that_ends_while_requests_go_on_is_no_fault(error: Exception) -> None:
    await _pump(await one_request_and_the_end(), Broken(error))


@pytest.mark.parametrize("error", [aio.AbortError("Locally aborted."), aio.UsageError("RPC already finished.")])
async def test_a_caller_whose_call_was_ended_has_no_more_requests(error: Exception) -> None:
    requests = _Requests()
    await requests.read_all(Broken(error).read)
    assert await requests.only_one(5) is None


class Call(Broken):
    """A call whose first read fails so, or that ends so."""

    def __init__(self, error: aio.AioRpcError, *, reads: bool) -> None:
        super().__init__(error)
        self._status, self._reads = error, reads

    async def initial_metadata(self) -> aio.Metadata:
        return aio.Metadata()

    def done(self) -> bool:
        return True

    async def read(self) -> object:
        return await super().read() if self._reads else aio.EOF  # type: ignore[attr-defined] # grpc-stubs lack it

    async def trailing_metadata(self) -> aio.Metadata:
        return aio.Metadata()

    async def code(self) -> grpc.StatusCode:
        return self._status.code()

    async def details(self) -> str:
        return self._status.details() or ""

    def cancel(self) -> None:
        pass


class Caller:
    """Whoever waits for the call's end; as grpcio's, it ends with an exception."""

    def __init__(self) -> None:
        self.ended: tuple[grpc.StatusCode, str] | None = None

    def set_trailing_metadata(self, metadata: aio.Metadata) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str, trailing: object = ()) -> None:
        self.ended = (code, details)
        raise aio.AbortError


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(
    ("code", "details", "told"),
    [
        (
            grpc.StatusCode.INTERNAL,
            "Internal error from Core",
            (grpc.StatusCode.UNAVAILABLE, "the runtime at /r went away, or ended the call, during a request"),
        ),
        (grpc.StatusCode.INTERNAL, "mine", (grpc.StatusCode.INTERNAL, "mine")),
    ],
)
async def test_a_stream_whose_request_was_lost_is_told_that_the_runtime_is_gone(
    code: grpc.StatusCode, details: str, told: object, reads: bool
) -> None:
    call, caller = Call(aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details, ""), reads=reads), Caller()
    stream = StreamCall(Runtime(None, Path("/r")), "/x.Y/Z", Tasks(lambda error: None))
    with pytest.raises(aio.AbortError):
        await stream._replies(call, caller)  # type: ignore[arg-type] # as much of a context as is asked
    assert caller.ended == told


def test_the_splice_does_not_load_grpcio() -> None:
    check = "import sys, cri_proxy.relay.server, cri_proxy.runtime.client; sys.exit('grpc' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
