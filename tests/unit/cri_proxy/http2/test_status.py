import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.foreign_text import WORDS_BYTES
from cri_proxy.http2.status import UNKNOWN_OUTCOME, Code, Failed, decode_message, encode_message, from_trailers


def test_numbers_are_those_of_grpc() -> None:
    assert {code.name: code.value for code in Code} == {code.name: code.value[0] for code in grpc.StatusCode}


@given(st.text(max_size=60).filter(lambda text: text.isprintable()))
@settings(deadline=None)
def test_a_message_survives_the_trip(message: str) -> None:
    encoded = encode_message(message)
    assert decode_message(encoded) == message
    assert all(0x20 <= byte <= 0x7E for byte in encoded)


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_any_message_can_be_shown(raw: bytes) -> None:
    assert isinstance(decode_message(raw), str)


@pytest.mark.parametrize("before", range(4085, 4100))
@pytest.mark.parametrize("after", [0, 1, 3, 1_000_000])
def test_a_long_message_is_cut_between_two_characters(before: int, after: int) -> None:
    message = "a" * before + "€" + "b" * after
    decoded = decode_message(encode_message(message))
    assert message.startswith(decoded)
    assert min(len(message), 4080) <= len(decoded) <= 4096


def test_ok_is_no_failure() -> None:
    assert from_trailers({b"grpc-status": b"0"}) is None


def test_a_status_has_its_message() -> None:
    assert from_trailers({b"grpc-status": b"5", b"grpc-message": b"100%25"}) == Failed(5, "100%")


@pytest.mark.parametrize("raw", [b"", b"x", b"-1", b"1000000000", b"99999999999999999999"])
def test_a_status_that_is_no_number_is_unknown(raw: bytes) -> None:
    assert from_trailers({b"grpc-status": raw}) == Failed(Code.UNKNOWN, "")


@pytest.mark.parametrize(
    ("http", "code"),
    [(b"404", Code.UNIMPLEMENTED), (b"503", Code.UNAVAILABLE), (b"200", Code.UNKNOWN), (b"", Code.UNKNOWN)],
)
def test_without_a_grpc_status_the_http_status_decides(http: bytes, code: Code) -> None:
    failure = from_trailers({b":status": http} if http else {})
    assert failure is not None
    assert failure.code == code


def test_a_runtime_that_stopped_waiting_leaves_the_outcome_unknown() -> None:
    assert {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE} == UNKNOWN_OUTCOME


def test_what_is_recorded_of_a_long_refusal_is_its_beginning() -> None:
    failed = from_trailers({b"grpc-status": b"2", b"grpc-message": encode_message("no:\n" + "x" * 400_000)})
    assert failed is not None
    assert failed.message.startswith("no:\\nxxx")
    assert failed.message.endswith(" more bytes were cut)")
    assert "... (at least " in failed.message
    assert len(failed.message) <= WORDS_BYTES


def test_the_http_status_of_a_reply_without_a_grpc_status_is_named() -> None:
    texts = [str(from_trailers({b":status": status})) for status in (b"503", b"")]
    assert [("HTTP status 503" in text, "HTTP status missing" in text) for text in texts] == [
        (True, False),
        (False, True),
    ]


def test_what_http_cannot_carry_is_escaped_and_nothing_else() -> None:
    assert encode_message(" !$%&}~\x1f\x7f") == b" !$%25&}~%1F%7F"


@pytest.mark.parametrize(("end", "shown"), [(b"%C", ""), (b"%", ""), (b"%41", "A")])
def test_of_a_message_that_was_cut_a_whole_escape_is_kept_and_a_part_is_not(end: bytes, shown: str) -> None:
    assert decode_message((b"a" * (4096 - len(end))) + end) == "a" * (4096 - len(end)) + shown


def test_what_is_recorded_of_a_failure_is_visible() -> None:
    assert Failed(5, "no\n").message == "no\\n"
