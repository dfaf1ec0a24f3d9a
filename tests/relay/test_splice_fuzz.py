"""Fuzzing the splice: chunks do not matter, and garbage is a ProtocolError, never another exception."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.relay import frames
from cri_proxy.relay.calls import Interest
from cri_proxy.relay.frames import ProtocolError
from cri_proxy.relay.message import pack
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


def talk(turns: list[tuple[bool, bytes]]) -> tuple[bytes, bytes, list[Event], bool]:
    """Everything that comes out: to the client, to the runtime, events, and whether it broke."""
    splice = Splice(wants)
    broken = False
    for from_client, data in turns:
        try:
            (splice.receive_from_client if from_client else splice.receive_from_runtime)(data)
        except ProtocolError:
            broken = True
            break
    return b"".join(splice.to_client), b"".join(splice.to_runtime), list(splice.events), broken


def chunked(turns: list[tuple[bool, bytes]], seed: int, largest: int) -> list[tuple[bool, bytes]]:
    """The same bytes in the same order, each turn in several chunks."""
    sizes = random.Random(seed)
    result = []
    for from_client, data in turns:
        start = 0
        while start < len(data):
            size = sizes.randint(1, largest)
            result.append((from_client, data[start : start + size]))
            start += size
    return result


TURNS = st.lists(st.tuples(st.just(True), CLIENT_FRAMES) | st.tuples(st.just(False), RUNTIME_FRAMES), max_size=14).map(
    lambda turns: [(True, GREETING), *turns]
)


@given(TURNS, st.integers(0, 999), st.sampled_from([1, 7, 30]))
@settings(max_examples=60, deadline=None)
def test_any_chunking_gives_the_same_bytes_and_events(turns: list[tuple[bool, bytes]], seed: int, largest: int) -> None:
    assert talk(turns) == talk(chunked(turns, seed, largest))


@given(TURNS, st.lists(st.tuples(st.integers(0, 500), st.integers(1, 255)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_break_the_conversation_at_most(
    turns: list[tuple[bool, bytes]], damage: list[tuple[int, int]]
) -> None:
    damaged = [(from_client, bytearray(data)) for from_client, data in turns]
    for number, change in damage:
        data = damaged[number % len(damaged)][1]
        if data:
            data[number % len(data)] ^= change
    talk([(from_client, bytes(data)) for from_client, data in damaged])


@given(TURNS)
@settings(max_examples=60, deadline=None)
def test_a_wanted_message_never_leaves_without_a_verdict(turns: list[tuple[bool, bytes]]) -> None:
    marked = [
        (True, request(101, "/s/Hold", b"the secret message")) if index == len(turns) // 2 else turn
        for index, turn in enumerate([*turns, (True, b"")])
    ]
    assert b"the secret message" not in talk(marked)[1]
