from pathlib import Path

import pytest

from sysfs.discover import discover, discover_tree
from sysfs.errors import MachineSourceError, SysfsError
from tests.fakes.machines import renumber, small_machine
from tests.fakes.sysfs_tree import files_of, links_of, memory_tree, tree_of, write_tree

PCI = [{"address": "10:01.0", "class": 0x060400, "node": 1}, {"address": "11:00.0", "parent": "10:01.0"}]


def test_a_tree_on_disk_and_one_in_memory_are_the_same_machine(tmp_path: Path) -> None:
    machine = small_machine(dies=2, isolated="3", offline="5", pci=PCI)
    assert discover(write_tree(tmp_path, machine)) == discover_tree(tree_of(machine)) == machine


def test_the_machine_that_runs_this_can_be_read() -> None:
    machine = discover()
    assert machine.online
    assert sum(len(node.cpus) for node in machine.nodes) == len(machine.cpus)


def test_cpu_numbers_may_be_sparse_and_beyond_1024() -> None:
    machine = renumber(small_machine(), {n: 1000 + 13 * n for n in range(8)}, {1: 7})
    assert discover_tree(tree_of(machine)) == machine


def test_a_kernel_without_numa_has_devices_without_a_node() -> None:
    machine = small_machine(pci=PCI)
    files = {p: c for p, c in files_of(machine).items() if "/node/" not in p and not p.endswith("/numa_node")}
    found = discover_tree(memory_tree(files, links_of(machine)))
    assert [(each.address, each.node) for each in found.devices] == [("0000:10:01.0", -1), ("0000:11:00.0", -1)]


def test_an_empty_tree_is_no_machine(tmp_path: Path) -> None:
    (tmp_path / "sys" / "devices").mkdir(parents=True)
    with pytest.raises(SysfsError, match="online"):
        discover(tmp_path)
    with pytest.raises(SysfsError, match="online"):
        discover_tree(memory_tree({}))


@pytest.mark.parametrize(("name", "problem"), [(".", "no sys/devices"), ("none", "no such directory")])
def test_a_root_without_a_tree_is_named_with_the_remedy(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(MachineSourceError, match=rf"{problem}; --sysfs-root takes") as caught:
        discover(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_what_was_guessed_is_noted_once(tmp_path: Path) -> None:
    changes = {"sys/devices/system/node/node0/distance": None, "sys/devices/system/node/has_memory": "x"}
    machine = discover(write_tree(tmp_path, small_machine(), changes))
    assert [note.partition(":")[0].rpartition("/")[2] for note in machine.notes][:2] == ["has_memory", "distance"]
