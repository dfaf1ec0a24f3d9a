"""What grpcio makes up is not taken for the runtime's word."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import Aborted, Outcome
from cri_proxy.relay.grpcio.calls import failure_of, true_status


@pytest.mark.parametrize(
    ("code", "details", "outcome"),
    [
        (grpc.StatusCode.NOT_FOUND, "gone", Failed(5, "gone")),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", Aborted(sent=True)),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", Aborted(sent=False)),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", Aborted(sent=True)),
    ],
)
def test_a_status_that_grpcio_may_have_made_up_is_no_answer(
    code: grpc.StatusCode, details: str, outcome: Outcome
) -> None:
    error = aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details, "")
    assert failure_of(error) == outcome


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


async def lost_write() -> aio.AioRpcError:
    """What grpcio itself makes of a write that fails, on a call that has begun."""
    async with aio.insecure_channel("unix:/nowhere") as channel:
        start: Any = channel.stream_stream("/x.Y/Z")  # type: ignore[call-arg] # grpcio leaves them optional
        call = start()
        call._cython_call.set_internal_error("as its _write does")
        with pytest.raises(aio.AioRpcError) as caught:
            await call._raise_for_status()
        return caught.value


async def test_grpcio_still_says_it_in_these_words() -> None:
    error = await lost_write()
    assert true_status(error.code(), error.details() or "", Path("/r"))[0] is grpc.StatusCode.UNAVAILABLE
