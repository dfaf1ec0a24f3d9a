"""Every captured machine reads as what it was: by its own description, and by lscpu and numactl inside it."""

import re
from pathlib import Path

import pytest

from sysfs.archives.capture import capture_tree
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.discover import discover_tree
from sysfs.errors import MachineSourceError
from sysfs.model import CoreKind, Device, Machine, MemoryKind
from sysfs.pci import read_devices
from sysfs.reader import TreeReader
from sysfs.sources import load_machine
from tests.golden.machines.captures import (
    A_DISPLAY,
    BIG_SERVER,
    CPUFREQ,
    DESKTOP,
    LAPTOP,
    MOVABLE,
    OTHER_MACHINES,
    OURS,
    SCATTERED,
    SERVER,
    folder_of_others,
    lscpu_groups,
    numactl,
    others,
    ours,
    trees,
)
from tests.stages import NO_CAPTURES

# name: packages, dies, nodes, online CPUs, isolated, offline, siblings of CPU 0
OUR_MACHINES = {
    "1s1n-nosmt": (1, 1, 1, "0-7", "", "", "0"),
    "1s2n-l3": (1, 1, 2, "0-7", "", "", "0"),
    "2s2n": (2, 2, 2, "0-15", "", "", "0-1"),
    "2s2n-split": (2, 2, 2, "0-15", "", "", "0,8"),
    "2s2n-offline": (2, 2, 2, "0,2-4,6-11,14-15", "", "1,5,12-13", "0"),
    "2s4n-isol": (2, 2, 4, "0-15", "3,7", "", "0-1"),
    "2s2d4n": (2, 4, 4, "0-15", "", "", "0-1"),
    "4s4n": (4, 4, 4, "0-31", "", "", "0-1"),
    "2s8n": (2, 2, 8, "0-31", "", "", "0-1"),
    "2s-pmem": (2, 2, 4, "0-15", "", "", "0-1"),
    "2s4n-hbm": (2, 2, 4, "0-15", "", "", "0-1"),
    "2s3n-movable": (2, 2, 3, "0-15", "", "", "0-1"),
    "2s3n-nomem": (2, 2, 3, "0-7", "", "", "0"),
    "2s4n-pci": (2, 2, 4, "0-15", "", "", "0-1"),
}
# packages, nodes, CPUs, cores, isolated
MEASURED = {
    DESKTOP: (1, 1, 20, 10, ""),
    SERVER: (2, 6, 112, 56, "4-7,60-63"),
    BIG_SERVER: (4, 4, 144, 72, ""),
    SCATTERED: (2, 4, 80, 40, ""),
    CPUFREQ: (2, 4, 80, 40, ""),
    LAPTOP: (1, 1, 16, 12, ""),
    MOVABLE: (2, 8, 112, 56, "4-7,60-63"),
}
every_machine = pytest.mark.parametrize("name", OUR_MACHINES)
every_other = pytest.mark.parametrize(("file", "root"), OTHER_MACHINES)


def l3(machine: Machine) -> list[str]:
    return [str(cache.cpus) for cache in machine.caches if cache.level == 3]


def device(machine: Machine, address: str) -> Device:
    return next(d for d in machine.devices if d.address == f"0000:{address}")


def test_no_capture_is_without_a_test() -> None:
    assert {file.name.removesuffix(".tar.xz") for file in OURS.glob("*.tar.xz")} == set(OUR_MACHINES)


def test_no_capture_of_another_project_is_without_a_test_or_missing() -> None:
    found = {(file.name, root) for file in folder_of_others().glob("*.tar.*") for root in trees(file)}
    assert found == {*OTHER_MACHINES, A_DISPLAY}


def test_only_where_the_whole_folder_of_other_projects_is_absent_a_test_is_skipped(tmp_path: Path) -> None:
    assert folder_of_others(tmp_path) == tmp_path
    with pytest.raises(pytest.skip.Exception, match=f"^{re.escape(NO_CAPTURES)}$"):
        folder_of_others(tmp_path / "absent")
    with pytest.raises(MachineSourceError, match="no such file"):
        trees(tmp_path / DESKTOP[0])


@every_machine
def test_counts_and_cpu_states_are_those_it_was_made_with(name: str) -> None:
    machine = ours(name)
    counts = (len(machine.packages), len(machine.dies), len(machine.nodes))
    states = (str(machine.online), str(machine.isolated), str(machine.offline), str(machine.cores[0].cpus))
    assert counts + states == OUR_MACHINES[name]
    assert machine.notes == ()


@every_machine
def test_cores_packages_and_level_2_caches_are_those_of_lscpu(name: str) -> None:
    machine = ours(name)
    assert {core.cpus for core in machine.cores} == lscpu_groups(name, "Core")
    assert {package.cpus for package in machine.packages} == lscpu_groups(name, "Socket")
    assert {node.cpus for node in machine.nodes if node.cpus} == lscpu_groups(name, "Node")
    assert {cache.cpus for cache in machine.caches if cache.level == 2} == lscpu_groups(name, "L2")


@pytest.mark.parametrize(
    "name", [name for name in OUR_MACHINES if name != "1s2n-l3"]
)  # there lscpu groups by id, which is no group
def test_level_3_caches_are_those_of_lscpu(name: str) -> None:
    assert {cache.cpus for cache in ours(name).caches if cache.level == 3} == lscpu_groups(name, "L3")


@every_machine
def test_nodes_memory_and_distances_are_those_of_numactl(name: str) -> None:
    machine = ours(name)
    shown = [(n.id, n.cpus, n.memory_bytes >> 20, [distance for _, distance in n.distances]) for n in machine.nodes]
    assert shown == numactl(name)


def test_level_3_caches_are_grouped_by_who_shares_them_not_by_id() -> None:
    assert l3(ours("1s2n-l3")) == ["0-3", "4-7"]
    assert l3(ours("2s8n")) == ["0-15", "16-31"]
    assert l3(ours("2s2d4n")) == ["0-3", "4-7", "8-11", "12-15"]


@pytest.mark.parametrize(
    ("name", "kind", "near"),
    [("2s-pmem", "pmem", ["0", "1"]), ("2s4n-hbm", "hbm", ["0", "1"]), ("2s3n-movable", "pmem", ["0"])],
)
def test_memory_only_nodes_have_a_kind_and_belong_to_the_closest_cpus(name: str, kind: str, near: list[str]) -> None:
    far = [n for n in ours(name).nodes if not n.cpus]
    assert {n.kind for n in far} == {MemoryKind(kind)}
    assert [str(n.near) for n in far] == near


def test_movable_memory_is_not_normal_memory() -> None:
    assert [n.is_normal_memory for n in ours("2s3n-movable").nodes] == [True, True, False]
    assert all(n.is_normal_memory for n in ours("2s-pmem").nodes)


def test_a_node_with_cpus_may_have_no_memory() -> None:
    machine = ours("2s3n-nomem")
    assert machine.memory_nodes == NodeSet.parse("0,2")
    assert [str(n.cpus) for n in machine.nodes] == ["0-3", "4-7", ""]


def test_core_ids_repeat_between_packages_and_run_through_dies() -> None:
    assert [c.core_id for c in ours("2s2n").cores] == [0, 1, 2, 3] * 2
    assert [(c.package, c.die, c.core_id) for c in ours("2s2d4n").cores][:4] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 2),
        (0, 1, 3),
    ]


def test_pci_devices_know_node_cpus_and_the_way_from_the_host_bridge() -> None:
    gpu, other = device(ours("2s4n-pci"), "13:00.0"), device(ours("2s4n-pci"), "18:00.0")
    assert (gpu.class_code, gpu.vendor, gpu.node, str(gpu.local_cpus)) == (0x038000, 0x1AF4, 0, "0-3")
    assert gpu.bridges == ("pci0000:10", "0000:10:01.0", "0000:11:00.0", "0000:12:00.0")
    assert gpu.bridges[:1] == other.bridges[:1]
    assert gpu.bridges[1] != other.bridges[1]


def test_devices_of_the_machine_itself_are_local_to_every_cpu() -> None:
    disk = device(ours("2s4n-pci"), "00:01.0")
    assert (disk.node, str(disk.local_cpus), disk.bridges) == (-1, "0-15", ("pci0000:00",))


def test_virtual_functions_name_their_physical_function() -> None:
    virtual = {d.address for d in ours("2s4n-pci").devices if d.physical_function == "0000:28:00.0"}
    assert virtual == {f"0000:28:00.{n}" for n in range(1, 5)}
    assert device(ours("2s4n-pci"), "28:00.0").physical_function == ""


@pytest.mark.parametrize(("address", "node"), [("27:00.0", 1), ("30:00.0", 2), ("39:00.0", 2), ("4a:00.0", 3)])
def test_pci_devices_are_on_the_node_of_their_host_bridge(address: str, node: int) -> None:
    assert device(ours("2s4n-pci"), address).node == node


@every_machine
def test_a_capture_of_a_capture_is_the_same_machine(name: str, tmp_path: Path) -> None:
    file = tmp_path / "again.tar.xz"
    capture_tree(trees(OURS / f"{name}.tar.xz")[name], file)
    assert load_machine(str(file)) == ours(name)


@every_other
def test_real_hardware_has_the_counts_that_were_measured(file: str, root: str) -> None:
    machine = discover_tree(others(file, root))
    counts = (len(machine.packages), len(machine.nodes), len(machine.cpus), len(machine.cores), str(machine.isolated))
    assert counts == MEASURED[file, root]
    assert (machine.offline, machine.notes) == (CpuSet(), ())


def test_interleaved_server_nodes_and_memory_by_distance() -> None:
    machine = discover_tree(others(*SERVER))
    assert machine.nodes[0].cpus == CpuSet.of(range(0, 112, 4))
    assert [p.cpus for p in machine.packages] == [CpuSet.of(range(0, 112, 2)), CpuSet.of(range(1, 112, 2))]
    assert [(n.kind, str(n.near), n.memory_bytes >> 30) for n in machine.nodes[4:]] == [
        (MemoryKind.PMEM, "0", 124),
        (MemoryKind.PMEM, "2", 124),
    ]
    assert [d for _, d in machine.nodes[4].distances] == [17, 28, 28, 28, 10, 28]


def test_desktop_tells_frequency_and_preference_and_the_big_server_does_not() -> None:
    desktop = discover_tree(others(*DESKTOP))
    big = discover_tree(others(*BIG_SERVER))
    assert {(c.base_frequency_khz, c.energy_preference) for c in desktop.cpus} == {(3_300_000, "balance_performance")}
    assert {c.base_frequency_khz for c in big.cpus} == {0}


def test_scattered_nodes_of_one_package() -> None:
    machine = discover_tree(others(*SCATTERED))
    assert str(machine.nodes[0].cpus) == "0-2,5-6,10-12,15-16,40-42,45-46,50-52,55-56"
    assert [d for _, d in machine.nodes[0].distances] == [10, 11, 21, 21]


def test_hybrid_laptop_has_performance_cores_with_two_threads_and_efficiency_cores_with_one() -> None:
    machine = discover_tree(others(*LAPTOP))
    kinds = [(str(core.cpus), machine.cpus[min(core.cpus)].kind) for core in machine.cores]
    assert [cpus for cpus, kind in kinds if kind is CoreKind.PERFORMANCE] == ["0-1", "2-3", "4-5", "6-7"]
    assert [cpus for cpus, kind in kinds if kind is CoreKind.EFFICIENCY] == [str(n) for n in range(8, 16)]
    assert [str(c.cpus) for c in machine.caches if c.level == 2][-2:] == ["8-11", "12-15"]


def test_core_type_lists_need_not_cover_a_whole_server() -> None:
    machine = discover_tree(others(*CPUFREQ))
    efficient = CpuSet.of(c.id for c in machine.cpus if c.kind is CoreKind.EFFICIENCY)
    assert str(efficient) == "16-19,36-39,56-59,76-79"


def test_every_dram_node_has_its_own_movable_pmem() -> None:
    far = discover_tree(others(*MOVABLE)).nodes[4:]
    assert all(n.kind is MemoryKind.PMEM and not n.is_normal_memory for n in far)
    assert sorted(str(n.near) for n in far) == ["0", "1", "2", "3"]


def test_devices_are_found_without_a_bus_directory() -> None:
    (display,) = read_devices(TreeReader(others(*A_DISPLAY)), CpuSet.parse("0-7"), NodeSet.of([0]))
    assert (display.address, display.class_code, display.node) == ("0000:00:02.0", 0x030000, -1)
    assert str(display.local_cpus) == "0-7"
