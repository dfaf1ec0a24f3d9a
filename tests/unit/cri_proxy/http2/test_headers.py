from contextlib import suppress

import hpack
import pytest
from hpack.table import HeaderTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import huffman
from cri_proxy.http2.frames import COMPRESSION_ERROR, ProtocolError
from cri_proxy.http2.headers import _STATIC, VALUE_BYTES, FieldReader, Headers, decoded, write_literals

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


def in_parts(reader: FieldReader, block: bytes, *sizes: int) -> Headers:
    """Read a block in parts of these sizes, and what is left of it."""
    reader.begin()
    for size in sizes:
        reader.feed(block[:size])
        block = block[size:]
    reader.feed(block)
    return reader.finish()


def in_one(reader: FieldReader, block: bytes) -> Headers:
    """Read a block that comes in one part."""
    reader.begin(is_whole=True)
    reader.feed(block)
    return reader.finish()


def test_the_example_of_the_standard_is_read() -> None:
    reader = FieldReader(frozenset({b":authority", b"cache-control", b"custom-key", b":scheme"}))
    read = [reader.read(bytes.fromhex(block)) for block in RFC_BLOCKS]
    assert [headers[b":authority"] for headers in read] == [b"www.example.com"] * 3
    assert read[1][b"cache-control"] == b"no-cache"
    assert (read[2][b"custom-key"], read[2][b":scheme"]) == (b"custom-value", b"https")


def wanted_of(fields: list[tuple[bytes, bytes, bool]]) -> dict[bytes, bytes]:
    """The wanted fields of a block; one that is repeated has no value."""
    names = [name for name, _, _ in fields]
    return {name: value if names.count(name) == 1 else b"" for name, value, _ in fields if name in WANTED}


@given(st.lists(st.tuples(FIELDS, st.booleans(), TABLE_BYTES), max_size=12), st.lists(st.integers(0, 40), max_size=9))
@settings(max_examples=200, deadline=None)
def test_the_reader_follows_any_encoder_in_whole_blocks_and_in_parts(
    blocks: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]], sizes: list[int]
) -> None:
    encoder, whole, parts, mixed = hpack.Encoder(), *(FieldReader(WANTED) for _ in range(3))
    for number, (fields, coded, table_bytes) in enumerate(blocks):
        if table_bytes is not None:
            encoder.header_table_size = table_bytes
        block = encoder.encode(
            [hpack.HeaderTuple(n, v) if i else hpack.NeverIndexedHeaderTuple(n, v) for n, v, i in fields],
            huffman=coded,
        )
        assert whole.read(block) == in_parts(parts, block, *sizes) == wanted_of(fields)
        assert (in_parts(mixed, block, *sizes) if number % 3 == 2 else in_one(mixed, block)) == wanted_of(fields)


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_block_is_read_or_is_a_protocol_error(block: bytes) -> None:
    with suppress(ProtocolError):
        FieldReader(WANTED).read(block)


@pytest.mark.parametrize("block", [*DAMAGED, b"\x40\x01a\x05ab", b"\x00\x01x\x82\xff\xff", b"\x80\x01x\x01y"])
@pytest.mark.parametrize("sizes", [(), (1,), (1, 1, 1)])
def test_a_damaged_block_is_an_error_of_compression(block: bytes, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError) as whole:
        FieldReader(WANTED).read(block)
    with pytest.raises(ProtocolError) as parts:
        in_parts(FieldReader(WANTED), block, *sizes)
    assert {whole.value.code, parts.value.code} == {COMPRESSION_ERROR}


# The compression table


def entry(name: bytes, value: bytes) -> bytes:
    """A literal that enters the table."""
    return b"\x40" + bytes((len(name),)) + name + bytes((len(value),)) + value


def test_the_entry_that_just_fits_is_known_and_one_byte_more_drives_it_out() -> None:
    """Forgotten too early, its method is unknown here and known to the runtime: the call would pass unread."""
    block = entry(b":path", b"/s/M") + 39 * entry(b"y", b"." * 67) + entry(b"y", b"." * 122)  # 41 + 39 * 100 + 155
    reader = FieldReader(WANTED)
    reader.read(block)
    oldest = b"\xbe"[0] + 40
    assert reader.read(bytes((oldest,))) == {b":path": b"/s/M"}
    reader = FieldReader(WANTED)
    reader.read(block[: -len(entry(b"y", b"." * 122))] + entry(b"y", b"." * 123))
    with pytest.raises(ProtocolError, match="entry 102 of a compression table that has 101"):
        reader.read(bytes((oldest,)))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=40))
def test_a_block_that_comes_again_means_what_the_table_says_now(history: list[tuple[int, bool, bool]]) -> None:
    encoder, decoder, reader = hpack.Encoder(), hpack.Decoder(), FieldReader(WANTED)
    for number, enters, in_two in history:
        fields = [(b":path", b"/s/M%d" % (number // 2)), (b"x", b"%d" % number)]
        block = encoder.encode([(name, value, not enters) for name, value in fields])
        half = len(block) // 2
        found = in_parts(reader, block, half) if in_two else reader.read(block)
        assert found == dict(decoder.decode(block, raw=True))


@pytest.mark.parametrize("index", [b"\xbe", b"\xff\x00", b"\x7e\x01y", b"\x0f\x2f\x01y", b"\xff\xff\x03"])
def test_an_entry_that_the_table_does_not_have_is_an_error(index: bytes) -> None:
    with pytest.raises(ProtocolError, match="compression table that has 61"):
        FieldReader(WANTED).read(index)


def test_entries_that_are_not_wanted_count_as_others_do() -> None:
    reader = FieldReader(WANTED)
    reader.read(entry(b":path", b"/s/M") + entry(b"no", b"1") + b"\x7e\x012")  # the last has the name of the second
    assert reader.read(b"\xbe\xbf\xc0") == {b":path": b"/s/M"}


def test_with_a_table_of_size_0_nothing_is_kept_and_no_other_size_is_taken() -> None:
    reader = FieldReader(WANTED, table_bytes=0)
    assert reader.read(b"\x20" + entry(b"x", b"y")) == {b"x": b"y"}
    with pytest.raises(ProtocolError):
        reader.read(b"\xbe")
    with pytest.raises(ProtocolError):
        reader.read(b"\x21")


@pytest.mark.parametrize("drives_out", [entry(b"c", b"d"), b"\x3f\x02", entry(b"c", b"." * 40)])
def test_an_entry_that_was_driven_out_is_an_error(drives_out: bytes) -> None:
    """By a younger one, by a smaller table, or by one that has no room itself (RFC 7541, 4.4)."""
    reader = FieldReader(WANTED, table_bytes=64)  # of the 34 bytes of an entry it has room for one
    reader.read(entry(b"x", b"b"))
    assert reader.read(b"\xbe") == {b"x": b"b"}
    reader.read(drives_out)
    with pytest.raises(ProtocolError):
        reader.read(b"\xbf")


def test_an_entry_is_known_for_as_long_as_its_encoder_may_name_it() -> None:
    """The table takes the more entries the smaller they are; every name and path comes around again."""
    encoder, reader = hpack.Encoder(), FieldReader(WANTED)
    for number in range(600):
        fields = [(":path", f"/s/M{number % 7}"), ("grpc-timeout", f"{number}u"), ("z" * (number % 90), "~" * 40)]
        assert reader.read(encoder.encode(fields)) == {b":path": b"/s/M%d" % (number % 7)}


@pytest.mark.parametrize("table_bytes", [4096, 1024])
def test_an_entry_is_known_until_the_last_byte_of_the_table_is_needed(table_bytes: int) -> None:
    """A path that is forgotten while its encoder still names it makes a call that nobody inspects."""
    reader = FieldReader(WANTED)
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
        reader.read(b"\x44" + bytes((len(path),)) + path + b"\x40\x01n\x84" + huffman.encode(b"~~")[:4])
    assert len(reader._dynamic) <= 4096 // 32
    assert reader._dynamic_bytes <= 4096


@pytest.mark.parametrize("name", [b":path", b"grpc-timeout"])
def test_a_table_of_the_largest_size_costs_no_more_at_each_entry(name: bytes) -> None:
    """What is counted is how often an entry is moved: once in, once out."""
    reader = FieldReader(WANTED)
    reader.read(b"\x3f\xe1\xff\x3f")  # 1 MiB
    for _ in range(50):
        reader.read(entry(name, b"v") * 1000)
    assert len(reader._dynamic) == (1 << 20) // (33 + len(name))


# Values


@pytest.mark.parametrize("coded", [False, True])
def test_a_value_that_few_need_is_decoded_for_those(coded: bool) -> None:
    encoder, reader = hpack.Encoder(), FieldReader(WANTED, encoded=frozenset({b"few"}))
    for value in (b"100m", b"100m", b"20S", b""):
        fields = reader.read(encoder.encode([(b"few", value), (b"x", value)], huffman=coded))
        assert (decoded(fields[b"few"]), fields[b"x"]) == (value, value)


def test_of_a_long_value_that_few_need_little_is_kept() -> None:
    reader = FieldReader(WANTED, encoded=frozenset({b"few"}))
    fields = reader.read(hpack.Encoder().encode([(b"few", b"a" * VALUE_BYTES), (b"x", b"y")], huffman=False))
    assert (len(decoded(fields[b"few"])) < 1000, fields[b"x"]) == (True, b"y")


def test_a_value_that_is_not_wanted_is_not_decoded() -> None:
    damaged = b"\x40\x02no\x84\xff\xff\xff\xff"
    assert FieldReader(WANTED).read(damaged + b"\x00\x01x\x01y") == {b"x": b"y"}


@pytest.mark.parametrize("fields", [[(b"x", b"1"), (b"x", b"2")], [(b"x", b"1"), (b"x", b"1"), (b"x", b"1")]])
def test_a_name_that_comes_twice_has_no_value(fields: list[tuple[bytes, bytes]]) -> None:
    """The runtime may act on the other one."""
    assert FieldReader(WANTED).read(write_literals(fields)) == {b"x": b""}
    indexed = hpack.Encoder().encode(fields + fields)
    assert FieldReader(WANTED).read(indexed) == {b"x": b""}


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "huffman"])
@pytest.mark.parametrize("length", [4088, 4096, 4104, 20_000, 3_000_000])
@pytest.mark.parametrize("part_bytes", [1000, 16_384, 4_000_000])
def test_a_long_value_is_cut_and_what_follows_it_is_read(length: int, part_bytes: int, coded: bool) -> None:
    value = b"aceiost0" * (length // 8)
    raw = huffman.encode(b"aceiost0") * (length // 8) if coded else value
    long = write_literals([(b"x", raw)])
    at = long.index(b"x") + 1  # where the length of the value begins, with the bit that says how it is coded
    block = long[:at] + bytes((long[at] | 0x80 * coded,)) + long[at + 1 :] + write_literals([(b":path", b"/")])
    reader = FieldReader(WANTED)
    expected = {b"x": value[:VALUE_BYTES], b":path": b"/"}
    assert in_parts(reader, block, *[part_bytes] * (len(block) // part_bytes)) == expected
    assert reader.read(block) == expected


@pytest.mark.parametrize("name", [b"x", b"not-wanted"])
def test_of_a_long_string_little_is_kept(name: bytes) -> None:
    reader = FieldReader(WANTED)
    reader.begin()
    reader.feed(b"\x00" + bytes((len(name),)) + name + b"\x7f\x81\xff\xff\x07")  # 16 MiB are to come
    kept = []
    for _ in range(1000):
        reader.feed(bytes(16_384))
        kept.append(len(reader._rest) + sum(map(len, reader._found.values())))
    assert max(kept) <= 16_384 + 100
    with pytest.raises(ProtocolError, match="early"):
        reader.finish()


@pytest.mark.parametrize("field", [b"\x00\x01n\x01v", b"\x20", entry(b"x", b"v")])
def test_a_block_has_a_bounded_number_of_fields_that_cost_much(field: bytes) -> None:
    """Ten thousands in each chunk that is read would keep the loop for too long."""
    reader = FieldReader(WANTED)
    for _ in range(3):
        reader.read(field * 4096)
    with pytest.raises(ProtocolError, match="more than 4096 literals"):
        in_parts(reader, field * 4097, *[1000] * 20)


def test_a_name_that_no_header_has_is_an_error() -> None:
    assert FieldReader(WANTED).read(write_literals([(b"n" * 16_384, b"")])) == {}
    with pytest.raises(ProtocolError, match="a header name of 16385 bytes"):
        FieldReader(WANTED).read(write_literals([(b"n" * 16_385, b"")]))
    with pytest.raises(ProtocolError, match="a header name of 1048576 bytes"):
        FieldReader(WANTED).read(b"\x00\x7f\x81\xff\x3f" + bytes(100))


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=5000)), max_size=5))
@settings(max_examples=50, deadline=None)
def test_our_literals_are_read_by_any_decoder_and_leave_its_table_alone(fields: list[tuple[bytes, bytes]]) -> None:
    decoder = hpack.Decoder()
    assert [tuple(field) for field in decoder.decode(write_literals(fields), raw=True)] == fields
    assert len(decoder.header_table.dynamic_entries) == 0


@pytest.mark.parametrize("value", [b"\x02ab", b"\x7f\x00" + b"a" * 127], ids=["short", "long"])
def test_entries_that_are_not_wanted_drive_others_out_as_well(value: bytes) -> None:
    reader = FieldReader(WANTED)
    reader.read(b"\x44\x02/a")
    assert reader.read(b"\xbe") == {b":path": b"/a"}
    for _ in range(200):
        reader.read(b"\x51" + value)  # accept-language, of 34 bytes at least: the table has room for 120
    with pytest.raises(ProtocolError):
        reader.read(b"\xff\x87\x01")  # 62 + 200


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "huffman"])
def test_wanted_entries_are_driven_out_by_their_sizes(coded: bool) -> None:
    """The length that counts is that of the decoded value (RFC 7541, 4.1)."""
    reader = FieldReader(WANTED)
    for number in range(60):
        value = b"/%099d" % number
        raw = huffman.encode(value) if coded else value
        reader.read(b"\x44" + bytes((0x80 * coded | len(raw),)) + raw)  # of 137 bytes: the table has room for 29
    assert reader.read(bytes((0x80 | 62 + 28,))) == {b":path": b"/%099d" % 31}
    with pytest.raises(ProtocolError):
        reader.read(bytes((0x80 | 62 + 29,)))


def test_a_smaller_table_forgets_at_once() -> None:
    reader = FieldReader(WANTED)
    reader.read(b"\x44\x02/a")
    reader.read(b"\x20")
    with pytest.raises(ProtocolError):
        reader.read(b"\xbe")


def test_the_static_table_is_that_of_the_rfc() -> None:
    assert (*_STATIC[1:],) == HeaderTable.STATIC_TABLE
