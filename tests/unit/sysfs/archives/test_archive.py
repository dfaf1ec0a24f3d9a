"""Machines in archives."""

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import pytest

from sysfs.archives.archive import MemoryTree, read_archive, split_archive
from sysfs.errors import MachineSourceError

COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
}
FILE = "sys/devices/system/cpu/online"


def packed(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    path.write_bytes(COMPRESS[path.suffix](stream.getvalue()))
    return path


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


@pytest.mark.parametrize("name", [f"../{FILE}", f"/{FILE}", f"a/../../{FILE}"])
def test_names_that_leave_the_archive_are_ignored(tmp_path: Path, name: str) -> None:
    assert read_archive(packed(tmp_path / "m.tar.xz", {name: b"0"})) == {}


def test_a_link_to_anywhere_else_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1")
    link = "sys/bus/pci/devices/0000:00:00.0"
    tree = read_archive(packed(tmp_path / "m.tar.xz", {FILE: b"0"}, {link: str(secret)}))[""]
    with pytest.raises(FileNotFoundError):
        tree.read(link)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\xfd7zXZ\0broken"])
def test_what_is_no_archive_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "m.tar.xz"
    file.write_bytes(content)
    with pytest.raises(MachineSourceError, match=r"m\.tar\.xz"):
        read_archive(file)
    with pytest.raises(MachineSourceError, match="no such file"):
        read_archive(tmp_path / "none.tar.xz")


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
