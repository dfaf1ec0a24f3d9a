"""Hints of CPUs: free CPUs decide the offered sets, capacity decides which are preferred."""

from dataclasses import replace

import pytest

from policies.hints import CpuProvider, Hints, TooManyNodesError, Topology, topology_of
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.hints.build import shown

TWO_NODES = Topology(((0, 0b0011), (1, 0b1100)), (0b01, 0b10))
# Two sockets of two nodes with two CPUs each.
FOUR_NODES = Topology(((0, 0x03), (1, 0x0C), (2, 0x30), (3, 0xC0)), (0b0011, 0b1100))


def cpus(text: str) -> int:
    return CpuSet.parse(text).mask


def hints(provider: CpuProvider) -> Hints:
    offers = provider.offers()
    assert offers is not None
    assert list(offers) == ["cpu"]
    return offers["cpu"]


def test_every_set_with_enough_free_cpus_is_offered_and_the_smallest_are_preferred() -> None:
    assert shown(hints(CpuProvider(TWO_NODES, 1, cpus("0-3")))) == ["0!", "1!", "0-1"]
    assert shown(hints(CpuProvider(TWO_NODES, 2, cpus("1-3")))) == ["1!", "0-1"]


def test_preferred_is_what_would_do_on_an_idle_machine() -> None:
    """Two CPUs fit on a node, so a set of two nodes is not preferred, though no smaller one is free."""
    assert shown(hints(CpuProvider(TWO_NODES, 2, cpus("1-2")))) == ["0-1"]
    assert shown(hints(CpuProvider(TWO_NODES, 3, cpus("1-3")))) == ["0-1!"]


def test_more_than_there_is_has_no_hint() -> None:
    assert hints(CpuProvider(TWO_NODES, 5, cpus("0-3"))) == ()


def test_without_whole_cpus_there_is_no_opinion() -> None:
    assert CpuProvider(TWO_NODES, 0, cpus("0-3")).offers() is None


def test_a_set_without_the_node_of_a_reusable_cpu_is_not_offered() -> None:
    provider = CpuProvider(TWO_NODES, 2, cpus("1-3"), reusable=cpus("0"))
    assert shown(hints(provider)) == ["0!", "0-1"]
    assert shown(hints(replace(provider, reusable=cpus("0,2")))) == ["0-1"]


def test_a_container_that_has_its_cpus_gives_the_hints_of_those() -> None:
    provider = CpuProvider(TWO_NODES, 2, free=cpus("1-3"), allocated=cpus("2-3"))
    assert shown(hints(provider)) == ["1!", "0-1"]


def test_a_changed_request_cannot_be_satisfied() -> None:
    provider = CpuProvider(TWO_NODES, 2, free=cpus("0-3"), allocated=cpus("2"))
    assert hints(provider) == ()
    assert hints(replace(provider, allocated=0)) == ()


def test_nodes_without_cpus_are_in_no_hint() -> None:
    topology = Topology(((0, 0b0011), (1, 0), (2, 0b1100)), (0b001, 0b100))
    assert shown(hints(CpuProvider(topology, 3, cpus("0-3")))) == ["0,2!"]


def test_align_by_socket_prefers_what_stays_in_as_few_sockets() -> None:
    """Two CPUs fit on one node; two nodes of one socket are as good then, and two of different sockets are not."""
    provider = CpuProvider(FOUR_NODES, 2, cpus("1-2,4-5"), is_socket_aligned=True)
    assert shown(hints(provider)) == ["2!", "0-1!", "0,2", "1-2", "2-3!", "0-2", "0-1,3", "0,2-3", "1-3", "0-3"]
    assert shown(hints(replace(provider, is_socket_aligned=False)))[:3] == ["2!", "0-1", "0,2"]


def test_align_by_socket_counts_no_sockets_where_there_are_more_of_them_than_nodes() -> None:
    topology = Topology(((0, 0b1111),), (0b1, 0b1))
    assert shown(hints(CpuProvider(topology, 2, cpus("0-3"), is_socket_aligned=True))) == ["0!"]


def test_align_by_socket_counts_sockets_where_there_are_as_many_nodes() -> None:
    """Two sockets share node 0: nodes 1 and 2 are of one socket then, as many as the one node that it takes."""
    topology = Topology(((0, 0b0011), (1, 0b0100), (2, 0b1000)), (0b001, 0b001, 0b110))
    provider = CpuProvider(topology, 1, cpus("2-3"), is_socket_aligned=True)
    assert shown(hints(provider)) == ["1!", "2!", "0-1", "0,2", "1-2!", "0-2"]


def test_a_machine_with_few_cpu_nodes_among_many_is_listed() -> None:
    topology = Topology(((0, 0b0011), (1, 0b1100), *((node, 0) for node in range(2, 34))), (0b01, 0b10))
    assert shown(hints(CpuProvider(topology, 3, cpus("0-3")))) == ["0-1!"]


def test_of_many_nodes_those_with_cpus_count() -> None:
    few, many = (Topology(tuple((node, int(node < 2)) for node in range(count)), ()) for count in (16, 34))
    assert (few.counted_nodes, many.counted_nodes) == (0xFFFF, 0b11)


def test_the_sets_of_more_than_sixteen_nodes_with_cpus_are_not_listed() -> None:
    sixteen = Topology(tuple((node, 1 << node) for node in range(16)), tuple(1 << node for node in range(16)))
    assert len(hints(CpuProvider(sixteen, 1, cpus("0-15"))) or ()) == 65535
    seventeen = Topology((*sixteen.cpus, (16, 1 << 16)), (*sixteen.sockets, 1 << 16))
    with pytest.raises(TooManyNodesError):
        CpuProvider(seventeen, 1, cpus("0-16")).offers()


def test_sockets_are_packages_as_the_nodes_they_have() -> None:
    topology = topology_of(describe({"packages": 2, "nodes": 2, "cores": 1}))
    assert topology.sockets == (0b0011, 0b1100)
    assert topology.cpus == ((0, 1), (1, 2), (2, 4), (3, 8))


def test_a_node_without_cpus_is_a_node_of_no_socket() -> None:
    topology = topology_of(describe({"packages": 2, "cores": 1, "memory_nodes": [{"memory": "1Gi", "near": {0: 17}}]}))
    assert (topology.nodes, topology.cpu_nodes, topology.sockets) == (0b111, (0, 1), (0b01, 0b10))


def test_a_socket_without_cpus_does_not_count() -> None:
    assert Topology(((0, 1), (1, 0)), (0b01, 0b10)).cpu_sockets == (0b01,)


def test_the_nodes_of_a_socket_are_those_with_cpus() -> None:
    assert Topology(((0, 1), (1, 0)), (0b11,)).cpu_sockets == (0b01,)
