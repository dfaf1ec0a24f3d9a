from contextlib import suppress

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import FieldReader, HeaderReader, write_literals

WANTED = frozenset({b":path", b"x"})
KNOWN_NAMES = [b":path", b"grpc-timeout", b"content-type", b"x", b"tracestate"]
NAMES = st.sampled_from(KNOWN_NAMES) | st.binary(max_size=12)
VALUES = st.sampled_from([b"100m", b"application/grpc", b"/", b"/s/Method", b""]) | st.binary(max_size=60)
FIELDS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=8)
TABLE_BYTES = st.none() | st.sampled_from([0, 64, 200, 4096, 8192])
# RFC 7541, appendix C.4: three requests on one connection, Huffman coded.
RFC_BLOCKS = [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
]
# Blocks that end in the middle of a field or of a number.
DAMAGED = [b"\x80", b"\xff", b"\xff" * 7, b"\x40", b"\x40\x05ab", b"\x3f\xff\xff\xff\x7f", b"\x7f\x80"]


def reader_of(wanted: frozenset[bytes] | None) -> HeaderReader | FieldReader:
    return HeaderReader() if wanted is None else FieldReader(wanted)


def test_the_example_of_the_standard_is_read() -> None:
    reader = HeaderReader()
    read = [reader.read(bytes.fromhex(block)) for block in RFC_BLOCKS]
    assert [headers[b":authority"] for headers in read] == [b"www.example.com"] * 3
    assert read[1][b"cache-control"] == b"no-cache"
    assert (read[2][b"custom-key"], read[2][b":scheme"]) == (b"custom-value", b"https")


@pytest.mark.parametrize("wanted", [None, WANTED], ids=["all fields", "some names"])
@given(st.lists(st.tuples(FIELDS, st.booleans(), TABLE_BYTES), max_size=12))
@settings(max_examples=100, deadline=None)
def test_the_reader_follows_any_encoder(
    wanted: frozenset[bytes] | None, blocks: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]]
) -> None:
    encoder, reader = hpack.Encoder(), reader_of(wanted)
    for fields, huffman, table_bytes in blocks:
        if table_bytes is not None:
            encoder.header_table_size = table_bytes
        block = encoder.encode(
            [hpack.HeaderTuple(n, v) if i else hpack.NeverIndexedHeaderTuple(n, v) for n, v, i in fields],
            huffman=huffman,
        )
        assert reader.read(block) == {n: v for n, v, _ in fields if wanted is None or n in wanted}


@pytest.mark.parametrize("wanted", [None, WANTED], ids=["all fields", "some names"])
@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_block_is_read_or_is_a_protocol_error(wanted: frozenset[bytes] | None, block: bytes) -> None:
    with suppress(ProtocolError):
        reader_of(wanted).read(block)


@given(st.binary(max_size=30))
@settings(max_examples=50, deadline=None)
def test_any_huffman_string_is_read_as_the_library_reads_it(raw: bytes) -> None:
    block = b"\x00\x01x" + bytes((0x80 | len(raw),)) + raw
    try:
        expected = dict(hpack.Decoder().decode(block, raw=True))[b"x"]
    except hpack.HPACKError:
        with pytest.raises(ProtocolError):
            HeaderReader().read(block)
    else:
        assert HeaderReader().read(block)[b"x"] == expected


@pytest.mark.parametrize("block", [*DAMAGED, b"\xbe"])
def test_a_damaged_block_is_an_error(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        HeaderReader().read(block)


@pytest.mark.parametrize("block", [*DAMAGED, b"\x40\x01a\x05ab"])
def test_a_block_that_ends_early_is_an_error_to_who_reads_some_names(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        FieldReader(WANTED).read(block)


def test_with_a_table_of_size_0_nothing_is_kept() -> None:
    reader = HeaderReader(table_bytes=0)
    reader.read(b"\x40\x01a\x01b")
    with pytest.raises(ProtocolError):
        reader.read(b"\xbe")


@pytest.mark.parametrize("drives_out", [b"\x40\x01c\x01d", b"\x3f\x02"])
def test_an_entry_that_was_driven_out_is_an_error(drives_out: bytes) -> None:
    """By a younger one, or by a smaller table: what is kept of a connection that lives for months is bounded."""
    reader = HeaderReader(table_bytes=64)  # of the 34 bytes of an entry (RFC 7541, 4.1) it has room for one
    reader.read(b"\x40\x01a\x01b")
    assert reader.read(b"\xbe") == {b"a": b"b"}
    reader.read(drives_out)
    with pytest.raises(ProtocolError):
        reader.read(b"\xbf" if drives_out[0] == 0x40 else b"\xbe")


def test_an_entry_is_known_for_as_long_as_its_encoder_may_name_it() -> None:
    """The table takes the more entries the smaller they are; every name and path comes around again."""
    encoder, reader = hpack.Encoder(), FieldReader(WANTED)
    for number in range(600):
        fields = [(":path", f"/s/M{number % 7}"), ("grpc-timeout", f"{number}u"), ("z" * (number % 90), "~" * 40)]
        assert reader.read(encoder.encode(fields)) == {b":path": b"/s/M%d" % (number % 7)}


@pytest.mark.parametrize("wanted", [None, WANTED], ids=["all fields", "some names"])
@pytest.mark.parametrize("table_bytes", [4096, 1024])
def test_an_entry_is_known_until_the_last_byte_of_the_table_is_needed(
    wanted: frozenset[bytes] | None, table_bytes: int
) -> None:
    """A path that is forgotten while its encoder still names it makes a call that nobody inspects."""
    reader = reader_of(wanted)
    resize = b"\x3f" + bytes(((table_bytes - 31) & 0x7F | 0x80, (table_bytes - 31) >> 7))
    reader.read(resize + b"\x44\x02/a")  # 39 bytes: 32, the name and the value (RFC 7541, 4.1)
    others = (table_bytes - 39 - 33) // 32
    reader.read(b"\x40\x00\x00" * others + b"\x40\x01x\x00")  # of the least size that there is, and one of 33 bytes
    index = 62 + others + 1
    known = bytes((0x80 | index,)) if index < 0x7F else bytes((0xFF, index - 0x7F))
    assert reader.read(known) == {b":path": b"/a"}


def test_what_an_encoder_cannot_name_any_more_is_forgotten() -> None:
    reader = FieldReader(WANTED)
    for number in range(10_000):
        path = b"/%d" % number
        reader.read(b"\x44" + bytes((len(path),)) + path)
    assert len(reader._entries) <= 4096 // 32 + 2  # the static table has two paths


def test_a_value_that_is_not_wanted_is_not_decoded() -> None:
    damaged = b"\x40\x02no\x84\xff\xff\xff\xff"
    assert FieldReader(WANTED).read(damaged + b"\x00\x01x\x01y") == {b"x": b"y"}


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=5000)), max_size=5))
@settings(max_examples=50, deadline=None)
def test_our_literals_are_read_by_any_decoder_and_leave_its_table_alone(fields: list[tuple[bytes, bytes]]) -> None:
    decoder = hpack.Decoder()
    assert [tuple(field) for field in decoder.decode(write_literals(fields), raw=True)] == fields
    assert len(decoder.header_table.dynamic_entries) == 0
