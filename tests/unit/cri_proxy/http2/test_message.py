import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2.message import MAX_MESSAGE_BYTES, SLACK_BYTES, MessageError, pack, unpack_one
from cri_proxy.http2.status import Code


def compressed(message: bytes) -> bytes:
    return b"\1" + pack(message)[1:]


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_a_message_is_unpacked_as_it_was_packed(message: bytes) -> None:
    assert unpack_one(pack(message)) == message


@given(st.binary(max_size=30))
@settings(deadline=None)
def test_any_bytes_are_one_message_or_an_error(body: bytes) -> None:
    try:
        assert pack(unpack_one(body)) == body
    except MessageError as error:
        assert error.code in {Code.INTERNAL, Code.UNIMPLEMENTED}


@pytest.mark.parametrize(
    "body", [b"", b"\0\0\0", b"\0\1\0\0\0", pack(b"abc")[:-1], pack(b"abc") + b"x", pack(b"a") + pack(b"b")]
)
def test_less_or_more_than_one_message_is_internal(body: bytes) -> None:
    with pytest.raises(MessageError) as error:
        unpack_one(body)
    assert error.value.code is Code.INTERNAL


@pytest.mark.parametrize(("encoding", "press"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
def test_gzip_and_deflate_are_read(encoding: bytes, press: Callable[[bytes], bytes]) -> None:
    assert unpack_one(compressed(press(b"message" * 100)), encoding) == b"message" * 100


@pytest.mark.parametrize("encoding", [b"", b"identity", b"snappy"])
def test_another_encoding_is_unimplemented(encoding: bytes) -> None:
    with pytest.raises(MessageError, match="use gzip, deflate or none") as error:
        unpack_one(compressed(b"x"), encoding)
    assert error.value.code is Code.UNIMPLEMENTED
    assert f"compressed with {(encoding or b'identity').decode()};" in str(error.value)


@pytest.mark.parametrize("rest", [gzip.compress(b"two", mtime=0), b"x"], ids=["member", "foreign"])
def test_nothing_follows_a_compressed_message(rest: bytes) -> None:
    with pytest.raises(MessageError, match=f"is followed by {len(rest)} bytes"):
        unpack_one(compressed(gzip.compress(b"one", mtime=0) + rest), b"gzip")


@pytest.mark.parametrize("damaged", [b"no gzip", gzip.compress(b"message", mtime=0)[:-4]], ids=["foreign", "cut off"])
def test_damaged_compression_is_internal(damaged: bytes) -> None:
    with pytest.raises(MessageError) as error:
        unpack_one(compressed(damaged), b"gzip")
    assert error.value.code is Code.INTERNAL


def test_a_bomb_is_exhausting() -> None:
    with pytest.raises(MessageError) as error:
        unpack_one(compressed(gzip.compress(bytes(2 * MAX_MESSAGE_BYTES), 1)), b"gzip")
    assert error.value.code is Code.RESOURCE_EXHAUSTED


def test_what_is_just_too_large_is_left_to_the_runtime() -> None:
    most = MAX_MESSAGE_BYTES + SLACK_BYTES
    assert len(unpack_one(compressed(gzip.compress(bytes(most), 1)), b"gzip")) == most
    with pytest.raises(MessageError, match="grows beyond"):
        unpack_one(compressed(gzip.compress(bytes(most + 1), 1)), b"gzip")
