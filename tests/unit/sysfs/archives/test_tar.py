"""The tar reader against archives that the standard library writes."""

import tarfile
from io import BytesIO

import pytest

from sysfs.archives.tar import Kind, Member, TarError, members

LONG = "sys/" + "a" * 90 + "/" + "b" * 90


def packed(*infos: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for info, content in infos:
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
    return stream.getvalue()


def file(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def read(data: bytes, most: int = 100) -> list[Member]:
    return list(members(BytesIO(data), lambda name: name != "unwanted", most))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_files_links_and_directories_of_every_format_are_read(form: int) -> None:
    data = packed(
        file("sys/a", b"1\n"),
        file(LONG, b"long" * 200),
        special("sys/link", tarfile.SYMTYPE, "../a"),
        special("sys/dir", tarfile.DIRTYPE),
        special("sys/pipe", tarfile.FIFOTYPE),
        form=form,
    )
    assert read(data) == [
        Member("sys/a", Kind.FILE, b"1\n"),
        Member(LONG, Kind.FILE, (b"long" * 200)[:100]),
        Member("sys/link", Kind.LINK, b"", "../a"),
        Member("sys/dir", Kind.DIRECTORY),
        Member("sys/pipe", Kind.OTHER),
    ]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_link_texts_are_read(form: int) -> None:
    assert read(packed(special("sys/link", tarfile.SYMTYPE, LONG), form=form))[0].target == LONG


def test_what_is_not_wanted_is_passed_over() -> None:
    assert [m.name for m in read(packed(file("unwanted", b"y" * 5000), file("a")))] == ["a"]


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "sys/../../a", "./.."])
def test_a_name_that_leaves_the_archive_is_never_wanted(name: str) -> None:
    assert [m.name for m in read(packed(file(name), file("./b/")))] == ["b"]


@pytest.mark.parametrize("cut", [1, 511, 513, 700])
def test_an_archive_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(TarError, match="it ends in the middle"):
        read(packed(file("a", b"z" * 600))[:cut])


@pytest.mark.parametrize("place", [0, 130, 150, 156])
def test_a_damaged_header_is_refused(place: int) -> None:
    data = bytearray(packed(file("a")))
    data[place] ^= 0x55
    with pytest.raises(TarError):
        read(bytes(data))


def test_a_huge_member_is_refused_before_it_is_read() -> None:
    info = tarfile.TarInfo("a")
    info.size = (8 << 30) - 1
    with pytest.raises(TarError, match="more than"):
        read(info.tobuf(tarfile.GNU_FORMAT)[:512])


def test_an_empty_stream_holds_nothing() -> None:
    assert read(b"") == []
