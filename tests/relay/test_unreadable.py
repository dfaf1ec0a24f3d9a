"""Requests that no relay can read are refused as the runtime does. Only python-h2 can be brought to send them."""

import gzip

import pytest

from cri_proxy.http2.message import pack
from tests.relay.h2_client import H2Call
from tests.relay.stage import H2_ONLY, VIAS, Stage

HOLD = "/runtime.v1.RuntimeService/HoldThis"
INTERNAL, UNIMPLEMENTED, EXHAUSTED = 13, 12, 8
BOMB = gzip.compress(bytes(32 * 1024 * 1024), 9)


def squeezed(body: bytes) -> bytes:
    """A message flagged as compressed."""
    return b"\1" + pack(body)[1:]


@VIAS
@H2_ONLY
@pytest.mark.parametrize(
    ("encoding", "body", "codes"),
    [
        ("snappy", squeezed(b"squeezed"), {UNIMPLEMENTED, INTERNAL}),
        ("gzip", squeezed(b"no gzip"), {INTERNAL}),
        ("gzip", squeezed(BOMB), {EXHAUSTED, INTERNAL}),
        (None, squeezed(b"without an encoding"), {INTERNAL, UNIMPLEMENTED}),
    ],
)
async def test_a_held_request_that_cannot_be_read_is_refused(
    encoding: str | None, body: bytes, codes: set[int], stage: Stage
) -> None:
    call = await stage.start(HOLD, compression=encoding)
    assert isinstance(call, H2Call)
    await call.write_raw(body, last=True)
    assert (await call.end()).code in codes
    assert stage.interceptor.asked == []
    assert all(not seen.requests for seen in stage.runtime.calls)
    assert (await stage.call(HOLD, b"x")).code == 0


@pytest.mark.parametrize("via", ["splice"])  # grpcio's own server never answers a unary call without a message
@H2_ONLY
@pytest.mark.parametrize("body", [b"", pack(b"one") + pack(b"two"), b"\0\0"])
async def test_a_held_request_that_is_not_one_message_is_refused(body: bytes, stage: Stage) -> None:
    call = await stage.start(HOLD)
    assert isinstance(call, H2Call)
    await call.write_raw(body, last=True)
    assert (await call.end()).code == INTERNAL
    assert all(not seen.requests for seen in stage.runtime.calls)
    assert (await stage.call(HOLD, b"x")).code == 0
