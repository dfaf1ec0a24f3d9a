import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut, ProtocolError
from cri_proxy.relay.direction import Direction, OnBlock, Parts, Treatment, slice_of
from cri_proxy.relay.preface import OwnFrames
from tests.fakes.http2 import block_frames

PING = frames.frame(frames.PING, 0, 0, b"12345678")
DATA = frames.frame(frames.DATA, 0, 1, b"data")
OURS = frames.window_update(0, 1)


class Blocks:
    """Drops blocks on stream 9, forwards those on stream 7, reads the others."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.ended: list[tuple[int, int, Treatment]] = []

    def begin(self, buffer: bytes, cut: Cut) -> Treatment:
        return {9: Treatment.DROP, 7: Treatment.FORWARD}.get(cut[2], Treatment.READ)

    def end(self, stream: int, flags: int, treatment: Treatment) -> None:
        self.ended.append((stream, flags, treatment))


def direction(
    out: Parts, *, swallow: bool = False, add: bool = False, blocks: Blocks | None = None, own: OwnFrames | None = None
) -> Direction:
    """A direction that swallows DATA, or adds a frame of ours at each DATA."""

    def on_data(buffer: bytes, cut: Cut) -> bool:
        if add:
            out.append(OURS)
        return not swallow

    seen = blocks or Blocks()
    on_block = OnBlock(seen.begin, seen.read.append, seen.end)
    return Direction(out, {frames.DATA: on_data}, on_block, (own or OwnFrames(out, is_greeted=True)).hold_back)


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


def test_a_block_goes_on_frame_by_frame_as_it_comes_and_is_read_so() -> None:
    out: Parts = []
    blocks = Blocks()
    made = direction(out, blocks=blocks)
    first = frames.frame(frames.HEADERS, frames.PADDED, 1, b"\1a.")
    second, last = (frames.frame(frames.CONTINUATION, flags, 1, b"b") for flags in (0x8, frames.END_HEADERS))
    for came, frame in enumerate([first, second, last], 1):
        made.receive(frame)
        assert b"".join(out).endswith(frame)
        assert (len(blocks.read), made.is_clear, len(blocks.ended)) == (came, frame is last, frame is last)
    assert b"".join(out) == first + second + last
    assert (blocks.read, blocks.ended) == ([b"a", b"b", b"b"], [(1, frames.PADDED, Treatment.READ)])


def test_a_block_that_is_not_read_goes_on_and_its_end_is_told() -> None:
    out: Parts = []
    blocks = Blocks()
    block = block_frames(7, bytes(100_000), flags=frames.END_STREAM)
    direction(out, blocks=blocks).receive(block + PING)
    assert b"".join(out) == block + PING
    assert (blocks.read, blocks.ended) == ([], [(7, frames.END_STREAM, Treatment.FORWARD)])


def test_a_block_that_is_dropped_is_dropped_whole() -> None:
    out: Parts = []
    blocks = Blocks()
    direction(out, blocks=blocks).receive(block_frames(9, b"ab", size=1) + PING)
    assert (b"".join(out), blocks.read, blocks.ended) == (PING, [], [])


@pytest.mark.parametrize("kind", [frames.HEADERS, frames.PUSH_PROMISE])
@pytest.mark.parametrize("flags", [0, frames.PADDED])
def test_our_frames_wait_for_the_end_of_a_block_that_goes_on(kind: int, flags: int) -> None:
    out: Parts = []
    own = OwnFrames(out, is_greeted=True)
    made = direction(out, own=own)
    first = frames.frame(kind, flags, 7, bytes(5))
    second, last = (frames.frame(frames.CONTINUATION, flags, 7, b"b") for flags in (0, frames.END_HEADERS))
    made.receive(first + second[:5])
    assert not made.sends_last_block(7)
    own.send(OURS)
    made.receive(second[5:])
    own.send(OURS)
    made.receive(last + PING)
    assert b"".join(out) == first + second + last + OURS + OURS + PING


def test_our_frames_do_not_wait_for_the_end_of_a_block_that_is_dropped() -> None:
    out: Parts = []
    own = OwnFrames(out, is_greeted=True)
    made = direction(out, own=own)
    made.receive(frames.frame(frames.HEADERS, 0, 9, b"a"))
    own.send(OURS)
    assert out == [OURS]


@pytest.mark.parametrize("stream", [1, 7, 9])
@pytest.mark.parametrize("part", [b"", bytes(1023)])
def test_a_flood_of_small_frames_in_a_block_is_an_error(stream: int, part: bytes) -> None:
    made = direction([])
    with pytest.raises(ProtocolError, match="more than 128 CONTINUATION"):
        made.receive(frames.frame(frames.HEADERS, 0, stream) + frames.frame(frames.CONTINUATION, 0, stream, part) * 129)


def test_the_last_block_of_a_stream_is_known_while_it_is_sent_on() -> None:
    made = direction([])
    for stream, flags, expected in [
        (1, frames.END_STREAM, True),
        (1, 0, False),
        (7, 0x20, False),
        (9, frames.END_STREAM, False),
    ]:
        made.receive(frames.frame(frames.HEADERS, flags, stream, b"a"))
        assert (made.sends_last_block(stream), made.sends_last_block(3)) == (expected, False)
        made.receive(frames.frame(frames.CONTINUATION, frames.END_HEADERS, stream))
        assert not made.sends_last_block(stream)


def test_what_precedes_an_error_has_gone_on() -> None:
    out: Parts = []
    with pytest.raises(ProtocolError):
        direction(out).receive(PING + frames.frame(frames.CONTINUATION, 0, 1, b""))
    assert b"".join(out) == PING


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (frames.frame(frames.HEADERS, 0, 1) + PING, "interrupted"),
        (frames.frame(frames.HEADERS, 0, 1) + frames.frame(frames.CONTINUATION, 0, 3), "without a header block"),
        (frames.frame(frames.HEADERS, frames.END_HEADERS, 0), "HEADERS on stream 0"),
        (frames.frame(frames.PING, 0, 0, bytes(16_385)), "a frame of 16385 bytes"),
    ],
)
def test_frames_against_the_rules_are_an_error_after_those_before(data: bytes, problem: str) -> None:
    out: Parts = []
    with pytest.raises(ProtocolError, match=problem):
        direction(out).receive(PING + data)
    assert b"".join(out).startswith(PING)


def test_a_direction_is_clear_between_frames() -> None:
    made = direction([])
    clear = [made.is_clear]
    for part in (PING[:5], PING[5:], PING + PING[:12], PING[12:]):
        made.receive(part)
        clear.append(made.is_clear)
    assert clear == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("start", "end", "kind"),
    [
        (0, 20_000, bytes),
        (0, 8191, bytes),
        (10_000, 10_100, bytes),
        (0, 8192, memoryview),
        (5000, 15_000, memoryview),
        (10_000, 20_000, memoryview),
    ],
)
def test_a_long_part_of_a_buffer_is_a_view_and_the_whole_is_itself(start: int, end: int, kind: type) -> None:
    buffer = bytes(number % 251 for number in range(20_000))
    part = slice_of(buffer, start, end)
    assert type(part) is kind
    assert bytes(part) == buffer[start:end]
    assert (part is buffer) is (end - start == len(buffer))
