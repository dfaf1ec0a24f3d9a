from dataclasses import FrozenInstanceError, replace

import pytest

from policies.base import DeviceLocality
from policies.topology_aware.supply.context import near
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import context_of, four_nodes, request, tree_of


def test_a_case_cannot_be_changed_on_the_way() -> None:
    context = context_of(tree_of(four_nodes()), request())
    with pytest.raises(FrozenInstanceError):
        context.others = ()  # type: ignore[misc]  # the point


def test_the_place_of_a_device_of_an_inventory_takes_that_of_every_other_name_of_it() -> None:
    """Others chose a GPU of the inventory by its CDI name, whose specification names its node."""

    def hint(source: str, *devices: str) -> DeviceLocality:
        return DeviceLocality(source, CpuSet.parse("0-3"), NodeSet(), devices=devices)

    node, nic, mount = hint("/dev/nvidia0", "a"), hint("/dev/vfio/7", "a", "b"), hint("/data")
    asked = replace(request("a/c", 1000), hints=(node, nic, mount))
    assert near(asked, (hint("gpu/0", "a"),)).hints == (nic, mount, hint("gpu/0", "a"))
