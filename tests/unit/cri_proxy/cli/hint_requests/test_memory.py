import pytest

from cri_proxy.cli.hint_requests.memory import amounts_of_memory, read_memory
from cri_proxy.yaml_fields import DocumentError
from policies.hints import AssignedMemory, MemoryAmounts, MemoryProvider
from tests.unit.cri_proxy.cli.hint_requests.build import field

GIB = 1 << 30
TWO_NODES = 0b11
NODES = "nodes: {0: {memory: 2Gi}, 1: {memory: 4Gi}}"


def read(text: str) -> MemoryProvider:
    return read_memory(field(text), TWO_NODES, {})


def test_what_a_machine_has_is_free_unless_said_otherwise() -> None:
    idle = MemoryAmounts({"memory": 8, "hugepages-2Mi": 4}, {"memory": 8, "hugepages-2Mi": 4})
    provider = read_memory(field("{request: {memory: 1}, free: {0: {memory: 3}}}"), TWO_NODES, {0: idle, 1: idle})
    assert provider.nodes[0] == MemoryAmounts(idle.allocatable, {"memory": 3, "hugepages-2Mi": 4})
    assert provider.nodes[1] == idle


def test_a_node_without_memory_is_a_node_too() -> None:
    assert read("{request: {memory: 1}, nodes: {0: {memory: 1}}}").nodes[1] == MemoryAmounts({}, {})


def test_groups_and_what_was_assigned_are_read() -> None:
    provider = read(
        f"""
        {{request: {{memory: 1Gi}}, {NODES}, groups: [[0, 1]],
          reusable: [{{nodes: [0, 1], amounts: {{memory: 1Gi}}}}], allocated: {{nodes: [0], amounts: {{memory: 2Gi}}}}}}
        """
    )
    assert provider.groups == {0b11}
    assert provider.reusable == {0b11: {"memory": GIB}}
    assert provider.allocated == AssignedMemory(0b01, {"memory": 2 * GIB})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "memory: give request: {memory: 1Gi}"),
        (
            "{request: {memory: 1}}",
            "memory: give nodes: {NODE: {memory: 8Gi}}, what containers may have of each",
        ),
        (
            f"{{request: {{swap: 1}}, {NODES}}}",
            "memory.request: unknown resource 'swap'; give memory or hugepages-SIZE, as hugepages-2Mi",
        ),
        (
            f"{{request: {{memory: 1}}, {NODES}, free: {{2: {{}}}}}}",
            "memory.free: there is no node 2; the nodes are 0-1",
        ),
        (
            f"{{request: {{memory: 1}}, {NODES}, free: {{0: {{memory: 3Gi}}}}}}",
            f"memory.free.0: memory: {3 * GIB} is more than there is; memory of node 0 is {2 * GIB}",
        ),
        (f"{{request: {{memory: 1}}, {NODES}, groups: [[0], [0, 1]]}}", "memory.groups: node 0 is in two groups"),
        (f"{{request: {{memory: 1}}, {NODES}, groups: [[]]}}", "memory.groups: a group has at least one node"),
        (
            f"{{request: {{memory: 1}}, {NODES}, allocated: {{nodes: [0]}}}}",
            "memory.allocated: give nodes: [NODE] and amounts: {memory: 1Gi}",
        ),
        (
            f"{{request: {{memory: 1}}, {NODES}, allocated: {{nodes: [], amounts: {{}}}}}}",
            "memory.allocated.nodes: give at least one node",
        ),
    ],
)
def test_a_request_that_cannot_be_is_refused(text: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(text)
    assert caught.value.problem == expected


def test_memory_is_in_quantities_by_resource() -> None:
    assert amounts_of_memory(field("{memory: 1Ki, hugepages-2Mi: 2}"), "it") == {"memory": 1024, "hugepages-2Mi": 2}
    for text in ("{hugepages-: 1}", "{Memory: 1}"):
        with pytest.raises(DocumentError, match="it: unknown resource"):
            amounts_of_memory(field(text), "it")
