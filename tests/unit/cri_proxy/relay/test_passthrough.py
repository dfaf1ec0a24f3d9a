from itertools import count, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import FieldReader, Headers
from cri_proxy.http2.message import pack
from cri_proxy.relay.answers import Goaway
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.passthrough import PassthroughCalls
from cri_proxy.relay.preface import OwnFrames
from cri_proxy.relay.splice import Splice
from cri_proxy.relay.upstream import Upstream
from tests.fakes.http2 import GREETING, parse, reply, reply_headers, request, request_headers, trailers
from tests.fakes.spliced import OLD, PASS, wants

KNOWN, NEW = "/s/Known", "/s/New"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
WINDOW_UPDATE = frames.window_update(0, 1)


class Lane:
    """Pass-through calls of which one method is known, and what they sent on."""

    def __init__(self) -> None:
        self.to_client: Parts = []
        self.to_runtime: Parts = []
        self.new: list[tuple[int, bytes]] = []
        self.passed: dict[bytes, int] = {}
        self.own = OwnFrames(self.to_client, is_greeted=True)
        self.upstream = Upstream(self.own, OwnFrames(self.to_runtime, is_greeted=True))
        self.goaway = Goaway(self.own)
        reader = FieldReader(frozenset({b":path"}))
        self.passing = PassthroughCalls(self.upstream, self.goaway, reader, self.on_new, self.passed)
        self.passing.learn(1, KNOWN.encode())
        self.passing.last_stream = 1

    def on_new(self, stream: int, headers: Headers, ends: bool) -> None:
        self.new.append((stream, headers[b":path"]))


def test_calls_of_a_known_method_go_on_as_they_came_and_are_counted() -> None:
    lane, data = Lane(), request(3, KNOWN, b"x") + request(5, KNOWN, b"y")
    assert lane.passing.requests(data) == b""
    assert lane.to_runtime == [data]
    assert (lane.passed[KNOWN.encode()], lane.passing.last_stream, lane.passing.streams) == (3, 5, {1, 3, 5})


def test_what_they_take_of_the_window_is_counted() -> None:
    lane = Lane()
    lane.passing.requests(request(3, KNOWN, b"x"))
    assert lane.upstream.window_bytes == frames.DEFAULT_WINDOW_BYTES - len(pack(b"x"))


def test_an_unknown_method_is_shown_after_its_headers_went_on_and_its_message_is_left() -> None:
    lane, head = Lane(), request(3, KNOWN, b"x") + request_headers(5, NEW)
    assert lane.passing.requests(head + WINDOW_UPDATE) == WINDOW_UPDATE
    assert (b"".join(lane.to_runtime), lane.new) == (head, [(5, NEW.encode())])


@pytest.mark.parametrize(
    "rest",
    [
        frames.window_update(9, 1),
        frames.settings_ack(),
        request(3, KNOWN, b"x")[:-1],
        request(3, KNOWN, b"x")[:5],
        request_headers(3, KNOWN, end=True),
        request_headers(1, KNOWN),
        frames.frame(frames.HEADERS, 0, 3),
        request_headers(1 << 31 | 3, KNOWN),
        frames.frame(frames.DATA, 0, 1 << 31 | 1),
        frames.frame(frames.HEADERS, frames.END_HEADERS | frames.PADDED, 3, b"\0"),
        frames.frame(frames.DATA, 0, 9),
        frames.frame(frames.DATA, 0, 1, bytes(frames.DEFAULT_FRAME_BYTES + 1)),
    ],
)
def test_the_first_frame_that_needs_a_look_and_all_after_it_are_left(rest: bytes) -> None:
    lane, before = Lane(), frames.frame(frames.DATA, 0, 1, b"more")
    left = lane.passing.requests(before + rest)
    assert before + rest == b"".join(lane.to_runtime) + left
    assert lane.passing.last_stream in (1, 3)
    assert left
    assert lane.to_client == []


def test_what_came_before_a_malformed_block_goes_on() -> None:
    lane, before = Lane(), request(3, KNOWN, b"x")
    with pytest.raises(ProtocolError):
        lane.passing.requests(before + frames.frame(frames.HEADERS, frames.END_HEADERS, 5, b"\x80"))
    assert b"".join(lane.to_runtime) == before


def test_data_beyond_the_window_is_left() -> None:
    lane, data = Lane(), frames.frame(frames.DATA, 0, 1, b"12345")
    lane.upstream.window_bytes = 4
    assert lane.passing.requests(data) == data


def test_an_end_that_needs_no_window_does_not_overtake_what_waits_for_it() -> None:
    lane, end, data = Lane(), frames.frame(frames.DATA, frames.END_STREAM, 1), frames.frame(frames.DATA, 0, 1, b"12345")
    lane.upstream.window_bytes, lane.upstream.debt_bytes = 4, 1
    assert not lane.upstream.pass_data(data, (frames.DATA, 0, 1, 0, len(data)))
    assert lane.passing.requests(end) == end


def test_replies_go_on_as_they_came_and_end_their_calls() -> None:
    lane, data = Lane(), reply(1, b"x")
    assert lane.passing.replies(data) == b""
    assert (lane.to_client, lane.passing.streams) == ([data], set())


@pytest.mark.parametrize(
    "rest",
    [
        frames.window_update(3, 1),
        frames.frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\1"),
        frames.settings_ack(),
        reply(3, b"somebody else's"),
        reply_headers(1)[:-1],
        frames.frame(frames.HEADERS, frames.END_STREAM, 1),
        frames.rst_stream(1, 0),
        frames.frame(frames.DATA, 0, 1, bytes(frames.DEFAULT_FRAME_BYTES + 1)),
    ],
)
def test_the_first_frame_that_is_no_reply_to_a_passing_call_is_left(rest: bytes) -> None:
    lane, before = Lane(), reply_headers(1)
    assert lane.passing.replies(before + rest) == rest
    assert lane.to_client == [before]


PING = frames.frame(frames.PING, 0, 0, bytes(8))
ANSWER = frames.frame(frames.PING, frames.ACK, 0, bytes(8))


def test_pings_and_credits_of_both_ends_go_on_with_others() -> None:
    lane, controls = Lane(), PING + WINDOW_UPDATE + frames.window_update(1, 7)
    assert lane.passing.requests(controls) + lane.passing.replies(controls) == b""
    assert (lane.to_runtime, lane.to_client) == ([controls], [controls])
    assert lane.upstream.window_bytes == frames.DEFAULT_WINDOW_BYTES + 1


@pytest.mark.parametrize("rest", [b"", ANSWER, reply(1, b"x"), frames.window_update(1, 7), PING[:-1], PING[:5]])
def test_a_ping_of_the_runtime_is_answered_and_a_small_credit_kept_where_they_come_alone(rest: bytes) -> None:
    lane = Lane()
    assert lane.passing.control(PING + WINDOW_UPDATE + rest) == (b"" if rest == ANSWER else rest)
    assert (lane.to_runtime, lane.to_client) == ([ANSWER], [ANSWER] if rest == ANSWER else [])
    assert lane.upstream.window_bytes == frames.DEFAULT_WINDOW_BYTES + 1
    assert (lane.upstream.kept_bytes, lane.passing.streams) == (1, {1})


def test_the_rest_of_a_long_frame_is_no_control_frame() -> None:
    lane = Lane()
    begin = frames.frame(frames.DATA, 0, 1, bytes(100) + PING)[: -len(PING)]
    assert lane.passing.replies(begin) == b""
    assert lane.passing.control(PING) == PING


def test_a_ping_that_may_answer_the_goaway_is_left() -> None:
    lane = Lane()
    lane.goaway.ask()
    assert lane.passing.requests(PING) == PING


@pytest.mark.parametrize("owe", ["debt", "waiting", "held"])
def test_a_credit_that_others_wait_for_is_left(owe: str) -> None:
    lane, data = Lane(), frames.frame(frames.DATA, 0, 1, b"12345")
    if owe == "debt":
        lane.upstream.debt_bytes = 1
    elif owe == "waiting":
        lane.upstream.window_bytes, lane.upstream.debt_bytes = 4, 1
        lane.upstream.pass_data(data, (frames.DATA, 0, 1, 0, len(data)))
    else:
        lane.upstream.open(5)
    assert lane.passing.replies(PING + WINDOW_UPDATE) == WINDOW_UPDATE


LONG = frames.frame(frames.DATA, 0, 1, bytes(range(250)) * 4)


def test_the_rest_of_a_long_frame_goes_on_as_it_comes() -> None:
    lane, data = Lane(), reply_headers(1) + LONG + LONG
    for start in range(0, len(data), 300):
        assert lane.passing.replies(data[start : start + 300]) == b""
    assert (len(lane.to_client), b"".join(lane.to_client)) == (7, data)


@given(st.lists(st.tuples(st.integers(1, 1500), st.booleans()), min_size=1, max_size=9))
def test_frames_of_the_relay_stand_between_those_of_the_runtime(chunks: list[tuple[int, bool]]) -> None:
    made, streams = Splice(wants), count(101, 2)
    made.receive_from_client(GREETING + request(1, PASS, b""))
    replies = frames.settings([]) + reply_headers(1) + 3 * LONG + ANSWER + LONG + trailers(1)
    position, refused, turns = 0, list[int](), cycle(chunks)
    while position < len(replies):
        size, refuses = next(turns)
        made.receive_from_runtime(replies[position : position + size])
        position += size
        if refuses and len(refused) < 400:
            refused.append(next(streams))
            made.receive_from_client(request(refused[-1], OLD, b""))
    found = parse(made.to_client)
    assert [frame for frame in found if frame[2] < 101 and frame[0] != frames.WINDOW_UPDATE] == parse(replies)
    assert [stream for kind, _, stream, _ in found if stream >= 101 and kind == frames.HEADERS] == refused


def test_a_last_frame_is_not_begun_before_it_is_whole() -> None:
    lane, last = Lane(), frames.frame(frames.DATA, frames.END_STREAM, 1, bytes(100))
    assert lane.passing.replies(last[:50]) == last[:50]
    assert lane.passing.streams == {1}


def test_before_the_settings_of_the_runtime_no_frame_is_begun_before_it_is_whole() -> None:
    lane = Lane()
    lane.own.hold_back(True)
    assert lane.passing.replies(LONG[:50]) == LONG[:50]
    assert not lane.own.is_open


def test_nothing_follows_the_end_of_a_reply() -> None:
    assert Lane().passing.replies(trailers(1) + trailers(1)) == trailers(1)


def test_a_stream_without_end_is_counted_and_not_followed() -> None:
    lane = Lane()
    lane.passing.learn(3, EVENTS.encode())
    assert lane.passing.knows(5, EVENTS.encode())
    assert (lane.passed[EVENTS.encode()], lane.passing.streams) == (2, {1})


@pytest.mark.parametrize("size", [250, 256, 300, 600])
def test_messages_and_replies_of_more_than_a_byte_of_length_go_on_with_what_follows(size: int) -> None:
    lane = Lane()
    calls = request(3, KNOWN, bytes(size)) + request(5, KNOWN, b"y") + request(7, KNOWN, bytes(size))
    assert (lane.passing.requests(calls), lane.passing.streams) == (b"", {1, 3, 5, 7})
    replies = reply(3, bytes(size)) + reply(5, b"y") + reply(7, bytes(size))
    assert (lane.passing.replies(replies), lane.passing.streams) == (b"", {1})
