import pytest

from sysfs.cpus import read_cpus, read_isolated, read_offline, read_online
from sysfs.cpuset import CpuSet
from sysfs.errors import SysfsError
from sysfs.model import CoreKind
from sysfs.reader import TreeReader
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import CPU, files_of, memory_tree

FILES = files_of(small_machine())  # CPUs 0-7, siblings n,n+1
ALL = CpuSet.parse("0-7")


def reader(changes: dict[str, str | None]) -> TreeReader:
    """The small machine with some files of the CPU directory changed, or gone."""
    files = {**FILES, **{f"{CPU}/{path}": content for path, content in changes.items()}}
    return TreeReader(memory_tree({path: content for path, content in files.items() if content is not None}))


def everywhere(name: str, content: str | None) -> dict[str, str | None]:
    return {f"cpu{n}/topology/{name}": content for n in ALL}


def test_without_the_online_list_each_cpu_says_so_itself_and_cpu_0_need_not() -> None:
    source = reader({"online": None, "cpu3/online": "0"})
    assert read_online(source) == ALL - CpuSet.of([3])
    assert len(source.notes) == 1


@pytest.mark.parametrize("content", ["", "0-", "x"])
def test_there_is_no_machine_without_online_cpus(content: str) -> None:
    with pytest.raises(SysfsError, match="cpu/online"):
        read_online(reader({"online": content}))


def test_offline_are_the_present_ones_that_are_not_online() -> None:
    assert str(read_offline(reader({"present": "0-9", "offline": "8-127"}), ALL)) == "8-9"


@pytest.mark.parametrize(("content", "notes"), [(None, 0), ("0-", 1), ("0-3", 1)])
def test_without_a_list_of_present_cpus_the_directories_count(content: str | None, notes: int) -> None:
    source = reader({"present": content, "cpu9/online": "0"})
    assert str(read_offline(source, ALL)) == "9"
    assert len(source.notes) == notes


@pytest.mark.parametrize(("content", "isolated"), [(None, ""), ("", ""), ("3,7,9", "3,7")])
def test_isolated_cpus_are_the_online_ones_of_the_list(content: str | None, isolated: str) -> None:
    assert str(read_isolated(reader({"isolated": content}), ALL)) == isolated


def test_a_machine_without_die_ids_has_one_die_per_package() -> None:
    assert {c.die for c in read_cpus(reader(everywhere("die_id", None)), ALL)} == {0}
    assert {c.die for c in read_cpus(reader(everywhere("die_id", "-1")), ALL)} == {0}


def test_the_older_name_of_the_sibling_list_is_read_too() -> None:
    older = {f"cpu{n}/topology/thread_siblings_list": f"{n & ~1}-{n | 1}" for n in ALL}
    cpus = read_cpus(reader({**everywhere("core_cpus_list", None), **older}), ALL)
    assert str(cpus[5].siblings) == "4-5"


def test_a_kernel_that_tells_no_siblings_has_one_core_per_cpu() -> None:
    source = reader(everywhere("core_cpus_list", None))
    assert {len(c.siblings) for c in read_cpus(source, ALL)} == {1}
    assert "no thread siblings" in source.notes[0]


def test_a_kernel_that_tells_no_topology_has_one_package() -> None:
    names = ("core_cpus_list", "core_id", "die_id", "physical_package_id")
    source = reader({path: None for name in names for path in everywhere(name, None)})
    assert {(c.package, len(c.siblings)) for c in read_cpus(source, ALL)} == {(0, 1)}
    assert "no CPU topology" in source.notes[0]


def test_a_package_id_of_minus_one_is_one_package() -> None:
    source = reader(everywhere("physical_package_id", "-1"))
    assert {c.package for c in read_cpus(source, ALL)} == {0}
    assert source.notes == ("the kernel reports no package ids: all CPUs are taken as one package",)


def test_a_cpu_that_went_offline_meanwhile_is_left_out_and_noted() -> None:
    names = ("core_cpus_list", "core_id", "die_id", "physical_package_id")
    source = reader({"cpu5/online": "0", **{f"cpu5/topology/{name}": None for name in names}})
    assert [c.id for c in read_cpus(source, ALL)] == [0, 1, 2, 3, 4, 6, 7]
    assert "CPU 5 went offline" in source.notes[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [("core_cpus_list", "0-1"), ("core_cpus_list", "4-7"), ("core_cpus_list", ""), ("physical_package_id", "7")],
)
def test_siblings_that_contradict_each_other_are_refused(name: str, content: str) -> None:
    with pytest.raises(SysfsError, match="topology"):
        read_cpus(reader({f"cpu4/topology/{name}": content}), ALL)


def test_core_types_come_from_the_lists_of_the_performance_counters() -> None:
    files = {**FILES, "sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"}
    kinds = [c.kind for c in read_cpus(TreeReader(memory_tree(files)), ALL)]
    assert kinds == [CoreKind.PERFORMANCE] * 4 + [CoreKind.EFFICIENCY] * 4


def test_capacities_are_read_where_the_kernel_has_them() -> None:
    found = read_cpus(reader({f"cpu{cpu}/cpu_capacity": str(530 if cpu < 4 else 1024) for cpu in range(8)}), ALL)
    assert [cpu.capacity for cpu in found] == [530] * 4 + [1024] * 4


def test_frequency_and_preference_are_read_and_garbage_is_noted() -> None:
    preference = {"cpu0/cpufreq/energy_performance_preference": "power", "cpufreq/policy0/base_frequency": "2"}
    source = reader({**preference, "cpu0/cpufreq/base_frequency": "2000000", "cpu1/cpufreq/base_frequency": "fast"})
    first, second, *_ = read_cpus(source, ALL)
    assert (first.base_frequency_khz, first.energy_preference) == (2_000_000, "power")
    assert (second.base_frequency_khz, second.energy_preference) == (0, "")
    assert "cpu1/cpufreq/base_frequency" in source.notes[0]
