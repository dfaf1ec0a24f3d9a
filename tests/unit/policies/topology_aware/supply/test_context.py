from dataclasses import FrozenInstanceError, replace

import pytest

from policies.alignment import Alignment
from policies.base import DeviceLocality, Previous, Request
from policies.device_grants import DeviceGrant
from policies.device_requests import DeviceAsk
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
    asked = replace(request("a/c", 1000), localities=(node, nic, mount))
    assert near(asked, (hint("gpu/0", "a"),)).localities == (nic, mount, hint("gpu/0", "a"))


def test_a_container_that_asks_for_nothing_special_takes_the_shortest_way() -> None:
    context = context_of(tree_of(four_nodes()), request())
    assert not (context.concerns_devices or context.may_be_aligned or context.is_bound)


@pytest.mark.parametrize(
    "asked",
    [
        request(devices=DeviceAsk(requests=(("nvidia.com/gpu", 1),))),
        replace(request(), given=(DeviceGrant("gpu", 0, 100),)),
        replace(request(), previous=Previous("", CpuSet())),
    ],
    ids=["asked", "given", "earlier"],
)
def test_devices_concern_a_container_that_asks_was_given_some_or_was_there_before(asked: Request) -> None:
    assert context_of(tree_of(four_nodes()), asked).concerns_devices


def test_nodes_of_an_earlier_decision_bind_a_container_whatever_its_policy_is_now() -> None:
    asked = replace(request(), alignment=Alignment(NodeSet.parse("1"), NodeSet.parse("1")))
    context = context_of(tree_of(four_nodes()), asked)
    assert context.may_be_aligned and context.is_bound
