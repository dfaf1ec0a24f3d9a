import ctypes
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.node.resource_files.contents import generation_in, machine_sets, unpinned_resources
from cri_proxy.node.resource_files.directories import (
    JSON,
    SHELL,
    ContainerDirectory,
    ResourceFilesError,
    directory_of,
    list_directories,
    remove_directory,
    write_files,
)
from policies.base import ContainerKey, Pinning
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

FACTS = unpinned_resources(Pinning(None, None), machine_sets(describe({"cores": 4})))
OTHER = replace(FACTS, shared_cpus=CpuSet.parse("1"))
PLACE = ContainerDirectory("uid-1", "app")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_both_files_can_be_read_by_every_user_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert write_files(tmp_path / "told", PLACE, FACTS)
    finally:
        os.umask(before)
    here = PLACE.below(tmp_path / "told")
    assert [mode(here), mode(here.parent), mode(here / SHELL), mode(here / JSON)] == [0o755, 0o755, 0o644, 0o644]
    assert sorted(p.name for p in here.iterdir()) == [JSON, SHELL]


def versions(root: Path) -> list[tuple[int, int]]:
    """Which files they are, and when they were written last. Who reads them changes neither."""
    found = [(PLACE.below(root) / name).stat() for name in (SHELL, JSON)]
    return [(each.st_ino, each.st_mtime_ns) for each in found]


def test_facts_that_stay_leave_the_files_alone(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    before = versions(tmp_path)
    assert not write_files(tmp_path, PLACE, FACTS)
    assert versions(tmp_path) == before


def test_a_change_replaces_the_files_and_not_the_directory(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    here = PLACE.below(tmp_path)
    directory, old = here.stat().st_ino, (here / SHELL).open()
    assert write_files(tmp_path, PLACE, OTHER)
    assert here.stat().st_ino == directory
    assert 'SHARED_CPUS="0-3"' in old.read()
    assert 'SHARED_CPUS="1"' in (here / SHELL).read_text()
    old.close()


def renamed_into(directory: Path, act: Callable[[], object]) -> list[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(descriptor, os.fsencode(directory), 0x80) >= 0
    act()
    data, names = os.read(descriptor, 4096), []
    os.close(descriptor)
    while data:  # struct inotify_event of inotify(7): four numbers, the last is the length of the name behind them
        *_, length = struct.unpack_from("iIII", data)
        names.append(data[16 : 16 + length].rstrip(b"\0").decode())
        data = data[16 + length :]
    return names


def test_inotify_on_the_directory_tells_of_each_change_the_json_last(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    assert renamed_into(PLACE.below(tmp_path), lambda: write_files(tmp_path, PLACE, OTHER)) == [SHELL, JSON]


def test_every_change_is_a_generation(tmp_path: Path) -> None:
    generations = []
    for facts in (FACTS, OTHER, OTHER, FACTS):
        write_files(tmp_path, PLACE, facts)
        generations.append(generation_in((PLACE.below(tmp_path) / JSON).read_text()))
    assert generations == [1, 2, 2, 3]


@pytest.mark.parametrize("damage", ["garbage", "", "missing", "mode"])
def test_a_damaged_file_is_written_again(tmp_path: Path, damage: str) -> None:
    write_files(tmp_path, PLACE, FACTS)
    file = PLACE.below(tmp_path) / SHELL
    good = file.read_text()
    if damage == "missing":
        file.unlink()
    elif damage == "mode":
        file.chmod(0o600)
    else:
        file.write_text(damage)
    assert write_files(tmp_path, PLACE, FACTS)
    assert (file.read_text(), mode(file)) == (good, 0o644)


def test_what_an_interrupted_write_left_is_no_obstacle(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    (PLACE.below(tmp_path) / f".{SHELL}.new").write_text("half")
    assert write_files(tmp_path, PLACE, OTHER)


@pytest.mark.parametrize("link", ["uid-1", "uid-1/app"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, link: str) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    root = tmp_path / "told"
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(target)
    with pytest.raises(ResourceFilesError, match=link.rpartition("/")[2]):
        write_files(root, PLACE, FACTS)
    assert list(target.iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    target = tmp_path / "target"
    target.write_text("precious")
    (PLACE.below(tmp_path) / SHELL).unlink()
    (PLACE.below(tmp_path) / SHELL).symlink_to(target)
    assert write_files(tmp_path, PLACE, FACTS)
    assert (target.read_text(), (PLACE.below(tmp_path) / SHELL).is_symlink()) == ("precious", False)


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    PLACE.below(tmp_path).chmod(0o777)
    with pytest.raises(ResourceFilesError, match="others may write to it"):
        write_files(tmp_path, PLACE, OTHER)


def test_a_place_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "told").write_text("a file")
    with pytest.raises(ResourceFilesError, match="told"):
        write_files(tmp_path / "told", PLACE, FACTS)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc", "a\0b", "=abc", ".hidden", "x" * 500, "ü", "\ud800"])
def test_a_name_that_is_no_plain_name_becomes_a_hash(name: str) -> None:
    assert directory_of(ContainerKey("uid", name)).container.startswith("=")


def test_names_as_the_kubelet_makes_them_stay_readable() -> None:
    key = ContainerKey("3f0c1d5e-0b0e-4a8e-9f4e-0123456789ab", "my-app")
    assert directory_of(key) == ContainerDirectory(key.pod_uid, key.name)


@given(st.text(), st.text())
def test_two_names_never_share_a_place_and_none_leads_outside(one: str, other: str) -> None:
    place, second = directory_of(ContainerKey(one, other)), directory_of(ContainerKey(other, one))
    assert (place == second) == (one == other)
    assert {"/", "\0"}.isdisjoint(place.pod + place.container)
    assert {place.pod, place.container}.isdisjoint({"", ".", ".."})


def test_places_are_found_and_other_things_are_not_ours(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    write_files(tmp_path, ContainerDirectory("uid-1", "b"), FACTS)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "uid-1")
    assert list_directories(tmp_path) == (PLACE, ContainerDirectory("uid-1", "b"))
    assert list_directories(tmp_path / "absent") == ()


def test_the_pods_directory_goes_with_its_last_container(tmp_path: Path) -> None:
    write_files(tmp_path, PLACE, FACTS)
    write_files(tmp_path, ContainerDirectory("uid-1", "b"), FACTS)
    remove_directory(tmp_path, PLACE)
    assert list_directories(tmp_path) == (ContainerDirectory("uid-1", "b"),)
    remove_directory(tmp_path, ContainerDirectory("uid-1", "b"))
    assert list(tmp_path.iterdir()) == []
    remove_directory(tmp_path, PLACE)
