import gzip

import pytest

from cri_proxy.http2.message import pack
from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import Aborted, Outcome, Replied
from cri_proxy.relay.held_call import MAX_BODY_BYTES, HeldCall
from cri_proxy.relay.upstream import Outgoing

OK = {b"grpc-status": b"0"}


def held(*, sent_bytes: int = 10) -> HeldCall:
    return HeldCall(1, "/s/Hold", {}, Outgoing(1, 0, sent_bytes=sent_bytes))


@pytest.mark.parametrize(
    ("trailers", "outcome"),
    [
        (OK, Replied(b"id")),
        (None, Replied(b"id")),  # trailers that could not be read: a reply is proof enough
        ({b"grpc-status": b"5", b"grpc-message": b"gone"}, Failed(5, "gone")),
        ({b"grpc-status": b"4"}, Aborted(sent=True)),
    ],
)
def test_an_outcome_is_that_of_the_trailers(trailers: dict[bytes, bytes] | None, outcome: Outcome) -> None:
    call = held()
    call.see_reply(pack(b"id"))
    assert call.outcome(trailers) == outcome


def test_ok_without_a_whole_message_is_no_answer() -> None:
    call = held()
    call.see_reply(pack(b"id")[:-1])
    assert call.outcome(OK) == Aborted(sent=True)


@pytest.mark.parametrize("sent_bytes", [0, 1])
def test_without_an_answer_it_matters_whether_anything_was_sent(sent_bytes: int) -> None:
    assert held(sent_bytes=sent_bytes).broken() == Aborted(sent=sent_bytes > 0)


def test_a_reply_beyond_the_bound_is_not_kept() -> None:
    call = held()
    call.see_reply(bytes(MAX_BODY_BYTES))
    assert len(call._reply) == MAX_BODY_BYTES
    call.see_reply(b"x")
    assert not call._reply
    assert call.outcome(OK) == Aborted(sent=True)


def test_of_a_reply_beyond_the_bound_no_later_part_is_an_answer() -> None:
    call = held()
    call.see_reply(bytes(MAX_BODY_BYTES + 1))
    call.see_reply(pack(b"id"))
    assert call.outcome(OK) == Aborted(sent=True)


def test_a_complete_request_is_kept_once_or_with_its_plain_message() -> None:
    plain, squeezed = held(), held()
    plain.request += pack(b"message")
    assert (plain.complete(), plain.message, bytes(plain.request)) == (0, b"message", b"")
    squeezed.headers = {b"grpc-encoding": b"gzip"}
    squeezed.request += b"\1" + pack(gzip.compress(b"message"))[1:]
    assert (squeezed.complete(), squeezed.message) == (7, b"message")
    assert squeezed.request


def test_a_reply_has_begun_with_its_headers_though_they_could_not_be_read() -> None:
    call = held()
    assert not call.reply_begun
    call.see_reply_headers(None)
    assert call.reply_begun
