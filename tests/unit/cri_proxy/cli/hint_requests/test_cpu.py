import pytest

from cri_proxy.cli.hint_requests.cpu import read_cpu, read_topology
from cri_proxy.kubelet.start_rules.options import CPU_OPTIONS
from cri_proxy.yaml_fields import DocumentError
from policies.hints import Topology
from tests.unit.cri_proxy.cli.hint_requests.build import field

TWO_NODES = Topology(((0, 0b0011), (1, 0b1100)), (0b01, 0b10))


def test_nodes_without_sockets_are_a_socket_each() -> None:
    assert read_topology(field('{nodes: {1: "2-3", 0: [0, 1]}}')) == TWO_NODES
    assert read_topology(field('{nodes: {0: "0", 1: "", 2: null}, sockets: {0: [0, 1], 5: [2]}}')) == Topology(
        ((0, 1), (1, 0), (2, 0)), (0b011, 0b100)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "topology: give nodes: {NODE: CPU list}"),
        ("{nodes: {}}", "topology.nodes: give at least one node"),
        ("{nodes: {a: 0}}", "topology.nodes: expected a node from 0 to 1023, got 'a'"),
        ("{nodes: {1024: 0}}", "topology.nodes: expected a node from 0 to 1023, got '1024'"),
        ("{nodes: {0: 0-}}", "topology.nodes.0: expected a list like '0-3,8', got '0-': '' is not a number"),
        ("{nodes: {0: 0-3, 1: '2-5'}}", "topology.nodes.1: CPUs 2-3 are on another node as well"),
        (
            "{nodes: {1: 0, 01: 1}}",
            "topology.nodes: '01' may be meant as an octal number: write it without leading zeros",
        ),
        (
            "{nodes: {0: 0, 1: 1}, sockets: {0: [0]}}",
            "topology.sockets: node 1 is in no socket; add it, or leave sockets out",
        ),
        ("{nodes: {0: 0}, sockets: {0: [0, 7]}}", "topology.sockets.0: there is no node 7; the nodes are 0"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(text: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_topology(field(text))
    assert caught.value.problem == expected


def test_cpus_that_are_not_listed_are_free_but_what_the_container_has() -> None:
    assert read_cpu(field("{request: 1}"), TWO_NODES).free == 0b1111
    provider = read_cpu(field("{request: 1, allocated: '1', reusable: '2'}"), TWO_NODES)
    assert (provider.free, provider.allocated, provider.reusable) == (0b1101, 0b10, 0b100)


def test_nothing_held_and_no_cpus_held_are_different() -> None:
    assert read_cpu(field("{request: 1, allocated: null}"), TWO_NODES).allocated is None
    assert read_cpu(field("{request: 1, allocated: ''}"), TWO_NODES).allocated == 0


def test_every_option_of_the_static_policy_is_known() -> None:
    provider = read_cpu(field(f"{{request: 1, options: [{', '.join(CPU_OPTIONS)}]}}"), TWO_NODES)
    assert provider.is_socket_aligned


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{free: 0-3}", "cpu: give request: NUMBER"),
        ("{request: many}", "cpu.request: expected a quantity like 750m or 2, got 'many'"),
        ("{request: 1, free: 2-5}", "cpu.free: no node has CPU 4-5; the nodes have 0-3"),
        ("{request: 1, option: []}", "cpu: unknown key 'option'; did you mean options?"),
        ("{request: 1, options: [align]}", f"cpu.options: expected one of {', '.join(CPU_OPTIONS)}, got 'align'"),
    ],
)
def test_a_request_that_cannot_be_is_refused(text: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_cpu(field(text), TWO_NODES)
    assert caught.value.problem == expected


def test_align_by_socket_is_refused_where_the_kubelet_refuses_it() -> None:
    topology = read_topology(field("{nodes: {0: 0-3}, sockets: {0: [0], 1: [0]}}"))
    with pytest.raises(DocumentError, match=r"with more sockets than NUMA nodes, here 2 and 1; leave it out"):
        read_cpu(field("{request: 1, options: [align-by-socket]}"), topology)
