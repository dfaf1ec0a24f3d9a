"""Frames of the runtime for the whole connection: credits that are kept for the client, PINGs that are answered."""

import pytest

from cri_proxy.http2 import frames
from tests.fakes.http2 import block_frames, parse, reply, request, request_headers
from tests.fakes.spliced import PASS, forget, splice


def test_a_small_credit_for_the_connection_comes_with_the_next_frames_for_the_client() -> None:
    made = splice(request(1, PASS, b""))
    made.receive_from_runtime(frames.window_update(0, 5))
    made.receive_from_runtime(frames.window_update(0, 6) + frames.frame(frames.PING, 0, 0, b"12345678"))
    assert made.to_client == []
    made.receive_from_runtime(reply(1, b""))
    assert b"".join(made.to_client) == reply(1, b"") + frames.window_update(0, 11)


def test_who_needs_a_small_credit_has_it_at_once() -> None:
    made = splice(request_headers(1, PASS))
    made.receive_from_runtime(frames.window_update(0, 10_000))
    for _ in range(3):
        assert made.to_client == []
        made.receive_from_client(frames.frame(frames.DATA, 0, 1, bytes(13_000)))
    assert b"".join(made.to_client) == frames.window_update(0, 10_000)
    made.receive_from_client(frames.frame(frames.DATA, 0, 1, bytes(13_000)))
    forget(made)
    made.receive_from_runtime(frames.window_update(0, 1))
    assert b"".join(made.to_client) == frames.window_update(0, 1)


def test_a_credit_of_nothing_goes_on_for_the_client_to_judge() -> None:
    made = splice()
    made.receive_from_runtime(frames.window_update(0, 0))
    assert b"".join(made.to_client) == frames.window_update(0, 0)


@pytest.mark.parametrize("begin", [b"", frames.frame(frames.PRIORITY, 0, 7, bytes(5))], ids=["alone", "after another"])
def test_a_ping_of_the_runtime_is_answered_here(begin: bytes) -> None:
    made = splice()
    made.receive_from_runtime(begin + frames.frame(frames.PING, 0, 0, b"12345678"))
    assert b"".join(made.to_client) == begin
    assert b"".join(made.to_runtime) == frames.frame(frames.PING, frames.ACK, 0, b"12345678")


@pytest.mark.parametrize("begin", [b"", frames.frame(frames.PRIORITY, 0, 7, bytes(5))], ids=["alone", "after another"])
def test_a_ping_on_a_stream_is_for_the_client_to_judge(begin: bytes) -> None:
    made, wrong = splice(), frames.frame(frames.PING, 0, 7, b"12345678")
    made.receive_from_runtime(begin + wrong)
    assert (b"".join(made.to_client), b"".join(made.to_runtime)) == (begin + wrong, b"")


def test_the_answer_to_a_ping_waits_for_the_end_of_a_header_block() -> None:
    headers = block_frames(1, request_headers(1, PASS)[9:], size=10)
    first, rest = headers[:19], headers[19:]
    made = splice(first)
    made.receive_from_runtime(frames.frame(frames.PING, 0, 0, b"12345678"))
    assert b"".join(made.to_runtime) == first
    made.receive_from_client(rest)
    assert parse(made.to_runtime)[-1] == (frames.PING, frames.ACK, 0, b"12345678")
