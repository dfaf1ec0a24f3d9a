from sysfs.memory_kind import with_memory_kinds
from sysfs.model import MemoryKind
from tests.fakes.machines import small_machine

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
