"""One piece of hardware has one holder, whichever source lists it and however it is asked for.

Each story is played by ``simulate``, and so by the daemon's own interceptor, ledger and store.
"""

import json
from collections.abc import Mapping
from typing import Final

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.inventory.file import read_inventory_text
from cri_proxy.simulate.run_files import run_scenario
from cri_proxy.simulate.scenario.parse import parse_scenario
from tests.fakes.device_policy import policy_with_devices
from tests.fakes.site import Site, opened

Step = Mapping[str, object]
OWNS: Final = guaranteed("c", 1000)

BUS, UUID = "0000:51:00.0", "GPU-5a12b7cd-0011-2233-4455-667788990011"  # the end is no range
GPU: Final = {"minor": 0, "numa": 0, "pcie": "s0", "bus": BUS, "uuid": UUID}
VF = "0000:61:00.1"
NIC: Final = {"minor": 0, "numa": 0, "pcie": "s1", "bus": "0000:61:00.0", "vf_groups": [{"vfs": [{"bus": VF}]}]}
INVENTORY: Final = {"gpu": [GPU], "rdma": [NIC]}
NAMES: Final = (
    "nvidia.com/gpu/0",
    "nvidia.com/gpu/gpu0",
    "cri-proxy.io/gpu/0",
    f"nvidia.com/gpu/{UUID.lower()}",
    f"a.com/x/{UUID}",
    f"a.com/x/{BUS}",
)
"""Names by which a cost file may list the GPU: its number, its CDI names, its identifier, its address."""
BY_PLACE: Final = {"cri-proxy.io/device-resources": "nvidia.com/gpu=1"}
A_VF: Final = {
    "cri-proxy.io/device-resources": "koordinator.sh/rdma=1",
    "scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}',
}


def by_cost(name: str) -> Mapping[str, str]:
    return {"cri-proxy.io/device-request": f"{name.rpartition('/')[0]}=1"}


def create(pod: str, asks: Mapping[str, str]) -> Step:
    return {"create": {"pod": pod, "annotations": asks, "containers": [{"name": "c", "cpu": "1", "memory": "100Mi"}]}}


def costs(*names: str) -> Step:
    return {"costs": {name: {5: ["cpu/cpu0-3"]} for name in names}}


def devices(listed: Mapping[str, object]) -> Step:
    return {"devices": listed}


def refusals(*steps: Step, names: tuple[str, ...] = (), listed: Mapping[str, object] = INVENTORY) -> list[str]:
    """What each step that creates a container is answered: '' or the refusal."""
    machine = {"packages": 2, "nodes": 1, "cores": 4, "threads": 2, "memory": "8Gi"}
    story = {"machine": machine, **devices(listed), **costs(*names), "steps": steps}
    result = run_scenario(parse_scenario(json.dumps(story)))
    assert not result.error, result.error
    return [outcome.error for step, outcome in zip(steps, result.outcomes, strict=True) if "create" in step]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("between", [[], [{"restart": "proxy"}], [{"restart": {"what": "proxy", "loses_state": True}}]],
                         ids=["at-once", "restarted", "store-lost"])  # fmt: skip
def test_a_gpu_that_one_has_is_refused_to_the_other_by_every_name(name: str, between: list[Step]) -> None:
    first, second = refusals(create("a", BY_PLACE), *between, create("b", by_cost(name)), names=(name,))
    assert first == ""
    assert second.endswith("free 0 of 1; held: 1 by default/a/c")
    first, second = refusals(create("a", by_cost(name)), *between, create("b", BY_PLACE), names=(name,))
    assert first == ""
    assert second.endswith("held: gpu 0 by default/a/c")


@pytest.mark.parametrize("name", NAMES)
def test_a_source_that_comes_or_goes_frees_nothing(name: str) -> None:
    """Who holds the GPU by its cost file holds it when an inventory begins to list it, and when the file is gone."""
    asked = create("a", by_cost(name))
    assert refusals(asked, devices(INVENTORY), create("b", BY_PLACE), names=(name,), listed={})[1]
    assert refusals(asked, costs(), devices(INVENTORY), create("b", BY_PLACE), names=(name,), listed={})[1]
    assert refusals(create("a", BY_PLACE), devices({}), costs(name), create("b", by_cost(name)))[1]


def test_a_number_that_means_another_gpu_now_frees_neither() -> None:
    """The old number is held as well: which of the two is meant by it, no source can tell."""
    both = [{**GPU, "bus": f"0000:5{i}:00.0", "uuid": "", "minor": i} for i in (0, 1)]
    swapped = [{**each, "minor": 1 - i} for i, each in enumerate(both)]
    asked = create("a", BY_PLACE)
    assert refusals(asked, devices({"gpu": swapped}), create("b", BY_PLACE), listed={"gpu": both}) != ["", ""]
    name = "a.com/x/0000:50:00.0"
    answers = refusals(asked, devices({"gpu": swapped}), costs(name), create("b", by_cost(name)), listed={"gpu": both})
    assert answers[1].endswith("held: 1 by default/a/c")


def test_a_virtual_function_that_a_cost_file_lists_by_its_address_has_one_holder() -> None:
    name = f"a.com/vf/{VF}"
    assert refusals(create("a", A_VF), create("b", by_cost(name)), names=(name,))[1].endswith("by default/a/c")
    assert "VFs" in refusals(create("a", by_cost(name)), create("b", A_VF), names=(name,))[1]
    whole = {"cri-proxy.io/device-resources": "koordinator.sh/rdma=100"}
    assert refusals(create("a", whole), create("b", by_cost(name)), names=(name,))[1].endswith("by default/a/c")
    assert refusals(create("a", by_cost(name)), create("b", whole), names=(name,))[1]


def test_one_container_that_asks_in_both_ways_gets_two_devices_or_none() -> None:
    name = NAMES[0]
    asks = {**by_cost(name), **BY_PLACE}
    assert refusals(create("a", asks), names=(name,))[0]
    second = {**GPU, "minor": 1, "bus": "0000:52:00.0", "uuid": ""}
    assert refusals(create("a", asks), names=(name,), listed={"gpu": [GPU, second]}) == [""]


def test_two_names_of_one_device_are_one_device() -> None:
    names = ("nvidia.com/gpu/0", "nvidia.com/gpu/gpu0")
    two = {"cri-proxy.io/device-request": "nvidia.com/gpu=2"}
    assert "free 1 of 2" in refusals(create("a", two), names=names)[0]
    alone = (f"a.com/x/{BUS}", f"b.com/y/{BUS}")  # that no inventory lists
    asks = (create("a", by_cost(alone[0])), create("b", by_cost(alone[1])))
    assert refusals(*asks, names=alone, listed={})[1].endswith("by default/a/c")


def test_an_unhealthy_device_is_given_under_no_name() -> None:
    sick = {"gpu": [{**GPU, "health": False}]}
    assert refusals(create("a", by_cost(NAMES[0])), names=NAMES[:1], listed=sick)[0].endswith("unhealthy: 1")


def test_a_pcie_that_a_pod_has_alone_has_no_device_for_another_by_cost() -> None:
    alone = {**BY_PLACE, "scheduling.koordinator.sh/device-allocate-hint": '{"gpu": {"exclusivePolicy": "PCIeLevel"}}'}
    second = {**GPU, "minor": 1, "bus": "0000:52:00.0", "uuid": ""}
    names = ("nvidia.com/gpu/0", "nvidia.com/gpu/1")
    listed = {"gpu": [GPU, second]}
    asked = create("b", by_cost(names[0]))
    assert refusals(create("a", alone), asked, names=names, listed=listed)[1].endswith("held: 2 by default/a/c")
    assert "PCIeLevel" in refusals(create("a", by_cost(names[0])), create("b", alone), names=names, listed=listed)[1]


def given(annotation: str = "", cdi_name: str = "") -> pb.ContainerConfig:
    """What the kubelet adds to the configuration of a container for which a device plugin allocated something."""
    annotations = {"allocated.cri-proxy.io/gpu": annotation} if annotation else {}
    devices = [pb.CDIDevice(name=cdi_name)] if cdi_name else []
    return pb.ContainerConfig(annotations=annotations, CDI_devices=devices)


@pytest.mark.parametrize(
    "by",
    [
        given("0"),
        given(cdi_name=f"nvidia.com/gpu={UUID}"),
        given(cdi_name="nvidia.com/gpu=0"),
        given(cdi_name="a.com/x=y"),
    ],
    ids=["plugin", "identifier", "number", "of-cost-files"],
)
async def test_what_the_kubelet_gave_to_one_is_refused_to_the_other(by: pb.ContainerConfig) -> None:
    listed = read_inventory_text(json.dumps(INVENTORY), "inventory")
    site = Site(policy_with_devices("nvidia.com/gpu/gpu0", "a.com/x/y", devices=listed))
    name = "a.com/x/y" if by == given(cdi_name="a.com/x=y") else "nvidia.com/gpu/gpu0"
    async with opened(site):
        spec = PodSpec("a", (OWNS,))
        request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        request.config.MergeFrom(by)
        await site.kubelet.start(await site.kubelet.create_as(request))
        for other in ("b", "d"):
            with pytest.raises(CallFailed, match="held: 1 by default/a/c"):
                await site.run(other, OWNS, **by_cost(name))
            await site.open()
