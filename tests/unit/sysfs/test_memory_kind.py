import pytest

from sysfs.cpuset import NodeSet
from sysfs.memory_kind import MemoryFacts, closest, memory_kind, with_memory_kinds
from sysfs.model import MemoryKind
from tests.fakes.machines import small_machine

GIB = 1 << 30
DRAM = MemoryFacts(32 * GIB, tier=5, read_bandwidth=20000, read_latency=100)


@pytest.mark.parametrize(
    ("far", "kind"),
    [
        (MemoryFacts(GIB, kind=MemoryKind.PMEM), "pmem"),  # told outright
        (MemoryFacts(GIB, tier=6), "pmem"),  # a higher tier is slower, whatever the size
        (MemoryFacts(99 * GIB, tier=1), "hbm"),
        (MemoryFacts(99 * GIB, tier=5, read_bandwidth=80000, read_latency=130), "hbm"),  # bandwidth before latency
        (MemoryFacts(GIB, tier=5, read_bandwidth=9000, read_latency=100), "pmem"),
        (MemoryFacts(GIB, read_latency=300), "pmem"),
        (MemoryFacts(GIB, read_bandwidth=16000, read_latency=130), "hbm"),  # too near to tell: the size rule
        (MemoryFacts(64 * GIB), "pmem"),
        (MemoryFacts(16 * GIB), "hbm"),
        (MemoryFacts(32 * GIB), "dram"),
        (MemoryFacts(0), "dram"),
    ],
)
def test_the_first_rule_that_tells_a_difference_decides(far: MemoryFacts, kind: str) -> None:
    assert memory_kind(far, [DRAM], [DRAM, DRAM]) == MemoryKind(kind)


def test_sizes_are_compared_with_the_average_of_all_dram() -> None:
    dram = [MemoryFacts(10 * GIB), MemoryFacts(30 * GIB)]
    assert memory_kind(MemoryFacts(21 * GIB), [dram[1]], dram) is MemoryKind.PMEM
    assert memory_kind(MemoryFacts(19 * GIB), [dram[0]], dram) is MemoryKind.HBM


def test_the_only_memory_there_is_counts_as_dram() -> None:
    assert memory_kind(MemoryFacts(GIB, tier=9), [], []) is MemoryKind.DRAM


def test_the_closest_are_all_at_the_smallest_distance() -> None:
    row = [(0, 17), (1, 28), (2, 17), (3, 10)]
    assert closest(row, NodeSet.parse("0-2")) == NodeSet.parse("0,2")
    assert closest(row, NodeSet()) == NodeSet()


MACHINE = small_machine(memory_nodes=[{"memory": "8Gi", "near": {0: 20}}])


def test_a_node_has_the_kind_that_is_told_and_the_others_keep_theirs() -> None:
    told = with_memory_kinds(MACHINE, {1: MemoryKind.HBM, 2: MemoryKind.DRAM})
    assert [n.kind for n in MACHINE.nodes] == [MemoryKind.DRAM, MemoryKind.DRAM, MemoryKind.PMEM]
    assert [n.kind for n in told.nodes] == [MemoryKind.DRAM, MemoryKind.HBM, MemoryKind.DRAM]


def test_nothing_else_of_the_machine_changes() -> None:
    there_and_back = with_memory_kinds(with_memory_kinds(MACHINE, {2: MemoryKind.HBM}), {2: MemoryKind.PMEM})
    assert there_and_back == MACHINE


def test_what_changes_nothing_gives_the_machine_itself() -> None:
    assert with_memory_kinds(MACHINE, {}) is MACHINE
    assert with_memory_kinds(MACHINE, {2: MemoryKind.PMEM, 99: MemoryKind.HBM}) is MACHINE
