import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from sysfs.archives.capture import capture, capture_tree
from sysfs.archives.tar import MemoryTree, read_archive, read_member
from sysfs.discover import discover, discover_tree
from sysfs.errors import MachineSourceError
from sysfs.model import Machine
from sysfs.sources import load_machine
from tests.fakes.machines import machines, small_machine
from tests.fakes.sysfs_tree import CPU, files_of, links_of, memory_tree, tree_of, write_tree

PCI = [{"address": "10:01.0"}, {"address": "11:00.0", "parent": "10:01.0", "physical_function": "11:00.1"}]


def captured(tree: MemoryTree, file: Path) -> MemoryTree:
    capture_tree(tree, file)
    return read_archive(file)[""]


def test_a_capture_of_a_tree_on_disk_loads_as_the_same_machine(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", small_machine(offline="5", isolated="3", pci=PCI))
    done = capture(tmp_path / "m.tar.xz", root)
    assert load_machine(f"{tmp_path}/m.tar.xz") == discover(root)
    assert (done.links, done.unreadable) == (3, ())


def test_a_capture_of_this_machine_loads_as_this_machine(tmp_path: Path) -> None:
    capture(tmp_path / "m.tar.xz")
    assert load_machine(f"{tmp_path}/m.tar.xz") == discover()


@settings(max_examples=10, deadline=None)
@given(machines(max_cpus=16))
def test_a_capture_of_any_machine_loads_as_that_machine(machine: Machine) -> None:
    tree = tree_of(machine)
    with TemporaryDirectory() as directory:
        assert discover_tree(captured(tree, Path(directory) / "m.tar.xz")) == discover_tree(tree)


def test_files_that_give_an_error_give_it_again_after_loading(tmp_path: Path) -> None:
    bad = f"{CPU}/cpu0/cache/index2/size"
    tree = memory_tree({**files_of(small_machine()), "capture-errors.txt": f"EIO {bad}"})
    again = captured(tree, tmp_path / "m.tar.xz")
    assert discover_tree(again) == discover_tree(tree)
    assert bad in discover_tree(again).notes[0]


def test_a_machine_that_discovery_refuses_is_captured_whole(tmp_path: Path) -> None:
    files = {**files_of(small_machine()), f"{CPU}/online": "0-"}
    again = captured(memory_tree(files, links_of(small_machine())), tmp_path / "m.tar.xz")
    assert again.read(f"{CPU}/online") == b"0-"
    assert again.read(f"{CPU}/cpu7/topology/core_id") == b"1\n"


def test_nothing_but_what_discovery_reads_is_written(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", small_machine(), {"proc/cmdline": "secret=1", f"{CPU}/cpu0/uevent": "x"})
    capture(tmp_path / "m.tar.xz", root)
    with tarfile.open(tmp_path / "m.tar.xz") as archive:
        names = archive.getnames()
    assert "proc/cmdline" not in names
    assert f"{CPU}/cpu0/uevent" not in names


def test_a_capture_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "m.tar.xz"
    target.mkdir()
    try:
        capture_tree(tree_of(small_machine()), target)
    except OSError:
        assert [path.name for path in tmp_path.iterdir()] == ["m.tar.xz"]
    else:
        raise AssertionError("a directory was overwritten")


def test_more_files_are_in_the_archive_and_no_part_of_the_machine(tmp_path: Path) -> None:
    root, file = write_tree(tmp_path / "tree", small_machine()), tmp_path / "m.tar.xz"
    capture(file, root, {"cri-proxy/state.json": b"{}"})
    assert read_member(file, "cri-proxy/state.json", 2) == b"{}"
    assert read_member(file, "cri-proxy/other.json", 2) is None
    assert load_machine(str(file)) == small_machine()
    with pytest.raises(MachineSourceError, match="more than 1 bytes"):
        read_member(file, "cri-proxy/state.json", 1)
    with pytest.raises(MachineSourceError, match="no such file"):
        read_member(tmp_path / "x.tar.xz", "cri-proxy/state.json", 1)
