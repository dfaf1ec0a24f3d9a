import os
import pickle
from pathlib import Path

import pytest

from cri_proxy.device_files.cdi import MAX_FILE_BYTES, MAX_FILES, CdiFiles, cdi_files

ONE = '{"kind": "a/b", "devices": [{"name": "1"}]}'


def said(root: Path) -> list[tuple[str, list[str] | None]]:
    """The files with the devices that they declare; None is no specification."""
    found = CdiFiles(root).specs()
    return [(path.lstrip("/"), list(spec.devices) if spec.is_specification else None) for path, spec in found]


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_json_and_yaml_are_read_by_directory_and_name_and_other_files_are_not(tmp_path: Path) -> None:
    for name in ("etc/cdi/b.yaml", "etc/cdi/a.json", "var/run/cdi/z.json", "etc/cdi/a.json.tmp"):
        put(tmp_path, name, ONE if name.endswith(".json") else "kind: a/b\ndevices: [{name: '1'}]")
    found = said(tmp_path)
    assert [name for name, _ in found] == ["var/run/cdi/z.json", "etc/cdi/a.json", "etc/cdi/b.yaml"]
    assert all(devices == ["a/b=1"] for _, devices in found)


@pytest.mark.parametrize("text", ["{", "\0", "[" * 100_000, "{}" + " " * MAX_FILE_BYTES])
def test_garbage_and_what_is_too_long_is_none(text: str, tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", text)
    assert said(tmp_path) == [("etc/cdi/a.json", None)]


def test_a_file_of_the_greatest_length_is_read(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", ONE + " " * (MAX_FILE_BYTES - len(ONE)))
    assert said(tmp_path) == [("etc/cdi/a.json", ["a/b=1"])]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", ONE)
    files = CdiFiles(tmp_path)
    assert files.declared(["a/b=1", "a/b=22"]) == ("a/b=1",)
    put(tmp_path, "etc/cdi/a.json", ONE.replace('"1"', '"22"'))
    assert files.declared(["a/b=1", "a/b=22"]) == ("a/b=22",)


def test_a_process_to_which_they_are_sent_uses_its_own(tmp_path: Path) -> None:
    """A helper parses a file once, whoever asks."""
    assert pickle.loads(pickle.dumps(CdiFiles(tmp_path))) is cdi_files(tmp_path)


@pytest.mark.parametrize("target", ["nowhere", "../secret.json", "/{root}/etc/secret.json"])
def test_a_link_that_leads_nowhere_or_out_is_none(tmp_path: Path, target: str) -> None:
    put(tmp_path, "etc/cdi/b.json", ONE)
    put(tmp_path, "etc/secret.json", "2")
    (tmp_path / "etc/cdi/a.json").symlink_to(target.format(root=tmp_path))
    (tmp_path / "etc/cdi/c.json").symlink_to("b.json")
    assert said(tmp_path) == [("etc/cdi/a.json", None), ("etc/cdi/b.json", ["a/b=1"]), ("etc/cdi/c.json", ["a/b=1"])]


def test_a_directory_that_cannot_be_opened_has_no_files(tmp_path: Path) -> None:
    put(tmp_path, "var/run/cdi", "a file")
    put(tmp_path, "etc/cdi/b.json", ONE)
    assert said(tmp_path) == [("etc/cdi/b.json", ["a/b=1"])]
    assert said(tmp_path / "elsewhere") == []


def test_no_more_than_so_many_files_of_a_directory_are_read(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        put(tmp_path, f"etc/cdi/{number:04}.json", "1")
    assert len(said(tmp_path)) == MAX_FILES


@pytest.mark.timeout(20)
def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/b.json", ONE)
    os.mkfifo(tmp_path / "etc/cdi/a.json")
    assert said(tmp_path) == [("etc/cdi/a.json", None), ("etc/cdi/b.json", ["a/b=1"])]
