"""Fuzzing the splice: chunks do not matter, and garbage is a ProtocolError, never another exception."""

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.message import pack
from cri_proxy.relay.calls import Interest
from cri_proxy.relay.held_call import Held
from cri_proxy.relay.splice import Event, Splice
from tests.fakes.http2 import GREETING, reply, reply_headers, request, request_headers, trailers

STREAMS = st.integers(0, 5).map(lambda number: 2 * number + 1)
METHODS = st.sampled_from(["/s/Hold", "/s/Pass", "/old/Any"])
BODIES = st.binary(max_size=60)
ANY_FRAME = st.builds(
    frames.frame,
    st.integers(0, 11),
    st.sampled_from([0, 1, 4, 5, 8, 12, 0x25, 0xFF]),
    st.integers(0, 9),
    st.binary(max_size=20),
)
CLIENT_FRAMES = st.one_of(
    st.builds(request, STREAMS, METHODS, BODIES),
    st.builds(request_headers, STREAMS, METHODS),
    st.builds(lambda stream, body: frames.frame(frames.DATA, 0, stream, pack(body)), STREAMS, BODIES),
    st.builds(lambda stream, body: frames.frame(frames.DATA, 1, stream, pack(body)), STREAMS, BODIES),
    st.builds(frames.rst_stream, STREAMS, st.just(8)),
    st.builds(frames.window_update, STREAMS | st.just(0), st.integers(1, 1000)),
    st.sampled_from(
        [frames.settings_ack(), frames.settings([(1, 4096), (4, 9)]), frames.frame(frames.PING, 0, 0, bytes(8))]
    ),
    ANY_FRAME,
)
RUNTIME_FRAMES = st.one_of(
    st.builds(reply, STREAMS, BODIES),
    st.builds(reply_headers, STREAMS),
    st.builds(trailers, STREAMS, st.integers(0, 16)),
    st.builds(frames.rst_stream, STREAMS, st.sampled_from([0, 7, 8])),
    st.builds(frames.window_update, STREAMS | st.just(0), st.integers(1, 1000)),
    st.builds(frames.frame, st.just(frames.GOAWAY), st.just(0), st.just(0), st.binary(min_size=8, max_size=8)),
    st.builds(frames.settings, st.just([(4, 100)])),
    ANY_FRAME,
)


def wants(method: str) -> Interest:
    return {"/s/Hold": Interest.HOLD, "/old/Any": Interest.REFUSE}.get(method, Interest.PASS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a call, should it be held at that moment."""

    stream: int
    message: bytes | None
    refuse: bool = False
    unseen: bool = False


Turn = tuple[bool, bytes] | Verdict
"""Bytes of the client (True) or of the runtime, or a verdict."""

VERDICTS = st.builds(Verdict, STREAMS, st.none() | st.binary(max_size=300), st.booleans(), st.booleans())


def talk(turns: list[Turn]) -> tuple[bytes, bytes, list[Event], bool]:
    """Everything that comes out: to the client, to the runtime, events, and whether it broke."""
    splice = Splice(wants)
    broken = False
    for turn in turns:
        try:
            take(splice, turn)
        except ProtocolError:
            broken = True
            break
    splice.lost()
    assert_outcomes_are_told_once(splice.events)
    to_client, to_runtime = b"".join(splice.to_client), b"".join(splice.to_runtime)
    assert_whole_frames(to_client)
    assert_whole_frames(to_runtime)
    return to_client, to_runtime, list(splice.events), broken


def assert_whole_frames(data: bytes) -> None:
    """Nothing else leaves, whatever happened."""
    at = len(frames.PREFACE) if data.startswith(frames.PREFACE) else 0
    while at < len(data):
        at += frames.HEADER_BYTES + int.from_bytes(data[at : at + 3], "big")
    assert at == len(data)


def take(splice: Splice, turn: Turn) -> None:
    if not isinstance(turn, Verdict):
        from_client, data = turn
        (splice.receive_from_client if from_client else splice.receive_from_runtime)(data)
    elif turn.refuse:
        splice.refuse(turn.stream, 9, "no")
    elif turn.unseen:
        splice.refuse_unseen(turn.stream)
    else:
        splice.resume(turn.stream, turn.message)


def assert_outcomes_are_told_once(events: list[Event]) -> None:
    """Nobody is told the end of a call that was not shown, nor twice."""
    shown: set[int] = set()
    for event in events:
        if isinstance(event, Held):
            shown.add(event.stream)
        else:
            assert event.stream in shown
            shown.remove(event.stream)


def chunked(turns: list[Turn], seed: int, largest: int) -> list[Turn]:
    """The same bytes in the same order, in other chunks: what one side says without a pause is run together first."""
    sizes = random.Random(seed)
    joined: list[Turn] = []
    for turn in turns:
        last = joined[-1] if joined else None
        if not isinstance(turn, Verdict) and last is not None and not isinstance(last, Verdict) and last[0] == turn[0]:
            joined[-1] = (turn[0], last[1] + turn[1])
        else:
            joined.append(turn)
    result: list[Turn] = []
    for turn in joined:
        if isinstance(turn, Verdict):
            result.append(turn)
            continue
        start = 0
        while start < len(turn[1]):
            size = sizes.randint(1, largest)
            result.append((turn[0], turn[1][start : start + size]))
            start += size
    return result


FRAMES_OF_EITHER = st.tuples(st.just(True), CLIENT_FRAMES) | st.tuples(st.just(False), RUNTIME_FRAMES)
TURNS: st.SearchStrategy[list[Turn]] = st.lists(FRAMES_OF_EITHER | VERDICTS, max_size=14).map(
    lambda turns: [(True, GREETING), *turns]
)


@given(TURNS, st.integers(0, 999), st.sampled_from([1, 7, 30, 1000]))
@settings(max_examples=60, deadline=None)
def test_any_chunking_gives_the_same_bytes_and_events(turns: list[Turn], seed: int, largest: int) -> None:
    assert talk(turns) == talk(chunked(turns, seed, largest))


@given(TURNS, st.lists(st.tuples(st.integers(0, 500), st.integers(1, 255)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_break_the_conversation_at_most(turns: list[Turn], damage: list[tuple[int, int]]) -> None:
    damaged = list(turns)
    for number, change in damage:
        turn = damaged[number % len(damaged)]
        if not isinstance(turn, Verdict) and turn[1]:
            data = bytearray(turn[1])
            data[number % len(data)] ^= change
            damaged[number % len(damaged)] = (turn[0], bytes(data))
    talk(damaged)


@given(TURNS)
@settings(max_examples=60, deadline=None)
def test_a_wanted_message_never_leaves_without_a_verdict(turns: list[Turn]) -> None:
    marked = [
        (True, request(101, "/s/Hold", b"the secret message")) if index == len(turns) // 2 else turn
        for index, turn in enumerate([*turns, (True, b"")])
    ]
    assert b"the secret message" not in talk(marked)[1]
