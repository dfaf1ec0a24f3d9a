import json
import os
import random
from pathlib import Path

import pytest

from cri_proxy.cri.cdi.specs import cdi_spec
from cri_proxy.device_files.cdi import MAX_FILE_BYTES, MAX_FILES, CdiFiles, ask_cdi

ONE = '{"kind": "a/b", "devices": [{"name": "1"}]}'
NAMED_2 = ONE.replace('"1"', '"2"')


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


def test_another_process_is_given_what_was_parsed_and_parses_what_has_changed(tmp_path: Path) -> None:
    """Its files are named otherwise here, so that it is seen where an answer comes from."""
    put(tmp_path, "etc/cdi/a.json", ONE)
    put(tmp_path, "etc/cdi/b.json", "{}")
    files, other = CdiFiles(tmp_path), CdiFiles(tmp_path)
    files.specs()
    files._files.known = {
        path: (stamp, cdi_spec(json.loads(NAMED_2))) for path, (stamp, _) in files._files.known.items()
    }
    other.take(files.packed())
    put(tmp_path, "etc/cdi/b.json", ONE.replace("a/b", "c/d"))
    assert [list(spec.devices) for _, spec in other.specs()] == [["a/b=2"], ["c/d=1"]]


def test_each_process_keeps_what_it_has_parsed_itself(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", ONE)
    _, early = ask_cdi(tmp_path, b"", CdiFiles.specs)
    put(tmp_path, "etc/cdi/a.json", NAMED_2)
    assert ask_cdi(tmp_path, early, CdiFiles.declared, ["a/b=2"])[0] == ("a/b=2",)
    late = ask_cdi(tmp_path, b"", CdiFiles.specs)[1]
    assert ask_cdi(tmp_path, early, CdiFiles.specs)[1] == late != early


def test_more_than_so_much_is_not_handed_on(tmp_path: Path) -> None:
    names = random.Random(1).sample(range(10**12), 200_000)
    put(tmp_path, "etc/cdi/a.json", ONE.replace("1", "".join(map(str, names))))
    answer, packed = ask_cdi(tmp_path, b"", CdiFiles.specs)
    assert len(answer) == 1
    assert packed == b""


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
