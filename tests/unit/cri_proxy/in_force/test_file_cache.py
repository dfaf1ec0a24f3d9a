import os
from pathlib import Path
from weakref import WeakSet

import pytest

from cri_proxy.foreign_files.beneath import FileBeneath, FileRefused, open_beneath
from cri_proxy.in_force.file_cache import ParsedFiles


class Parsed:
    """What a file says, to be told from what it said before."""

    def __init__(self, file: FileBeneath, path: Path) -> None:
        self.text = file.text(100)


def look(files: ParsedFiles[Parsed], path: Path) -> Parsed:
    with open_beneath(path.parent) as directory:
        return files.of(directory, path)


def test_a_file_is_parsed_again_when_it_changes_only(tmp_path: Path) -> None:
    files, path = ParsedFiles(Parsed), tmp_path / "a"
    path.write_text("1")
    first = look(files, path)
    assert look(files, path) is first
    path.write_text("22")
    assert look(files, path).text == "22"


def test_a_file_that_took_the_place_of_another_of_its_size_and_time_is_parsed_again(tmp_path: Path) -> None:
    """Package managers that keep every version give all files the same time; a link leads to one of them."""
    files = ParsedFiles(Parsed)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    assert look(files, tmp_path / "a").text == "a"
    (tmp_path / "b").rename(tmp_path / "a")
    assert look(files, tmp_path / "a").text == "b"


def test_what_is_not_kept_is_forgotten(tmp_path: Path) -> None:
    files = ParsedFiles(Parsed)
    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    known = WeakSet(look(files, tmp_path / name) for name in ("a", "b"))
    files.keep([tmp_path / "a"])
    assert len(known) == 1


def test_a_file_that_is_refused_is_not_remembered(tmp_path: Path) -> None:
    files, path = ParsedFiles(Parsed), tmp_path / "a"
    path.write_text("x" * 101)
    with pytest.raises(FileRefused, match="larger than 100 bytes"):
        look(files, path)
    path.write_text("x")
    assert look(files, path).text == "x"
