"""Some arrivals at each machine of the trial; ``python -m tests.property.device_arrivals`` plays the whole of it."""

from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import guaranteed
from policies.base import Allocations, CpuKind, Grant
from sysfs.cpuset import CpuSet
from tests.fakes.device_tree import NAMINGS, made_up_devices
from tests.fakes.grants import request
from tests.property.device_arrivals import MACHINES, Node, Room, Tally, arrival, arrive, play

ARRIVALS = 60
SPEC = guaranteed("c", 2000)


@pytest.mark.parametrize("name", MACHINES)
async def test_a_container_is_at_its_device_wherever_that_has_room(name: str) -> None:
    tally = Tally()
    await play(name, 1, ARRIVALS, tally)
    assert tally.broken == []
    assert tally.counts["there with room"] >= ARRIVALS // 6


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Two nodes of four CPUs; CPU 0 is reserved."""
    return Node("1s2n-l3", tmp_path)


WAYS = [(kind, naming) for kind, namings in NAMINGS.items() for naming in namings]


@pytest.mark.parametrize(("kind", "naming"), WAYS, ids=str)
async def test_each_name_of_each_device_leads_to_its_node(node: Node, kind: str, naming: str) -> None:
    for device in (each for each in node.devices if each.kind == kind):
        found = arrival(node, SPEC, 1, [(device, naming)])
        (hint,) = (await node.read(found)).localities
        assert (hint.cpus.mask, hint.devices) == (node.cpus_of(device), (device.address,))


async def test_a_device_with_two_names_is_one_hint(node: Node) -> None:
    device = made_up_devices(node.machine)[0]
    found = arrival(node, SPEC, 1, [(device, "UUID"), (device, "DRM node"), (device, "CDI node")])
    assert [hint.source for hint in (await node.read(found)).localities] == ["/dev/dri/renderD128"]


def shared(name: str, pool: str, mcpu: int) -> Grant:
    return Grant(request(f"{name}/c", mcpu), pool, CpuKind.SHARED, shared_mcpu=mcpu)


def test_room_is_what_nobody_owns_less_what_is_booked(node: Node) -> None:
    owner = Grant(request("a/c", 1000), "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4"))
    node.held = Allocations().with_grants(owner, shared("b", "NUMA node #1", 1200), shared("c", "root", 3200))
    room = Room(node, {})
    assert {name: room.left(cpus) for name, cpus in node.pools.items()} == {
        "root": 1, "NUMA node #0": 3, "NUMA node #1": 1,
    }  # fmt: skip
    assert room.gives(node.pools["NUMA node #0"]) == 1  # more would leave too few for all that is booked


async def test_a_container_elsewhere_than_its_device_is_found(node: Node) -> None:
    """The judge sees it: the node of the device has room, and another one's CPUs are given."""
    device, tally = node.devices[-1], Tally()
    container = arrival(node, SPEC, 1, [(device, "VFIO group")])
    container.message.sandbox_config.annotations["cri-proxy.io/topologyhints"] = "false"
    await arrive(node, container, tally, "here")
    assert [sentence.partition(":")[0] for sentence in tally.broken] == ["here", "here"]  # no hint, and elsewhere
