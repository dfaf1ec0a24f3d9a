import os
from pathlib import Path

import pytest

from sysfs.archives.tar import MemoryTree
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.errors import FileMissing, SysfsError
from sysfs.reader import MAX_FILE_BYTES, DirectoryTree, TreeReader


def reader(**files: bytes) -> TreeReader:
    return TreeReader(MemoryTree(files, {"link": "dir/../list"}))


@pytest.mark.parametrize("content", [b"0-", b"x", b"3-1"])
def test_a_bad_list_names_the_file_and_shows_the_text(content: bytes) -> None:
    with pytest.raises(SysfsError) as caught:
        reader(cpulist=content).cpus("cpulist")
    assert caught.value.path == "cpulist"
    assert repr(content.decode()) in str(caught.value)


def test_lists_numbers_and_texts_are_read_without_their_newline() -> None:
    source = reader(list=b"0-3,8\n", number=b"-1\n", hexa=b"0x0302\n")
    assert source.cpus("list") == CpuSet.parse("0-3,8")
    assert source.nodes("list") == NodeSet.parse("0-3,8")
    assert (source.integer("number"), source.integer("hexa", base=16)) == (-1, 0x302)


@pytest.mark.parametrize("content", [b"", b"1.5", b"1_0", b"9" * 21, b"0x1"])
def test_a_bad_number_is_refused(content: bytes) -> None:
    with pytest.raises(SysfsError):
        reader(number=content).integer("number")


@pytest.mark.parametrize("content", [b"\xff", b"a\0", b"x" * (MAX_FILE_BYTES + 1)])
def test_what_is_no_short_text_is_refused(content: bytes) -> None:
    with pytest.raises(SysfsError):
        reader(file=content).text("file")


def test_a_missing_file_is_told_from_an_unreadable_one() -> None:
    source = TreeReader(MemoryTree({"capture-errors.txt": b"EIO bad\n"}, {}))
    with pytest.raises(FileMissing):
        source.text("none")
    with pytest.raises(SysfsError, match="Input/output error") as caught:
        source.text("bad")
    assert not isinstance(caught.value, FileMissing)


def test_numbered_entries_are_those_with_nothing_but_digits_behind() -> None:
    source = TreeReader(MemoryTree({}, {}, ["cpu/cpu10", "cpu/cpu2", "cpu/cpufreq", "cpu/cpu", "cpu/cpu1x"]))
    assert source.numbered("cpu", "cpu") == [2, 10]
    assert source.numbered("none", "cpu") == []


def test_a_link_is_given_as_a_path_below_the_root_though_its_target_is_missing() -> None:
    assert TreeReader(MemoryTree({}, {"a/b/link": "../../c/d"})).link("a/b/link") == "c/d"
    with pytest.raises(SysfsError, match="a link"):
        reader(file=b"").link("file")


def test_a_note_is_kept_once() -> None:
    source = reader()
    for sentence in ("one", "two", "one"):
        source.note(sentence)
    assert source.notes == ("one", "two")


def test_a_directory_on_disk_reads_the_same(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "list").write_text("0-3\n")
    (tmp_path / "sys" / "link").symlink_to("list")
    source = TreeReader(DirectoryTree(tmp_path))
    assert source.names("sys") == ["link", "list"]
    assert (source.text("sys/link"), source.link("sys/link")) == ("0-3", "sys/list")
    with pytest.raises(FileMissing):
        source.text("sys/list/x")


def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SysfsError):
        TreeReader(DirectoryTree(tmp_path)).integer("pipe")


def test_only_the_start_of_an_endless_file_is_read() -> None:
    assert len(DirectoryTree(Path("/")).read("dev/zero")) == MAX_FILE_BYTES + 1
