import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.memory_kinds import kind_by_node, parse_node_memory
from cri_proxy.config.resolve import policy_options
from cri_proxy.errors import ConfigError
from sysfs.model import MemoryKind
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
