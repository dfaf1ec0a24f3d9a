import pytest

from sysfs.archives.extent import is_read
from sysfs.discover import discover_tree
from sysfs.reader import Tree
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import tree_of


class WatchedTree:
    """A tree that remembers which files were asked for."""

    def __init__(self, inner: Tree) -> None:
        self._inner = inner
        self.asked: list[str] = []

    def read(self, path: str) -> bytes:
        self.asked.append(path)
        return self._inner.read(path)

    def names(self, path: str) -> list[str]:
        return self._inner.names(path)

    def link(self, path: str) -> str:
        self.asked.append(path)
        return self._inner.link(path)


def test_every_file_that_discovery_asks_for_is_listed() -> None:
    pci = [{"address": "10:01.0"}, {"address": "11:00.0", "parent": "10:01.0", "physical_function": "11:00.1"}]
    far = [{"memory": "1Gi", "near": {0: 17}}]
    machine = small_machine(offline="5", efficiency="6-7", memory_nodes=far, hugepages={"2Mi": 4}, pci=pci)
    tree = WatchedTree(tree_of(machine))
    discover_tree(tree)
    assert [path for path in tree.asked if not is_read(path)] == []
    assert any(path.endswith("0000:11:00.0/physfn") for path in tree.asked)
    assert any(path.endswith("hugepages-2048kB/nr_hugepages") for path in tree.asked)


@pytest.mark.parametrize(
    "path",
    [
        "sys/devices/system/cpu/cpu1023/cache/index3/shared_cpu_list",
        "sys/devices/system/cpu/cpu0/cpufreq",
        "sys/bus/pci/devices/0000:00:01.0",
        "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/class",
        "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
        "proc/meminfo",
    ],
)
def test_files_of_discovery_are_read(path: str) -> None:
    assert is_read(path)


@pytest.mark.parametrize(
    "path",
    [
        "sys/devices/system/cpu/cpufreq",
        "sys/devices/system/cpu/cpu0/microcode/version",
        "sys/devices/system/node/node0/cpu3",
        "sys/devices/pci0000:10/0000:10:01.0/config",
        "proc/cmdline",
        "etc/shadow",
    ],
)
def test_other_files_are_not(path: str) -> None:
    assert not is_read(path)
