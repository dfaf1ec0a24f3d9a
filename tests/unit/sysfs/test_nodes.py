import pytest

from sysfs.cpuset import CpuSet
from sysfs.errors import SysfsError
from sysfs.nodes import read_nodes
from sysfs.reader import TreeReader
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import NODE, files_of, memory_tree

FILES = files_of(small_machine())  # nodes 0 (CPUs 0-3) and 1 (4-7), 2Gi each
ALL = CpuSet.parse("0-7")


def reader(changes: dict[str, str | None]) -> TreeReader:
    files = {**FILES, **{f"{NODE}/{path}": content for path, content in changes.items()}}
    return TreeReader(memory_tree({path: content for path, content in files.items() if content is not None}))


def test_nodes_have_cpus_memory_and_distances() -> None:
    first, second = read_nodes(reader({}), ALL)
    assert (first.id, str(first.cpus), first.memory.memory_bytes) == (0, "0-3", 2 << 30)
    assert second.distances == ((0, 21), (1, 10))


def test_a_kernel_without_numa_has_node_0_with_everything() -> None:
    source = TreeReader(memory_tree({"proc/meminfo": "MemTotal:       2048 kB\nMemFree: 1 kB\n"}))
    (node,) = read_nodes(source, ALL)
    assert (node.id, node.cpus, node.memory.memory_bytes, node.distances) == (0, ALL, 2 << 20, ((0, 10),))
    assert len(source.notes) == 1


def test_a_kernel_without_numa_and_meminfo_still_has_its_node() -> None:
    source = TreeReader(memory_tree({}))
    assert read_nodes(source, ALL)[0].memory.memory_bytes == 0
    assert "proc/meminfo" in source.notes[1]


def test_a_node_that_is_not_in_has_memory_has_none_to_give() -> None:
    source = reader({"has_memory": "0"})
    assert [n.memory.memory_bytes for n in read_nodes(source, ALL)] == [2 << 30, 0]
    assert "node 1 has a MemTotal" in source.notes[0]


def test_memory_that_is_not_normal_is_movable() -> None:
    assert [n.memory.is_normal for n in read_nodes(reader({"has_normal_memory": "1"}), ALL)] == [False, True]


@pytest.mark.parametrize("content", [None, "", "0-"])
def test_the_lists_of_an_older_kernel_may_be_missing_and_empty_ones_are_not_believed(content: str | None) -> None:
    source = reader({"has_memory": content, "has_normal_memory": content, "has_cpu": None})
    nodes = read_nodes(source, ALL)
    assert all(n.memory.memory_bytes and n.memory.is_normal for n in nodes)
    assert len(source.notes) == 2


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("node1/cpulist", "3-7"),  # CPU 3 is node 0's
        ("node1/cpulist", ""),  # the node is in has_cpu
        ("node1/cpulist", None),
        ("node1/distance", "21"),
        ("node1/distance", "21 ten"),
        ("node1/distance", "21 0"),
        ("node1/distance", "256 10"),
        ("node1/meminfo", ""),
        ("node1/meminfo", "Node 1 MemTotal: many kB"),
    ],
)
def test_what_would_make_the_machine_wrong_is_refused_by_name(path: str, content: str | None) -> None:
    with pytest.raises(SysfsError) as caught:
        read_nodes(reader({path: content}), ALL)
    assert caught.value.path == f"{NODE}/{path}"


def test_missing_distances_are_those_of_the_kernel_without_a_table() -> None:
    source = reader({"node1/distance": None})
    assert read_nodes(source, ALL)[1].distances == ((0, 20), (1, 10))
    assert "node1/distance" in source.notes[0]


def test_cpus_of_no_node_go_to_the_first_with_cpus() -> None:
    source = reader({"node0/cpulist": "", "node1/cpulist": "4-6", "has_cpu": "1"})
    assert [str(n.cpus) for n in read_nodes(source, ALL)] == ["", "0-7"]
    assert "CPUs 0-3,7" in source.notes[0]


def test_offline_cpus_are_not_in_a_node() -> None:
    assert str(read_nodes(reader({}), ALL - CpuSet.of([1]))[0].cpus) == "0,2-3"


def test_a_node_may_have_no_cpu_of_those_that_a_container_is_shown() -> None:
    """lxcfs cuts the online list to the container's CPUs and leaves the nodes alone."""
    assert [str(n.cpus) for n in read_nodes(reader({}), CpuSet.parse("0-1"))] == ["0-1", ""]


def test_sparse_node_ids_match_the_columns_of_the_distance_table() -> None:
    moved = {path.replace("node1/", "node9/"): content for path, content in FILES.items()}
    nodes = read_nodes(TreeReader(memory_tree({**moved, f"{NODE}/has_cpu": "0,9", f"{NODE}/has_memory": "0,9"})), ALL)
    assert [n.distances for n in nodes] == [((0, 10), (9, 21)), ((0, 21), (9, 10))]


def test_tiers_and_hmat_figures_are_read_and_garbage_among_them_noted() -> None:
    tier = "sys/devices/virtual/memory_tiering/memory_tier4/nodelist"
    source = TreeReader(
        memory_tree(
            {
                **FILES,
                tier: "0-1",
                f"{NODE}/node0/access0/initiators/read_bandwidth": "20000",
                f"{NODE}/node0/access0/initiators/read_latency": "soon",
            }
        )
    )
    memory = read_nodes(source, ALL)[0].memory
    assert (memory.tier, memory.read_bandwidth, memory.read_latency) == (5, 20000, 0)
    assert "read_latency" in source.notes[0]
