import os
from pathlib import Path

import pytest

from cri_proxy.in_force import text_files
from cri_proxy.in_force.symlinks import ANY
from cri_proxy.in_force.text_files import (
    MAX_BYTES,
    FoundFiles,
    OneTextFile,
    TextDirectory,
    TextFile,
)
from tests.fakes.kubelet_volume import KubeletVolume


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "costs.d"
    path.mkdir(mode=0o755)
    return path


def write(place: Path, name: str, text: str = "a.com/x/x0:\n", mode: int = 0o644) -> Path:
    path = place / name
    path.write_text(text)
    path.chmod(mode)
    return path


def problem_of(place: Path) -> str:
    (file,) = TextDirectory(place).read().files
    assert file.text == ""
    return file.problem


def test_cost_files_are_read_in_the_order_of_their_names(place: Path) -> None:
    write(place, "b.yaml", "2")
    write(place, "a.json", "1")
    assert TextDirectory(place).read() == FoundFiles(place, (TextFile("a.json", "1"), TextFile("b.yaml", "2")))


@pytest.mark.parametrize("name", [".a.yaml", "a.yaml~", "#a.yaml#", ".#a.yaml", "a.yaml.tmp", "a.yaml.swp", "README"])
def test_hidden_and_temporary_files_are_skipped(place: Path, name: str) -> None:
    write(place, name)
    assert TextDirectory(place).read().files == ()


def test_a_missing_directory_has_no_files_and_no_problem(tmp_path: Path) -> None:
    assert TextDirectory(tmp_path / "costs.d").read() == FoundFiles(tmp_path / "costs.d")


def test_a_file_in_the_place_of_the_directory_is_a_problem(tmp_path: Path) -> None:
    assert TextDirectory(write(tmp_path, "costs.d")).read().problem == "cannot be read: Not a directory"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_directory_that_others_may_write_to_is_not_read(place: Path, mode: int) -> None:
    write(place, "a.yaml")
    place.chmod(mode)
    found = TextDirectory(place).read()
    assert found.files == ()
    assert found.problem == f"has mode {mode & 0o7777:04o}, others may write to it: chmod go-w {place}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_belongs_to_another_user_is_not_read(place: Path) -> None:
    os.chown(write(place, "a.yaml"), 12345, 12345)
    assert problem_of(place).startswith("belongs to user 12345")
    os.chown(place, 12345, 12345)
    assert TextDirectory(place).read().problem.startswith("belongs to user 12345")


def test_a_file_that_others_may_write_to_is_not_read(place: Path) -> None:
    path = write(place, "a.yaml", mode=0o666)
    assert problem_of(place) == f"has mode 0666, others may write to it: chmod go-w {path}"


def test_a_pipe_a_directory_and_a_dangling_link_do_not_stop_the_others(place: Path) -> None:
    os.mkfifo(place / "a.yaml")
    (place / "b.yaml").mkdir()
    (place / "c.yaml").symlink_to("gone")
    write(place, "d.yaml")
    assert [(f.name, f.problem) for f in TextDirectory(place).read().files] == [
        ("a.yaml", "is not a regular file: put one there, or remove it"),
        ("b.yaml", "is not a regular file: put one there, or remove it"),
        ("c.yaml", "is a link that leads nowhere: remove it"),
        ("d.yaml", ""),
    ]


def test_a_pipe_with_a_writer_is_not_waited_for_either(place: Path) -> None:
    os.mkfifo(place / "a.yaml")
    writer = os.open(place / "a.yaml", os.O_RDWR)
    try:
        assert problem_of(place) == "is not a regular file: put one there, or remove it"
    finally:
        os.close(writer)


def test_a_large_file_is_not_read_whole(place: Path) -> None:
    with write(place, "a.yaml").open("r+b") as file:
        file.truncate(100 << 20)
    assert problem_of(place).startswith("larger than 1048576 bytes")


def test_all_files_together_are_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_BYTES", 10)
    write(place, "a.yaml", "123456")
    write(place, "b.yaml", "123456")
    first, second = TextDirectory(place).read().files
    assert (first.problem, second.text) == ("", "")
    assert second.problem.startswith("the cost files up to this one have more than 10 bytes")


def test_the_number_of_files_is_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_FILES", 2)
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        write(place, name)
    *_, last = TextDirectory(place).read().files
    assert last.problem.startswith("more than 2 cost files")


def test_a_directory_full_of_other_files_is_not_listed_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_ENTRIES", 3)
    for i in range(4):
        write(place, f"{i}")
    assert TextDirectory(place).read().problem == "has more than 3 files: keep only cost files there"


def test_text_that_is_not_utf_8_is_told_with_its_line(place: Path) -> None:
    (place / "a.yaml").write_bytes(b"a\nb\xff")
    assert TextDirectory(place).read().files == (TextFile("a.yaml", "", "not UTF-8: save it as UTF-8 text", 2),)


def test_a_file_that_is_named_alone_is_not_to_be_split(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text(" " * (MAX_BYTES + 1))
    (found,) = OneTextFile(tmp_path / "large.yaml").read().files
    assert found.problem == "larger than 4194304 bytes: leave out what no pod asks for"


@pytest.mark.parametrize("target", ["../secret.yaml", "/{}/secret.yaml", "out/secret.yaml", "out"])
def test_a_link_out_of_the_directory_is_not_followed(place: Path, target: str) -> None:
    write(place.parent, "secret.yaml")
    (place / "out").symlink_to("..")
    (place / "l.yaml").symlink_to(target.format(place.parent))
    assert problem_of(place) == "is a link that leads out of its directory: put the file itself there"
    assert OneTextFile(place / "l.yaml").read().files == TextDirectory(place).read().files


def test_a_link_that_stays_in_the_directory_is_followed(place: Path) -> None:
    (place / "inner").mkdir()
    write(place / "inner", "x", "1")
    (place / "l.yaml").symlink_to("inner/x")
    assert TextDirectory(place).read().files == OneTextFile(place / "l.yaml").read().files == (TextFile("l.yaml", "1"),)


def test_a_directory_that_is_a_link_itself_is_read(place: Path) -> None:
    write(place, "a.yaml", "1")
    (place.parent / "link").symlink_to(place)
    assert TextDirectory(place.parent / "link").read().files == (TextFile("a.yaml", "1"),)
    assert OneTextFile(place.parent / "link" / "a.yaml").read().files == (TextFile("a.yaml", "1"),)


def test_a_mounted_configmap_is_read_through_its_links(tmp_path: Path) -> None:
    volume = KubeletVolume(tmp_path / "costs.d")
    volume.write({"a.yaml": "1"})
    (tmp_path / "costs.d").chmod(0o755)
    assert TextDirectory(tmp_path / "costs.d").read().files == (TextFile("a.yaml", "1"),)
    volume.write({"b.yaml": "2"})
    assert TextDirectory(tmp_path / "costs.d").read().files == (TextFile("b.yaml", "2"),)


def test_a_directory_that_is_not_there_is_looked_for_where_it_would_appear(tmp_path: Path) -> None:
    there = Path(os.path.realpath(tmp_path))
    found = TextDirectory(there / "etc" / "costs.d").lookups()
    assert found[there] == {"etc"}
    assert there / "etc" not in found


def test_every_name_in_the_directory_matters(place: Path) -> None:
    there = Path(os.path.realpath(place))
    write(place, "a.yaml")
    found = TextDirectory(there).lookups()
    assert ANY in found[there]
    assert "costs.d" in found[there.parent]


def test_nothing_outside_the_directory_is_watched(place: Path) -> None:
    there = Path(os.path.realpath(place))
    (place / "l.yaml").symlink_to("/etc/shadow")
    assert TextDirectory(there).lookups().keys() == TextDirectory(there.parent).lookups().keys() | {there}
    assert OneTextFile(there / "l.yaml").lookups().keys() == TextDirectory(there).lookups().keys()
    assert "l.yaml" in OneTextFile(there / "l.yaml").lookups()[there]


def test_where_links_inside_lead_is_watched(tmp_path: Path) -> None:
    there = Path(os.path.realpath(tmp_path)) / "costs.d"
    KubeletVolume(there).write({"a.yaml": "1"})
    generation = there / (there / "..data").readlink()
    assert (
        TextDirectory(there).lookups()[generation] == OneTextFile(there / "a.yaml").lookups()[generation] == {"a.yaml"}
    )
    assert "..data" in OneTextFile(there / "a.yaml").lookups()[there]
