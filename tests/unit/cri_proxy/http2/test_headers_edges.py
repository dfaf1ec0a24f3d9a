"""Header blocks at the edges: sizes of entries, integers, what is remembered, blocks that are cut anywhere."""

import hpack
import pytest

from cri_proxy.http2 import huffman
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import VALUE_BYTES, FieldReader, write_literals
from tests.unit.cri_proxy.http2.test_headers import WANTED, entry, in_parts


def test_coded_values_of_the_longest_codes_count_in_full() -> None:
    """Of a value that is not wanted only a lower bound is known, which these values reach."""
    raw = huffman.encode(b"\n" * 52)
    reader = FieldReader(WANTED)
    for _ in range(60):
        reader.read(b"\x40\x00" + b"\xff" + bytes((0x80 | len(raw) - 0x7F & 0x7F, 0)) + raw)  # of 84 bytes
    reader.read(bytes((0x80 | 62 + 47,)))
    with pytest.raises(ProtocolError, match="entry 110 of a compression table that has 109"):
        reader.read(bytes((0x80 | 62 + 48,)))


@pytest.mark.parametrize("in_two", [False, True])
@pytest.mark.parametrize("newer", [b"\x40\x01x\x012", b"\x51\x01v", b"\x20"])
def test_a_block_that_was_read_before_means_something_else_after_a_change_of_the_table(
    newer: bytes, in_two: bool
) -> None:
    """By an entry that is wanted, by one that is not, by a smaller table."""
    reader = FieldReader(WANTED)
    reader.read(b"\x40\x01x\x011")
    assert reader.read(b"\xbe") == reader.read(b"\xbe") == {b"x": b"1"}
    if in_two:
        in_parts(reader, newer, 1)
    else:
        reader.read(newer)
    try:
        assert reader.read(b"\xbe") == ({b"x": b"2"} if newer[0] == 0x40 else {})
    except ProtocolError:
        assert newer == b"\x20"


def test_a_short_block_that_leaves_the_table_alone_is_read_once() -> None:
    """The kubelet repeats few blocks; every other one is not kept."""
    reader = FieldReader(WANTED)
    reader.read(entry(b"x", b"1"))
    short, long = (write_literals([(b"x", b"v" * length)]) for length in (251, 252))
    assert (len(short), len(long)) == (256, 257)
    assert reader.read(short) is reader.read(short)
    assert reader.read(long) is not reader.read(long)
    others = [write_literals([(b"x", b"%d" % number)]) for number in range(64)]
    for block in others:
        reader.read(block)
    assert reader.read(others[62]) is reader.read(others[62])
    assert reader.read(others[63]) is not reader.read(others[63])


def test_a_path_that_comes_again_is_decoded_once_and_few_are_kept() -> None:
    reader = FieldReader(WANTED)
    blocks = [
        b"\x44" + bytes((0x80 | len(raw),)) + raw for raw in (huffman.encode(b"/a/path/%d" % i) for i in range(513))
    ]
    first = reader.read(blocks[0])[b":path"]
    for block in blocks[1:512]:
        reader.read(block)
    assert reader.read(blocks[0])[b":path"] is first
    assert len(reader._huffman) == 512
    reader.read(blocks[512])
    assert len(reader._huffman) == 1
    for length in (128, 129):
        raw = huffman.encode(b"X" * length)  # a code of 8 bits
        reader.read(b"\x44\xff" + bytes((length - 0x7F,)) + raw)
        assert (raw in reader._huffman) is (length == 128)


# Fields, integers and where blocks are cut


def test_every_static_entry_is_passed_over_or_read() -> None:
    for index in range(1, 62):
        found = dict(FieldReader(WANTED).read(bytes((0x80 | index,)) + b"\x00\x01x\x01y"))
        assert found.pop(b"x") == b"y"
        assert found == {4: {b":path": b"/"}, 5: {b":path": b"/index.html"}}.get(index, {})


@pytest.mark.parametrize(
    ("integer", "index"),
    [
        (b"\xfe", 126),
        (b"\xff\x00", 127),
        (b"\xff\x80\x00", 127),
        (b"\xff\x01", 128),
        (b"\xff\x81\x00", 128),
        (b"\xff\x80\x80\x80\x80\x00", 127),
        (b"\xff\x0b", 138),
    ],
)
def test_an_index_of_any_length_names_its_entry(integer: bytes, index: int) -> None:
    """An integer may have more zeros than it needs (RFC 7541, 5.1)."""
    reader = FieldReader(WANTED)
    reader.read(b"".join(b"\x40\x01x\x03%03d" % number for number in range(161, 61, -1)))  # by their index
    assert reader.read(integer + b"\x84") == {b"x": b"%03d" % index, b":path": b"/"}


# Most kinds of fields, with the fields' ends.
MIXED = [
    b"\x40\x01x\x03abc",
    b"\x82",
    b"\x51\x04abcd",
    b"\x51\x84\x1f\xff\xff\xff",
    b"\x7e\x02ef",
    b"\x44\x82\x60\x7f",
    b"\xbe",
    b"\x10\x02no\x00",
    b"\x51\x7f\x03" + b"g" * 130,
    b"\x41\x7e" + bytes(126),
    b"\xff\x80\x00",
]


def test_a_block_may_be_cut_anywhere_and_ends_only_between_fields() -> None:
    block, ends = b"".join(MIXED), [sum(map(len, MIXED[:count])) for count in range(len(MIXED) + 1)]
    filled = b"\x40\x01y\x00" * 100
    whole = FieldReader(WANTED)
    whole.read(filled)
    expected = whole.read(block)
    assert expected == {b"x": b"abc", b":path": b""}
    for cut in range(len(block)):
        reader = FieldReader(WANTED)
        reader.read(filled)
        assert in_parts(reader, block, cut) == expected
        assert reader.read(b"\xc1\xc2") == whole.read(b"\xc1\xc2")
        reader = FieldReader(WANTED)
        reader.read(filled)
        if cut in ends:
            assert reader.read(block[:cut]).keys() <= expected.keys()
        else:
            with pytest.raises(ProtocolError, match="early"):
                reader.read(block[:cut])


def test_an_integer_has_at_most_five_bytes_after_its_first() -> None:
    with pytest.raises(ProtocolError, match="an integer without an end"):
        FieldReader(WANTED).read(b"\xff\x80\x80\x80\x80\x80\x00")


def test_a_wanted_value_that_comes_late_in_its_block_waits_for_its_rest() -> None:
    for before in (10_000, 17_000):
        block = write_literals([(b"no", b"v" * before), (b"x", b"y" * 100)])
        assert in_parts(FieldReader(WANTED), block, len(block) - 50) == {b"x": b"y" * 100}
    long = write_literals([(b"no", b"v" * 9000), (b"x", b"y" * 8000)])
    assert in_parts(FieldReader(WANTED), long, len(long) - 7000) == {b"x": b"y" * VALUE_BYTES}


def test_a_whole_block_whose_long_value_is_cut_off_ends_early() -> None:
    """The rest of a value beyond 16 KiB is skipped unread, but it must be there."""
    block = b"\x00\x01x\x7f\xa1\x9b\x01" + b"v" * 20_000
    assert FieldReader(WANTED).read(block) == {b"x": b"v" * VALUE_BYTES}
    with pytest.raises(ProtocolError, match="early"):
        FieldReader(WANTED).read(block[:-1])


@pytest.mark.parametrize(
    "field", [b"\x41\x01v", b"\x51\x7e" + b"v" * 126, b"\x51\x81\x07", b"\x7e\x01v", b"\x82", b"\xff\x00"]
)
def test_fields_that_cost_little_may_be_many(field: bytes) -> None:
    reader = FieldReader(WANTED)
    reader.read(b"\x40\x00\x00" * 100)
    assert reader.read(field * 5000) == {}


def test_each_block_in_parts_is_counted_and_bounded_alone() -> None:
    reader = FieldReader(WANTED)
    for _ in range(3):
        reader.begin()
        for part in (b"\x00\x01n\x01v" * 4000, b"\x00\x01n\x7f\x81\x7f" + bytes(16_300), bytes(90)):
            reader.feed(part)
        assert reader.block_bytes == 20_000 + 16_306 + 90
    assert in_parts(reader, b"\x00\x01x\x01y") == {b"x": b"y"}


@pytest.mark.parametrize("length", [0, 126, 127, 128, 254, 255, 256, 382, 383, 16_510, 16_511, 20_000])
def test_a_literal_of_any_length_is_read_by_another_decoder(length: int) -> None:
    value = b"v" * length
    assert [tuple(field) for field in hpack.Decoder().decode(write_literals([(b"x", value)]), raw=True)] == [
        (b"x", value)
    ]
