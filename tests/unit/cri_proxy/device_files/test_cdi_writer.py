import os
from pathlib import Path

import pytest

from cri_proxy.cri.devices.cdi_files import CdiEntry, CdiFile
from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.device_files.cdi_writer import NotWritten, write_specifications

NAMES = ("cri-proxy.io-vf.json", "cri-proxy.io-rdma.json")


def a_file(*devices: str, name: str = NAMES[0], kind: str = "cri-proxy.io/vf") -> CdiFile:
    edits = {"deviceNodes": [{"path": "/dev/vfio/vfio", "permissions": "rw"}]}
    return CdiFile(name, kind, "0.5.0", tuple(CdiEntry(each, edits, "rdma 0", "vfio-pci") for each in devices))


def written(directory: Path, *files: CdiFile) -> dict[str, str]:
    return {changed.name: changed.change.value for changed in write_specifications(directory, files, NAMES)}


def test_what_is_written_is_declared_on_the_node(tmp_path: Path) -> None:
    assert written(tmp_path / "etc/cdi", a_file("0000:51:00.1")) == {NAMES[0]: "written"}
    assert CdiFiles(tmp_path).declared(["cri-proxy.io/vf=0000:51:00.1"]) == ("cri-proxy.io/vf=0000:51:00.1",)
    assert (tmp_path / "etc/cdi" / NAMES[0]).stat().st_mode & 0o777 == 0o644


def test_a_file_is_written_again_only_where_it_changes_and_removed_where_nothing_is_left(tmp_path: Path) -> None:
    written(tmp_path, a_file("a"), a_file("0", name=NAMES[1], kind="cri-proxy.io/rdma"))
    number = (tmp_path / NAMES[0]).stat().st_ino
    assert written(tmp_path, a_file("a")) == {NAMES[0]: "unchanged", NAMES[1]: "removed"}
    assert (tmp_path / NAMES[0]).stat().st_ino == number
    assert written(tmp_path, a_file("a", "b")) == {NAMES[0]: "written"}
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[0]]


def test_a_reader_has_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """The name is another file's afterwards, and who has the old one open reads it to its end."""
    written(tmp_path, a_file("a"))
    before = (tmp_path / NAMES[0]).read_text()
    with (tmp_path / NAMES[0]).open() as reader:
        written(tmp_path, a_file("b"))
        assert reader.read() == before
    assert (tmp_path / NAMES[0]).read_text() == a_file("b").text


@pytest.mark.parametrize("theirs", ["{}", '{"kind": "cri-proxy.io/vf", "devices": []}', "\xff"])
def test_a_file_of_somebody_else_stays_and_nothing_is_written(tmp_path: Path, theirs: str) -> None:
    (tmp_path / NAMES[1]).write_text(theirs)
    with pytest.raises(NotWritten, match=r"cri-proxy\.io-rdma\.json: not written by cri-proxy devices cdi, or changed"):
        written(tmp_path, a_file("a"))
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[1]]
    assert (tmp_path / NAMES[1]).read_text() == theirs


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / NAMES[0]
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(NotWritten):
        written(tmp_path, a_file("a"))
    assert path.is_symlink() or not path.is_file()


@pytest.mark.parametrize("name", ["mine.json", "mine.yaml"])
def test_nothing_is_written_beside_a_file_that_declares_the_device_too(tmp_path: Path, name: str) -> None:
    """Of two files in one directory neither counts: no container would get the device."""
    (tmp_path / name).write_text('{"cdiVersion": "0.5.0", "kind": "cri-proxy.io/vf", "devices": [{"name": "a"}]}')
    with pytest.raises(NotWritten, match=rf"{name}: declares cri-proxy.io/vf=a too; .*: remove it there"):
        written(tmp_path, a_file("b", "a"))
    assert written(tmp_path, a_file("b")) == {NAMES[0]: "written"}
