import re
from pathlib import Path

import pytest

from sysfs.archives.capture import capture
from sysfs.discover import discover
from sysfs.errors import MachineSourceError
from sysfs.sources import load_machine
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import write_tree

SHORT = {"packages": 2, "cores": 2, "threads": 2, "memory": "2Gi"}
YAML = "{packages: 2, cores: 2, threads: 2, memory: 2Gi}"


def test_host_is_the_machine_that_this_runs_on() -> None:
    assert load_machine("host").online == discover().online


def test_a_directory_is_named_by_what_holds_sys_or_by_sys(tmp_path: Path) -> None:
    write_tree(tmp_path, small_machine())
    assert load_machine(str(tmp_path)) == load_machine(str(tmp_path / "sys")) == small_machine()


def test_a_description_is_a_mapping_a_text_in_braces_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(YAML)
    (tmp_path / "scenario.yml").write_text(f"machine: {YAML}\nsteps: []\n")
    for spec in (SHORT, YAML, str(tmp_path / "m.yaml"), str(tmp_path / "scenario.yml")):
        assert load_machine(spec) == small_machine()


def test_an_archive_with_one_machine_needs_no_root(tmp_path: Path) -> None:
    capture(tmp_path / "m.tar.xz", write_tree(tmp_path / "tree", small_machine()))
    for root in ("", ":", ":sys", ":."):
        assert load_machine(f"{tmp_path}/m.tar.xz{root}") == small_machine()
    with pytest.raises(MachineSourceError, match="no such machine in the archive"):
        load_machine(f"{tmp_path}/m.tar.xz:other")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("/nowhere", "no such directory; give host, a directory"),
        ("/nowhere/m.tar.xz", "no such file"),
        ("/nowhere/m.yaml", "cannot be read"),
        ("/proc", "no sys/devices"),
        ("{packages: ", "not YAML"),
        ("{packages}: [}", "not YAML"),
    ],
)
def test_a_source_that_cannot_be_used_is_named_with_the_remedy(spec: str, message: str) -> None:
    with pytest.raises(MachineSourceError) as caught:
        load_machine(spec)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["- 1", "text", "", "machine: host"])
def test_a_file_that_holds_no_description_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(MachineSourceError):
        load_machine(str(tmp_path / "m.yaml"))


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ("dgx-a10", "did you mean dgx-a100?"),
        ("EPYC-7763-2S", "did you mean epyc-7763-2s?"),
        ("/no/such", "give host, "),
    ],
)
def test_an_unknown_name_of_a_machine_is_told_the_one_that_was_meant(spec: str, remedy: str) -> None:
    with pytest.raises(MachineSourceError, match=f"no such directory; {re.escape(remedy)}"):
        load_machine(spec)


def test_a_description_that_is_not_there_cannot_be_read() -> None:
    with pytest.raises(MachineSourceError, match=r"missing\.yaml': cannot be read: No such file"):
        load_machine("/nowhere/missing.yaml")
