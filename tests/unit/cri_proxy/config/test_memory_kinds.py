import re
from dataclasses import replace

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.memory_kinds import kind_by_node, parse_node_memory, reserved_by_node
from cri_proxy.config.resolve import policy_options
from cri_proxy.errors import ConfigError
from sysfs.model import HugePages, MemoryKind
from tests.fakes.machines import small_machine


def test_an_entry_names_nodes_and_their_kind() -> None:
    told = parse_config("memoryKinds: {2-3: PMEM, 5: hbm}").memory_kinds
    assert kind_by_node(told) == {2: MemoryKind.PMEM, 3: MemoryKind.PMEM, 5: MemoryKind.HBM}


@pytest.mark.parametrize("text", ["{}", "[]", "", "null"])
def test_nothing_told_is_no_kind(text: str) -> None:
    assert parse_config(f"memoryKinds: {text}").memory_kinds == ()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("2: ram", "memoryKinds.2: expected dram, pmem, hbm for node '2', got 'ram'"),
        ("x: pmem", "memoryKinds.x: expected a node or a node list"),
        ("4096: pmem", "expected nodes from 0 to 4095, got '4096'"),
        ("'': pmem", "expected nodes from 0 to 4095, got ''"),
        ("2: [pmem]", "expected a mapping of strings"),
        ("2:", "expected a mapping of strings"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line(entry: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        parse_config(f"memoryKinds:\n  {entry}")
    assert caught.value.line == 2


def test_one_node_of_two_kinds_is_refused() -> None:
    with pytest.raises(ConfigError, match="node 1 is declared as pmem and hbm: keep one"):
        policy_options(parse_config("memoryKinds: {0-1: pmem, 1-2: hbm}"), small_machine())


def test_a_node_of_another_machine_is_a_warning() -> None:
    resolved = policy_options(parse_config("reservedResources: {cpu: 1}\nmemoryKinds: {77: pmem}"), small_machine())
    assert resolved.warnings == ("memoryKinds: node 77 is not on this machine",)


def test_an_entry_is_shown_as_it_may_be_written() -> None:
    assert str(parse_node_memory("2-3,7=dram")) == "2-3,7=dram"


MIB = 1 << 20
BESIDE = "reservedResources:\n  cpu: 1\n  memory"


def kept_mib(reserve: str, **keys: object) -> list[int]:
    config = parse_config(f"{BESIDE}: {reserve}")
    machine = small_machine(**keys)
    return [-(-kept // MIB) for kept in reserved_by_node(config.reserved.memory, machine).values()]


@pytest.mark.parametrize(
    ("memory", "kept"),
    [
        ("{0: 1Gi}", [1024, 0]),
        ("{0-1: 512Mi, 1: 256Mi}", [512, 768]),
        ("900Mi", [300, 600]),  # by their sizes
        ("{}", [0, 0]),
    ],
)
def test_memory_is_kept_of_the_nodes_that_are_named_or_of_all(memory: str, kept: list[int]) -> None:
    assert kept_mib(memory, memory=["2Gi", "4Gi"]) == kept


def test_memory_beside_no_cpus_is_kept_only_where_it_is_named() -> None:
    far = {"memory": "2Gi", "memory_nodes": [{"memory": "8Gi", "near": {0: 17}}]}
    assert kept_mib("1Gi", **far) == [512, 512, 0]
    assert kept_mib("{2: 1Gi}", **far) == [0, 0, 1024]


def test_what_is_kept_is_promised_to_no_container() -> None:
    resolved = policy_options(parse_config(f"{BESIDE}: {{1: 512Mi}}"), small_machine(memory="2Gi"))
    assert [node.ordinary_bytes // MIB for node in resolved.machine.nodes] == [2048, 1536]


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        ("{0: 2Gi}", "2Gi is all of node 0 outside huge pages (2Gi) or more: leave containers some"),
        ("5Gi", "2560Mi is all of node 0 outside huge pages (2Gi) or more: leave containers some"),
    ],
)
def test_a_node_keeps_some_memory_for_containers(memory: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"reservedResources.memory: {problem}")):
        policy_options(parse_config(f"{BESIDE}: {memory}"), small_machine(memory="2Gi"))


def test_a_node_of_huge_pages_alone_needs_no_reserve() -> None:
    machine = small_machine(memory="2Gi")
    first, last = machine.nodes
    pools = (HugePages(2 << 20, 1024),)
    machine = replace(machine, nodes=(first, replace(last, huge_pages=pools)))
    resolved = policy_options(parse_config(f"{BESIDE}: {{0: 1Gi}}"), machine)
    assert [node.ordinary_bytes // MIB for node in resolved.machine.nodes] == [1024, 0]


@pytest.mark.parametrize(
    ("memory", "problem"), [("much", "expected a quantity like 2Gi"), ("{x: 1Gi}", "memory.x: expected a node")]
)
def test_a_wrong_reserve_is_named(memory: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_config(f"{BESIDE}: {memory}")


def test_a_reserve_of_a_node_of_another_machine_is_a_warning() -> None:
    resolved = policy_options(parse_config(f"{BESIDE}: {{77: 1Gi}}"), small_machine())
    assert resolved.warnings == ("reservedResources.memory: node 77 is not on this machine",)
