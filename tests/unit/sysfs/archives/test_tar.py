import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import pytest

from sysfs.archives.tar import MemoryTree, read_archive, split_archive
from sysfs.errors import MachineSourceError
from sysfs.reader import MAX_FILE_BYTES

COMPRESS: Mapping[str, Callable[[bytes | bytearray], bytes]] = {
    ".xz": lzma.compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
}
FILE = "sys/devices/system/cpu/online"
LINK = "sys/bus/pci/devices/0000:00:00.0"
FORMAT = tarfile.GNU_FORMAT
LONG = "a" * 90 + "/" + "b" * 60


def packed(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None, form: int = FORMAT) -> Path:
    """The archive with these members, compressed by its suffix."""
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return compressed(path, stream.getvalue())


def compressed(path: Path, data: bytes | bytearray) -> Path:
    path.write_bytes(COMPRESS[path.suffix](data))
    return path


def header(name: str, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("suffix", ["xz", "gz", "bz2"])
def test_trees_are_found_by_the_directory_that_holds_sys(tmp_path: Path, suffix: str) -> None:
    names = [FILE, f"./a/{FILE}", f"b/c/{FILE}", "notes/readme"]
    trees = read_archive(packed(tmp_path / f"m.tar.{suffix}", {name: name.encode() for name in names}))
    assert {root: tree.read(FILE).decode() for root, tree in trees.items()} == {
        "": FILE,
        "a": f"./a/{FILE}",
        "b/c": f"b/c/{FILE}",
    }


def test_only_what_discovery_reads_is_kept(tmp_path: Path) -> None:
    other = "sys/devices/system/cpu/cpu0/uevent"
    trees = read_archive(packed(tmp_path / "m.tar.xz", {FILE: b"0", other: b"x", "etc/passwd": b"x"}))
    with pytest.raises(FileNotFoundError):
        trees[""].read(other)
    with pytest.raises(FileNotFoundError):
        trees[""].read("etc/passwd")


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_of_every_format_are_read(tmp_path: Path, form: int) -> None:
    (tree,) = read_archive(packed(tmp_path / "m.tar.gz", {f"{LONG}/{FILE}": b"0"}, form=form)).values()
    assert tree.read(FILE) == b"0"


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_link_texts_are_read(tmp_path: Path, form: int) -> None:
    trees = read_archive(packed(tmp_path / "m.tar.gz", {}, {LINK: LONG}, form=form))
    assert trees[""].link(LINK) == LONG


def test_a_large_file_is_cut(tmp_path: Path) -> None:
    tree = read_archive(packed(tmp_path / "m.tar.xz", {FILE: b"0" * 3 * MAX_FILE_BYTES, f"a/{FILE}": b"1"}))[""]
    assert len(tree.read(FILE)) == MAX_FILE_BYTES + 1


def test_devices_and_hard_links_are_left_out(tmp_path: Path) -> None:
    members = [header(FILE, kind, 0) for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.LNKTYPE)]
    assert read_archive(compressed(tmp_path / "m.tar.gz", b"".join(members))) == {}


@pytest.mark.parametrize("name", [f"../{FILE}", f"/{FILE}", f"a/../../{FILE}", f"{'a' * 5000}/{FILE}"])
def test_names_that_leave_the_archive_are_ignored(tmp_path: Path, name: str) -> None:
    assert read_archive(packed(tmp_path / "m.tar.xz", {name: b"0"})) == {}


def test_a_link_to_anywhere_else_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1")
    tree = read_archive(packed(tmp_path / "m.tar.xz", {FILE: b"0"}, {LINK: str(secret)}))[""]
    with pytest.raises(FileNotFoundError):
        tree.read(LINK)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\xfd7zXZ\0broken"])
def test_what_is_no_archive_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "m.tar.xz"
    file.write_bytes(content)
    with pytest.raises(MachineSourceError, match=r"m\.tar\.xz"):
        read_archive(file)
    with pytest.raises(MachineSourceError, match="no such file"):
        read_archive(tmp_path / "none.tar.xz")


@pytest.mark.parametrize("cut", [1, 511, 513, 700, 1100, 2000])
def test_an_archive_that_is_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    file = packed(tmp_path / "m.tar.gz", {"notes": b"z" * 600, FILE: b"z" * 600})
    with pytest.raises(MachineSourceError, match="cannot be read as an archive"):
        read_archive(compressed(file, gzip.decompress(file.read_bytes())[:cut]))


@pytest.mark.parametrize("member", [0, 1024])
@pytest.mark.parametrize("place", [0, 130, 150, 156])
def test_a_damaged_header_is_refused_and_never_taken_for_the_end(tmp_path: Path, member: int, place: int) -> None:
    file = packed(tmp_path / "m.tar.gz", {"notes": b"x", FILE: b"0"})
    data = bytearray(gzip.decompress(file.read_bytes()))
    data[member + place] ^= 0x55
    with pytest.raises(MachineSourceError, match="cannot be read as an archive"):
        read_archive(compressed(file, data))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (header("notes", tarfile.REGTYPE, (8 << 30) - 1), "more than 1073741824 bytes"),
        (header("notes", tarfile.REGTYPE, -1024), "negative size"),
        (header("notes", tarfile.GNUTYPE_LONGNAME, 1 << 20), "an extended header of 1048576 bytes"),
        (header("notes", tarfile.XHDTYPE, -512), "an extended header of -512 bytes"),
        ((header("notes", tarfile.GNUTYPE_LONGNAME, 1) + b"x".ljust(512, b"\0")) * 2000, "recursion"),
    ],
    ids=["huge", "negative", "long-name", "pax", "chained"],
)
def test_a_header_that_claims_too_much_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(MachineSourceError, match=problem):
        read_archive(compressed(tmp_path / "m.tar.gz", data))


def test_an_extended_header_with_a_negative_size_is_refused(tmp_path: Path) -> None:
    record = b"13 size=-512\n"
    data = header("x", tarfile.XHDTYPE, len(record)) + record.ljust(512, b"\0") + header("a", tarfile.REGTYPE, 0)
    with pytest.raises(MachineSourceError, match="cannot be read as an archive"):
        read_archive(compressed(tmp_path / "m.tar.gz", data))


def test_a_sparse_map_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    data = bytearray(header(FILE, tarfile.GNUTYPE_SPARSE, 0))
    data[482] = 1  # the map goes on in the next block
    data[148:156] = b"%06o\0 " % (sum(data) - sum(data[148:156]) + 8 * ord(" "))
    with pytest.raises(MachineSourceError, match="cannot be read as an archive"):
        read_archive(compressed(tmp_path / "m.tar.gz", data))


@pytest.mark.parametrize(
    ("spec", "file", "root"),
    [("m.tar.xz", "m.tar.xz", ""), ("/a:b/m.tgz:x/sys", "/a:b/m.tgz", "x/sys"), ("m.tar.bz2:", "m.tar.bz2", "")],
)
def test_a_root_stands_behind_the_last_colon(spec: str, file: str, root: str) -> None:
    assert split_archive(spec) == (Path(file), root)


@pytest.mark.parametrize("spec", ["host", "dir/x.tar", "m.tar.xzz", "m.zip:x"])
def test_other_names_are_no_archives(spec: str) -> None:
    assert split_archive(spec) is None


def test_links_are_followed_by_their_text() -> None:
    tree = MemoryTree({"a/b/file": b"1"}, {"x/link": "../a/b", "loop": "loop", "dangling": "../../out"})
    assert tree.read("x/link/file") == b"1"
    assert (tree.names("x/link"), tree.link("x/link")) == (["file"], "../a/b")
    for path, error in (("loop", OSError), ("dangling", FileNotFoundError), ("a/b", IsADirectoryError)):
        with pytest.raises(error):
            tree.read(path)


def test_directories_list_their_entries_and_a_file_has_none() -> None:
    tree = MemoryTree({"a/b": b"", "a/c/d": b""}, {"a/l": "b"}, ["a/empty"])
    assert sorted(tree.names("a")) == ["b", "c", "empty", "l"]
    for path in ("a/b", "none"):
        with pytest.raises(FileNotFoundError):
            tree.names(path)


def test_files_that_gave_an_error_give_it_again() -> None:
    tree = MemoryTree({"capture-errors.txt": b"EBUSY a/b\nENOSUCH a/c\n"}, {})
    for path, message in (("a/b", "busy"), ("a/c", "Input/output")):
        with pytest.raises(OSError, match=message):
            tree.read(path)
