import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import MAX_BLOCK_BYTES, Cut, FrameCutter, OpenBlock, ProtocolError

FRAMES = st.lists(
    st.builds(
        frames.frame, st.integers(0, 255), st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary(max_size=40)
    ),
    max_size=8,
)


def chunks(data: bytes, sizes: list[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


def raw_frames(cutter: FrameCutter, data: bytes) -> list[bytes]:
    return [buffer[cut[3] : cut[4]] for buffer, cuts in cutter.cut(data) for cut in cuts]


@given(FRAMES, st.lists(st.integers(0, 30)))
@settings(deadline=None)
def test_any_chunking_gives_the_same_frames(sent: list[bytes], sizes: list[int]) -> None:
    cutter = FrameCutter()
    got = [frame for chunk in chunks(b"".join(sent), sizes) for frame in raw_frames(cutter, chunk)]
    assert got == sent


@given(st.binary(max_size=200), st.lists(st.integers(0, 30)))
@settings(deadline=None)
def test_any_bytes_are_cut_or_named_never_raised(data: bytes, sizes: list[int]) -> None:
    whole, parts = FrameCutter(), FrameCutter()
    assert raw_frames(whole, data) == [f for chunk in chunks(data, sizes) for f in raw_frames(parts, chunk)]
    assert whole.problem == parts.problem


def test_a_frame_header_is_read_as_rfc_9113_writes_it() -> None:
    buffer = frames.frame(frames.HEADERS, frames.END_STREAM, 5, b"abc")
    assert buffer == b"\0\0\3\1\1\0\0\0\5abc"
    assert FrameCutter().cut(buffer) == [(buffer, [(frames.HEADERS, frames.END_STREAM, 5, 0, 12)])]


def test_the_reserved_bit_is_no_part_of_the_stream() -> None:
    ((_, cuts),) = FrameCutter().cut(b"\0\0\0\0\0\x80\0\0\x05")
    assert cuts[0][2] == 5


@pytest.mark.parametrize("sizes", [[], [1], [9], [3, 5, 10]])
def test_a_frame_beyond_the_limit_stops_the_cutting_after_the_good_ones(sizes: list[int]) -> None:
    cutter = FrameCutter()
    good = frames.frame(frames.PING, 0, 0, b"12345678")
    data = good + frames.frame(frames.DATA, 0, 1, bytes(16_385)) + good
    assert [f for chunk in chunks(data, sizes) for f in raw_frames(cutter, chunk)] == [good]
    assert cutter.problem == "a frame of 16385 bytes where 16384 are allowed"


@pytest.mark.parametrize("sizes", [[], [9], [5, 5000]])
def test_the_limit_can_be_raised(sizes: list[int]) -> None:
    cutter = FrameCutter()
    cutter.max_frame_bytes = 20_000
    large = frames.frame(frames.DATA, 0, 1, bytes(20_000))
    assert [f for chunk in chunks(large, sizes) for f in raw_frames(cutter, chunk)] == [large]


@pytest.mark.parametrize("body", [b"", b"body"])
def test_after_a_frame_that_came_in_chunks_the_next_begins_afresh(body: bytes) -> None:
    cutter, frame = FrameCutter(), frames.frame(frames.DATA, 0, 1, body)
    assert [raw_frames(cutter, chunk) for chunk in (frame[:5], frame[5:])] == [[], [frame]]
    assert cutter.kept_bytes == 0
    assert raw_frames(cutter, frame) == [frame]


def cut_of(buffer: bytes) -> Cut:
    ((_, cuts),) = FrameCutter().cut(buffer)
    return cuts[0]


@pytest.mark.parametrize(
    ("kind", "flags", "body"),
    [
        (frames.DATA, 0, b"content"),
        (frames.DATA, frames.PADDED, b"\3content..."),
        (frames.DATA, frames.PADDED, b"\0content"),
        (frames.DATA, frames.HAS_PRIORITY, b"content"),  # a flag of HEADERS only (RFC 9113, 6.1)
        (frames.HEADERS, frames.HAS_PRIORITY, b"PRIORcontent"),
        (frames.HEADERS, frames.HAS_PRIORITY | frames.PADDED, b"\2PRIORcontent.."),
        (frames.PING, frames.PADDED, b"content"),  # nor has this type padding
    ],
)
def test_padding_and_priority_are_not_content(kind: int, flags: int, body: bytes) -> None:
    buffer = frames.frame(kind, flags, 1, body)
    assert frames.payload(buffer, cut_of(buffer)) == b"content"


@pytest.mark.parametrize(
    ("kind", "flags", "body"),
    [
        (frames.DATA, frames.PADDED, b""),
        (frames.DATA, frames.PADDED, b"\5abc"),
        (frames.DATA, frames.PADDED, b"\4abc"),
        (frames.HEADERS, frames.HAS_PRIORITY, b"abc"),
        (frames.HEADERS, frames.HAS_PRIORITY | frames.PADDED, b"\3abcdefg"),
    ],
)
def test_padding_or_priority_that_does_not_fit_is_an_error(kind: int, flags: int, body: bytes) -> None:
    buffer = frames.frame(kind, flags, 1, body)
    with pytest.raises(ProtocolError):
        frames.payload(buffer, cut_of(buffer))


def test_settings_are_read_back_as_written() -> None:
    pairs = [(frames.SETTINGS_INITIAL_WINDOW_SIZE, 70_000), (frames.SETTINGS_HEADER_TABLE_SIZE, 0)]
    assert frames.parse_settings(frames.settings(pairs)[frames.HEADER_BYTES :]) == pairs


def test_half_a_setting_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        frames.parse_settings(bytes(7))


def test_a_number_has_four_bytes() -> None:
    assert frames.parse_number(b"\0\0\1\0", "RST_STREAM") == 256
    with pytest.raises(ProtocolError, match="WINDOW_UPDATE payload of 3 bytes"):
        frames.parse_number(b"\0\0\1", "WINDOW_UPDATE")


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 50_000])
def test_a_body_is_cut_into_data_frames_and_only_the_last_ends_the_stream(size: int) -> None:
    body = bytes(size)
    got = frames.data_frames(3, body, end_stream=True)
    cuts = [cut_of(frame) for frame in got]
    assert b"".join(frames.payload(frame, cut) for frame, cut in zip(got, cuts, strict=True)) == body
    assert [cut[1] for cut in cuts] == [0] * (len(cuts) - 1) + [frames.END_STREAM]
    assert len(got) == max(1, -(-size // frames.DEFAULT_FRAME_BYTES))


def test_a_header_block_may_have_any_number_of_large_frames_up_to_its_bound() -> None:
    block = OpenBlock(1, 0)
    for _ in range(MAX_BLOCK_BYTES // 1024):
        block.go_on(1024)
    with pytest.raises(ProtocolError, match="a header block beyond 16777216 bytes"):
        block.go_on(1024)


def test_a_header_block_without_a_bound_may_have_any_length() -> None:
    block = OpenBlock(1, 0, max_bytes=None)
    for _ in range(100):
        block.go_on(MAX_BLOCK_BYTES)


@pytest.mark.parametrize("length", [0, 1, 1023])
def test_a_header_block_may_have_some_small_frames_only(length: int) -> None:
    block = OpenBlock(1, 0)
    for _ in range(128):
        block.go_on(length)
        block.go_on(16_384 // 4)
    with pytest.raises(ProtocolError, match="more than 128 CONTINUATION frames below 1024 bytes") as error:
        block.go_on(length)
    assert error.value.code == frames.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("kind", "flags", "body"),
    [
        (frames.DATA, frames.PADDED, b"\3abc"),
        (frames.HEADERS, frames.HAS_PRIORITY, b"PRIOR"),
        (frames.HEADERS, frames.HAS_PRIORITY | frames.PADDED, b"\2PRIOR.."),
    ],
)
def test_padding_and_priority_may_be_all_that_there_is(kind: int, flags: int, body: bytes) -> None:
    buffer = frames.frame(kind, flags, 1, body)
    assert frames.payload(buffer, cut_of(buffer)) == b""


@pytest.mark.parametrize(("stream", "is_set"), [(0x7FFFFFFF, False), (0x80000000, True), (0x80000001, True)])
def test_the_reserved_bit_is_seen(stream: int, is_set: bool) -> None:
    buffer = b"before" + b"\xff\xff\xff\xff\xff" + stream.to_bytes(4, "big") + b"\xff"
    assert frames.has_reserved_bit(buffer, 6) is is_set


def test_a_window_update_is_written_as_rfc_9113_writes_it() -> None:
    assert frames.window_update(3, 5) == b"\0\0\4\x08\0\0\0\0\3\0\0\0\5"
