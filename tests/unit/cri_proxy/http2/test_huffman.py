import time

import hpack
import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.huffman import _ASSIGNED, _BITS, _by_first_byte, decode, encode

MORE = 1 << 30
TEXTS = st.binary(max_size=200) | st.text(st.characters(max_codepoint=127), max_size=200).map(str.encode)


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_a_string_is_encoded_as_the_library_does_and_comes_back(plain: bytes) -> None:
    encoder = hpack.Encoder()
    assert encode(plain) == encoder.huffman_coder.encode(plain)
    assert decode(encode(plain), MORE) == plain


def test_the_codes_are_those_of_the_rfc() -> None:
    assert [*zip(_ASSIGNED, _BITS, strict=True)] == [*zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)]


def test_every_byte_has_its_code() -> None:
    assert all(decode(encode(bytes((byte,)) * 9), MORE) == bytes((byte,)) * 9 for byte in range(256))


def test_a_byte_names_the_character_whose_whole_code_it_begins_with() -> None:
    codes = enumerate(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True))
    short = [(symbol, code, bits) for symbol, (code, bits) in codes if bits <= 8]
    table = _by_first_byte()
    assert len(table) == 256
    for byte, found in enumerate(table):
        whole = [(symbol, bits) for symbol, code, bits in short if byte >> 8 - bits == code]
        assert found == (whole[0] if whole else None)


@given(st.binary(max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_decoded_or_refused_as_the_library_does(raw: bytes) -> None:
    try:
        expected = bytes(decode_huffman(raw))
    except hpack.HPACKError:
        with pytest.raises(ProtocolError):
            decode(raw, MORE)
    else:
        assert decode(raw, MORE) == expected


@given(TEXTS, st.integers(0, 250))
@settings(max_examples=100, deadline=None)
def test_the_beginning_is_had_without_the_rest(plain: bytes, most: int) -> None:
    assert decode(encode(plain), most) == plain[:most]


def test_what_follows_the_beginning_is_not_looked_at() -> None:
    assert decode(encode(b"a" * 100) + b"\xff" * 100, 50) == b"a" * 50


@pytest.mark.parametrize("character", [b"0", b"~", b"\x16"], ids=["5 bits", "13 bits", "30 bits"])
def test_a_string_of_four_times_the_length_takes_about_four_times_as_long(character: bytes) -> None:
    """A factor of 16 is what a cost that grows with the square of the length would have."""

    def seconds(length: int) -> float:
        raw = encode(character * 8) * (length // 8)  # whole bytes: eight codes of any length
        begin = time.process_time()
        assert len(decode(raw, MORE)) == length
        return time.process_time() - begin

    assert min(seconds(240_000) for _ in range(3)) < 10 * min(seconds(60_000) for _ in range(3))


def test_a_string_that_holds_the_code_of_its_end_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="holds its end"):
        decode(b"\xff" * 4, MORE)  # 30 ones (RFC 7541, 5.2), not padding of less than a byte


def test_more_than_seven_bits_of_padding_are_an_error() -> None:
    """RFC 7541, 5.2."""
    with pytest.raises(ProtocolError, match="ends within a character"):
        decode(encode(b"X") + b"\xff", MORE)


def test_when_there_is_enough_at_the_end_of_a_step_the_next_one_is_not_taken() -> None:
    assert decode(encode(b"X" * 32) + b"\xff" * 100, 29) == b"X" * 29  # so many are known to be whole then
