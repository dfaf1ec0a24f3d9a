import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import Aborted, Outcome
from cri_proxy.relay.grpcio.calls import Runtime, StreamCall, _pump, _Requests, failure_of, true_status
from cri_proxy.tasks import Tasks


@pytest.mark.parametrize(
    ("code", "details", "outcome"),
    [
        (grpc.StatusCode.NOT_FOUND, "gone", Failed(5, "gone")),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", Aborted(sent=True)),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", Aborted(sent=False)),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", Aborted(sent=True)),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "received metadata size exceeds hard limit (9 vs. 8)", Aborted(sent=True)),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "no memory", Failed(8, "no memory")),
    ],
)
def test_a_status_that_grpcio_may_have_made_up_is_no_answer(
    code: grpc.StatusCode, details: str, outcome: Outcome
) -> None:
    assert failure_of(aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details, "")) == outcome


def test_a_write_that_grpcio_lost_is_unavailable_and_names_the_runtime() -> None:
    code, details = true_status(grpc.StatusCode.INTERNAL, "Internal error from Core", Path("/run/r.sock"))
    assert (code, "/run/r.sock" in details) == (grpc.StatusCode.UNAVAILABLE, True)


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.INTERNAL, "failed to unmarshal"),
        (grpc.StatusCode.UNKNOWN, "Internal error from Core"),
        (grpc.StatusCode.NOT_FOUND, ""),
    ],
)
def test_every_other_status_is_the_runtimes_own(code: grpc.StatusCode, details: str) -> None:
    assert true_status(code, details, Path("/r")) == (code, details)


async def test_grpcio_still_says_of_a_write_that_fails_what_is_taken_for_a_lost_connection() -> None:
    async with aio.insecure_channel("unix:/nowhere") as channel:
        start: Any = channel.stream_stream("/x.Y/Z")  # type: ignore[call-arg] # grpcio leaves them optional
        call = start()
        call._cython_call.set_internal_error("as its _write does")
        with pytest.raises(aio.AioRpcError) as caught:
            await call._raise_for_status()
    error = caught.value
    assert true_status(error.code(), error.details() or "", Path("/r"))[0] is grpc.StatusCode.UNAVAILABLE


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
    requests, coming = _Requests(), iter([b"x", aio.EOF])  # type: ignore[attr-defined] # grpc-stubs lack it

    async def read() -> object:
        return next(coming)

    await requests.read_all(read)
    await _pump(requests, Broken(error))


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
