"""The rig's own rules; no machine is started."""

import pytest

from sysfs.cpuset import CpuSet
from tests.vm.rig.errors import TopologyError
from tests.vm.rig.packages import closure
from tests.vm.rig.topology import Topology


def test_cpus_are_dealt_out_to_the_nodes_in_order() -> None:
    topology = Topology.from_json('{"sockets": 2, "cores": 2, "threads": 2, "nodes": 4}')
    assert [str(node.cpus) for node in topology.nodes] == ["0-1", "2-3", "4-5", "6-7"]


def test_nodes_of_a_package_are_nearer_than_others_and_bare_memory_is_farther() -> None:
    text = '{"sockets": 2, "cores": 1, "nodes": [{"cpus": "0"}, {"cpus": "1"}, {}, {}]}'
    assert Topology.from_json(text).distances == (
        (10, 21, 19, 28),
        (21, 10, 28, 19),
        (19, 28, 10, 35),
        (28, 19, 35, 10),
    )


def test_every_cpu_has_a_place_in_one_node() -> None:
    arguments = Topology.from_json('{"sockets": 2, "dies": 2, "cores": 1, "threads": 2}').qemu_arguments()
    places = [a for a in arguments if a.startswith("cpu,")]
    assert places[0] == "cpu,node-id=0,socket-id=0,die-id=0,core-id=0,thread-id=0"
    assert places[7] == "cpu,node-id=0,socket-id=1,die-id=1,core-id=0,thread-id=1"


def test_isolated_cpus_are_told_to_the_kernel() -> None:
    topology = Topology.from_json('{"isolcpus": "1"}')
    assert (topology.isolated, topology.kernel_parameters()) == (CpuSet.of([1]), ("isolcpus=1",))


def test_a_field_that_nobody_knows_is_named() -> None:
    with pytest.raises(TopologyError, match="sokets: unknown"):
        Topology.from_json('{"sokets": 2}')


def test_cpus_that_cannot_be_dealt_out_evenly_are_refused() -> None:
    with pytest.raises(TopologyError, match="4 CPUs cannot be dealt out evenly to 3"):
        Topology.from_json('{"cores": 4, "nodes": 3}')


def test_the_guest_gets_what_the_product_needs_and_nothing_of_the_tests() -> None:
    names = {package.metadata["Name"].lower() for package in closure("cri-proxy")}
    assert {"grpcio", "protobuf", "pyyaml", "h11"} <= names
    assert names.isdisjoint({"pytest", "mypy", "grpcio-tools"})
