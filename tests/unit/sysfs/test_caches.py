import pytest

from sysfs.caches import read_caches
from sysfs.cpus import CPU
from sysfs.cpuset import CpuSet
from sysfs.model import Cache
from sysfs.reader import TreeReader
from tests.fakes.sysfs_tree import memory_tree

ALL = CpuSet.parse("0-3")


def cache(cpu: int, index: int, level: int, shared: str, kind: str = "Unified") -> dict[str, str]:
    base = f"{CPU}/cpu{cpu}/cache/index{index}"
    return {
        f"{base}/level": str(level),
        f"{base}/type": kind,
        f"{base}/shared_cpu_list": shared,
        f"{base}/size": "512K",
    }


def read(*parts: dict[str, str]) -> tuple[list[Cache], tuple[str, ...]]:
    reader = TreeReader(memory_tree({path: content for part in parts for path, content in part.items()}))
    return read_caches(reader, ALL), reader.notes


def shared(caches: list[Cache]) -> list[tuple[int, str]]:
    return [(c.level, str(c.cpus)) for c in caches]


def test_caches_are_found_once_and_first_level_and_instruction_caches_are_left_out() -> None:
    found, notes = read(
        *(cache(n, 0, 1, str(n)) for n in ALL),
        *(cache(n, 1, 2, str(n), "Instruction") for n in ALL),
        *(cache(n, 3, 3, "0-3") for n in ALL),
    )
    assert (found, notes) == ([Cache(3, ALL, 512 << 10)], ())


def test_offline_cpus_are_cut_off() -> None:
    assert shared(read(cache(0, 2, 2, "0-1,8-9"))[0]) == [(2, "0-1")]


def test_cpus_may_have_different_caches() -> None:
    found, _ = read(cache(0, 2, 2, "0"), cache(0, 3, 3, "0-1"), cache(1, 2, 2, "1"), cache(2, 2, 2, "2-3"))
    assert shared(found) == [(2, "0"), (2, "1"), (2, "2-3"), (3, "0-1")]


def test_a_level_whose_caches_overlap_is_left_out_and_noted() -> None:
    found, notes = read(cache(0, 3, 3, "0-2"), cache(1, 3, 3, "0-2"), cache(3, 3, 3, "2-3"), cache(3, 2, 2, "3"))
    assert shared(found) == [(2, "3")]
    assert "level 3 caches overlap at CPUs 2" in notes[0]


@pytest.mark.parametrize("name", ["level", "type", "shared_cpu_list", "size"])
def test_a_cache_that_cannot_be_read_is_left_out_and_noted(name: str) -> None:
    path = f"{CPU}/cpu0/cache/index3/{name}"
    _, notes = read(cache(0, 3, 3, "0-3"), {path: "\0"})
    assert path in notes[0]


def test_a_size_that_is_not_told_is_0() -> None:
    parts = cache(0, 2, 2, "0")
    del parts[f"{CPU}/cpu0/cache/index2/size"]
    assert read(parts)[0] == [Cache(2, CpuSet.of([0]), 0)]


def test_a_machine_may_tell_of_no_caches() -> None:
    assert read() == ([], ())
