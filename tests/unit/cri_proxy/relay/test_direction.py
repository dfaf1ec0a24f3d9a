import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut, ProtocolError
from cri_proxy.relay.direction import Direction, Parts

PING = frames.frame(frames.PING, 0, 0, b"12345678")
DATA = frames.frame(frames.DATA, 0, 1, b"data")
OURS = frames.window_update(0, 1)


def direction(out: Parts, *, swallow: bool = False, add: bool = False) -> Direction:
    """A direction that swallows DATA, or adds a frame of ours at each DATA; and swallows blocks on stream 9."""

    def on_data(buffer: bytes, cut: Cut) -> bool:
        if add:
            out.append(OURS)
        return not swallow

    return Direction(out, {frames.DATA: on_data}, lambda stream, flags, block: stream != 9)


@pytest.mark.parametrize(
    ("swallow", "add", "expected"),
    [
        (False, False, PING + DATA + DATA + PING),
        (True, False, PING + PING),
        (False, True, PING + DATA + OURS + DATA + OURS + PING),
        (True, True, PING + OURS + OURS + PING),
    ],
)
def test_what_is_added_comes_after_the_frame_that_caused_it(swallow: bool, add: bool, expected: bytes) -> None:
    out: Parts = []
    direction(out, swallow=swallow, add=add).receive(PING + DATA + DATA + PING)
    assert b"".join(out) == expected


def test_a_long_run_is_not_copied() -> None:
    out: Parts = []
    large = frames.frame(frames.DATA, 0, 1, bytes(16_000))
    direction(out).receive(large + large[:100])
    assert [type(part) for part in out] == [memoryview]


def test_a_block_goes_on_when_it_is_whole() -> None:
    out: Parts = []
    made = direction(out)
    start, end = (
        frames.frame(frames.HEADERS, 0, 1, b"a"),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, b"b"),
    )
    made.receive(PING + start)
    assert b"".join(out) == PING
    made.receive(end + PING)
    assert b"".join(out) == PING + start + end + PING


def test_a_swallowed_block_is_swallowed_whole() -> None:
    out: Parts = []
    direction(out).receive(
        frames.frame(frames.HEADERS, 0, 9, b"a") + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 9, b"b") + PING
    )
    assert b"".join(out) == PING


def test_what_precedes_an_error_has_gone_on() -> None:
    out: Parts = []
    with pytest.raises(ProtocolError):
        direction(out).receive(PING + frames.frame(frames.CONTINUATION, 0, 1, b""))
    assert b"".join(out) == PING
