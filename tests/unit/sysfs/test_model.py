from dataclasses import FrozenInstanceError

import pytest

from sysfs.cpuset import NodeSet
from tests.fakes.machines import small_machine


def test_the_distance_to_a_node_that_is_not_told_is_unreachable() -> None:
    node = small_machine().nodes[0]
    assert (node.distance_to(0), node.distance_to(1), node.distance_to(9)) == (10, 21, 255)


def test_memory_nodes_are_those_with_memory() -> None:
    assert small_machine(memory=[0, "1Gi"]).memory_nodes == NodeSet.of([1])


def test_a_machine_cannot_be_changed_and_equals_its_like() -> None:
    machine = small_machine()
    with pytest.raises(FrozenInstanceError):
        machine.cpus = ()  # type: ignore[misc]
    assert machine == small_machine()
    assert hash(machine) == hash(small_machine())
