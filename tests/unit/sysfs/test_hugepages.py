"""Pools of huge pages: by node, without NUMA, garbage."""

import pytest

from sysfs.discover import discover_tree, fingerprint
from sysfs.hugepages import read_huge_pages
from sysfs.model import HugePages
from sysfs.reader import TreeReader
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import NODE, files_of, memory_tree

MI, GI = 1 << 20, 1 << 30
MACHINE = small_machine(hugepages={"2Mi": [512, 0], "1Gi": 1})
POOLS = "pools"


def read(files: dict[str, str], memory_bytes: int = 4 * GI) -> tuple[tuple[HugePages, ...], tuple[str, ...]]:
    reader = TreeReader(memory_tree({f"{POOLS}/{path}": content for path, content in files.items()}))
    return read_huge_pages(reader, POOLS, memory_bytes), reader.notes


def test_each_node_has_the_pools_that_have_pages() -> None:
    nodes = discover_tree(memory_tree(files_of(MACHINE))).nodes
    assert [n.huge_pages for n in nodes] == [(HugePages(2 * MI, 512), HugePages(GI, 1)), (HugePages(GI, 1),)]
    assert nodes == MACHINE.nodes


def test_a_kernel_without_numa_has_its_pools_in_one_place() -> None:
    files = {"proc/meminfo": "MemTotal: 4194304 kB\n", "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "8\n"}
    cpus = {path: text for path, text in files_of(MACHINE).items() if not path.startswith(NODE)}
    assert discover_tree(memory_tree({**cpus, **files})).nodes[0].huge_pages == (HugePages(2 * MI, 8),)


@pytest.mark.parametrize("content", ["many", "", "-4", "0", "99999999999999999"])
def test_a_number_that_makes_no_sense_is_no_pool(content: str) -> None:
    files = {"hugepages-2048kB/nr_hugepages": content, "hugepages-1048576kB/nr_hugepages": "1"}
    assert read(files)[0] == (HugePages(GI, 1),)


def test_more_pages_than_memory_are_noted() -> None:
    pools, notes = read({"hugepages-1048576kB/nr_hugepages": "5"})
    path = f"{POOLS}/hugepages-1048576kB/nr_hugepages"
    assert (pools, notes) == ((), (f"{path}: 5 pages are more than the node's memory; ignored",))


@pytest.mark.parametrize("name", ["hugepages-kB", "hugepages-0kB", "hugepages-2MB", "hugepages-999999999kB", "free"])
def test_other_names_are_no_sizes(name: str) -> None:
    assert read({f"{name}/nr_hugepages": "1"}) == ((), ())


def test_a_changed_number_of_pages_is_a_changed_machine() -> None:
    path = f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages"
    before = files_of(MACHINE)
    assert path in before
    assert fingerprint(memory_tree(before)) == fingerprint(memory_tree(dict(before)))
    assert fingerprint(memory_tree(before)) != fingerprint(memory_tree({**before, path: "511\n"}))


def test_a_machine_without_numa_changes_with_its_number_of_pages_too() -> None:
    path = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    assert fingerprint(memory_tree({path: "1\n"})) != fingerprint(memory_tree({path: "2\n"}))
