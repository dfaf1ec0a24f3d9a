"""Fields of some names: the reader stays in step with any encoder, and looks at nothing that it need not."""

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import FieldReader

WANTED = frozenset({b":path", b"x"})
NAMES = st.sampled_from([b":path", b"grpc-timeout", b"x", b"tracestate"]) | st.binary(max_size=12)
VALUES = st.sampled_from([b"100m", b"/", b"/s/Method", b""]) | st.binary(max_size=60)
FIELDS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=8)
TABLE_BYTES = st.none() | st.sampled_from([0, 64, 200, 4096, 8192])


@given(st.lists(st.tuples(FIELDS, st.booleans(), TABLE_BYTES), max_size=12))
@settings(max_examples=100, deadline=None)
def test_the_reader_follows_any_encoder(blocks: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]]) -> None:
    encoder, reader = hpack.Encoder(), FieldReader(WANTED)
    for fields, huffman, table_bytes in blocks:
        if table_bytes is not None:
            encoder.header_table_size = table_bytes
        block = encoder.encode(
            [hpack.HeaderTuple(n, v) if i else hpack.NeverIndexedHeaderTuple(n, v) for n, v, i in fields],
            huffman=huffman,
        )
        assert reader.read(block) == {name: value for name, value, _ in fields if name in WANTED}


def test_an_entry_is_known_for_as_long_as_its_encoder_may_name_it() -> None:
    """The table takes the more entries the smaller they are; every name and path comes around again."""
    encoder, reader = hpack.Encoder(), FieldReader(WANTED)
    for number in range(600):
        fields = [(":path", f"/s/M{number % 7}"), ("grpc-timeout", f"{number}u"), ("z" * (number % 90), "~" * 40)]
        assert reader.read(encoder.encode(fields)) == {b":path": b"/s/M%d" % (number % 7)}


def test_what_an_encoder_cannot_name_any_more_is_forgotten() -> None:
    reader = FieldReader(WANTED)
    for number in range(10_000):
        path = b"/%d" % number
        reader.read(b"\x44" + bytes((len(path),)) + path)
    assert len(reader._entries) <= 4096 // 32 + 2  # the static table has two paths


def test_a_value_that_is_not_wanted_is_not_decoded() -> None:
    damaged = b"\x40\x02no\x84\xff\xff\xff\xff"
    assert FieldReader(WANTED).read(damaged + b"\x00\x01x\x01y") == {b"x": b"y"}


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_block_is_read_or_is_a_protocol_error(block: bytes) -> None:
    try:
        FieldReader(WANTED).read(block)
    except ProtocolError:
        return


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",
        b"\xff",
        b"\xff\xff\xff\xff\xff\xff\xff",
        b"\x40",
        b"\x40\x05ab",
        b"\x40\x01a\x05ab",
        b"\x3f\xff\xff\xff\x7f",
        b"\x7f\x80",
    ],
)
def test_a_block_that_ends_early_is_an_error(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        FieldReader(WANTED).read(block)
