"""A refusal of any length ends its own call: containerd repeats a pod's words, which may be 700 kB, in its errors."""

import pytest

from cri_proxy.http2.status import Failed
from tests.relay.h2_client import H2Client, Shape
from tests.relay.stage import CLIENTS, VIAS, Place

HOLD, PASS = "/runtime.v1.RuntimeService/HoldThis", "/runtime.v1.RuntimeService/Version"
FRAME_BYTES = 65_536  # python-h2 takes 64 CONTINUATION frames at most


@VIAS
@CLIENTS
@pytest.mark.parametrize("length", [700_000, 3_000_000])
@pytest.mark.parametrize("method", [PASS, HOLD])
async def test_a_long_refusal_ends_its_own_call_and_no_other(place: Place, method: str, length: int) -> None:
    words = "level: " + "s0" * (length // 2)
    async with place.staged(client=Shape(frame_bytes=FRAME_BYTES, list_bytes=1 << 23), runtime=Shape()) as stage:
        call, other = await stage.held((method, b"x"), (PASS, b"other"))
        line = stage.other.lines[0]
        (stream,) = [stream for stream, request in line.requests.items() if request.body.endswith(b"x")]
        is_h2 = isinstance(stage.client, H2Client)
        line.refuse(stream, words.encode(), FRAME_BYTES if is_h2 else 16_384)
        answer = await call.end()
        # grpcio's own client takes 1 MiB in this suite.
        expected = (3, words) if is_h2 or length < 1 << 20 else (8, answer.details)
        assert (answer.code, answer.details) == expected
        stage.other.release()
        assert (await other.end()).replies == (b"other",)
        assert (await stage.call(method, b"next")).replies == (b"next",)
        assert (len(stage.other.lines), stage.errors) == (1, [])
        if stage.relay is not None and method == HOLD and answer.code == 3:
            (_, outcome), _ = stage.interceptor.outcomes
            assert isinstance(outcome, Failed)
            assert (outcome.code, outcome.message[:1000]) == (3, words[:1000])
