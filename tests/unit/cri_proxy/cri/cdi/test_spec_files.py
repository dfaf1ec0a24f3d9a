import os
from pathlib import Path
from weakref import WeakSet

import pytest

from cri_proxy.cri.cdi.spec_files import MAX_FILE_BYTES, MAX_FILES, SpecFiles


def said(root: Path) -> list[tuple[str, object]]:
    return [(str(path.relative_to(root)), content) for path, content in SpecFiles(root, lambda content: content)]


class Parsed:
    """What a file says, to be told from what it said before."""

    def __init__(self, content: object) -> None:
        self.content = content


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_json_and_yaml_are_read_by_directory_and_name_and_other_files_are_not(tmp_path: Path) -> None:
    for name in ("etc/cdi/b.yaml", "etc/cdi/a.json", "var/run/cdi/z.json", "etc/cdi/a.json.tmp"):
        put(tmp_path, name, '{"kind": "a/b"}' if name.endswith(".json") else "kind: a/b")
    found = said(tmp_path)
    assert [name for name, _ in found] == ["var/run/cdi/z.json", "etc/cdi/a.json", "etc/cdi/b.yaml"]
    assert all(content == {"kind": "a/b"} for _, content in found)


@pytest.mark.parametrize("text", ["{", "\0", "[" * 100_000, "{}" + " " * MAX_FILE_BYTES])
def test_garbage_and_what_is_too_long_is_none(text: str, tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", text)
    assert said(tmp_path) == [("etc/cdi/a.json", None)]


def test_a_file_of_the_greatest_length_is_read(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", "{}" + " " * (MAX_FILE_BYTES - 2))
    assert said(tmp_path) == [("etc/cdi/a.json", {})]


def test_a_file_is_parsed_again_when_it_changes_only(tmp_path: Path) -> None:
    parsed: list[object] = []
    files = SpecFiles(tmp_path, parsed.append)
    put(tmp_path, "etc/cdi/a.json", "1")
    assert len(list(files)) == len(list(files)) == len(parsed) == 1
    put(tmp_path, "etc/cdi/a.json", "22")
    assert [len(list(files)), parsed] == [1, [1, 22]]


def test_a_file_that_took_the_place_of_another_of_its_size_and_time_is_parsed_again(tmp_path: Path) -> None:
    """Package managers that keep every version give all files the same time; a link leads to one of them."""
    files = SpecFiles(tmp_path, lambda content: content)
    for name in ("etc/cdi/a.json", "b"):
        put(tmp_path, name, "1" if name == "b" else "2")
        os.utime(tmp_path / name, (1, 1))
    before = [content for _, content in files]
    (tmp_path / "b").rename(tmp_path / "etc/cdi/a.json")
    assert (before, [content for _, content in files]) == ([2], [1])


def test_what_was_parsed_is_forgotten_with_its_file(tmp_path: Path) -> None:
    files = SpecFiles(tmp_path, Parsed)
    for name in ("a", "b"):
        put(tmp_path, f"etc/cdi/{name}.json", "1")
    kept = WeakSet(parsed for _, parsed in files)
    assert len(kept) == 2
    (tmp_path / "etc/cdi/a.json").unlink()
    assert len(list(files)) == len(kept) == 1


@pytest.mark.parametrize("target", ["nowhere", "../secret.json", "/{root}/etc/secret.json"])
def test_a_link_that_leads_nowhere_or_out_is_none(tmp_path: Path, target: str) -> None:
    put(tmp_path, "etc/cdi/b.json", "1")
    put(tmp_path, "etc/secret.json", "2")
    (tmp_path / "etc/cdi/a.json").symlink_to(target.format(root=tmp_path))
    (tmp_path / "etc/cdi/c.json").symlink_to("b.json")
    assert said(tmp_path) == [("etc/cdi/a.json", None), ("etc/cdi/b.json", 1), ("etc/cdi/c.json", 1)]


def test_a_directory_that_cannot_be_opened_has_no_files(tmp_path: Path) -> None:
    put(tmp_path, "var/run/cdi", "a file")
    put(tmp_path, "etc/cdi/b.json", "1")
    assert said(tmp_path) == [("etc/cdi/b.json", 1)]
    assert said(tmp_path / "elsewhere") == []


def test_no_more_than_so_many_files_of_a_directory_are_read(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        put(tmp_path, f"etc/cdi/{number:04}.json", "1")
    assert len(said(tmp_path)) == MAX_FILES


@pytest.mark.timeout(20)
def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/b.json", "1")
    os.mkfifo(tmp_path / "etc/cdi/a.json")
    assert said(tmp_path) == [("etc/cdi/a.json", None), ("etc/cdi/b.json", 1)]
