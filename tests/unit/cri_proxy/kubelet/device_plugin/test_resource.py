from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.devices.pci_functions import FunctionsByAddress, PciFunction
from cri_proxy.cri.devices.plugin_devices import given_devices
from cri_proxy.cri.proto import cri_v1_pb2 as cri
from cri_proxy.kubelet.device_plugin.resource import AllocationRefused, NodeFiles, ServedResource, served_resource
from cri_proxy.kubelet.device_plugin.settings import PluginResource
from cri_proxy.kubelet.device_plugin.sources import PluginKnowledge
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb
from policies.devices import (
    DeviceInventory,
    DeviceOffer,
    InventoryDevice,
    JoinedDevices,
    OfferForm,
    PciePath,
    proved,
)
from policies.devices.costs import CostLine, CostListing, Inventory, compile_costs
from tests.fakes.sriov_tree import by_address
from tests.unit.policies.devices.build import gpu, inventory, nic, pairs
from tests.unit.policies.devices.links.machines import kep_690

UUID = "GPU-5a"


def served(devices: DeviceInventory, kind: str = "gpu", name: str = "x.io/d", form: str = "whole") -> ServedResource:
    offer = DeviceOffer(OfferForm(form), 4 if form == "shares" else 1)
    return served_resource(PluginResource(kind, name, offer), devices, PluginKnowledge())


LINES = CostLine(("x.io/d/gpu0",), 9, ("x.io/d/gpu1",)), CostLine(("x.io/d/gpu2",), 5, ("x.io/d/gpu5",))
COSTS = Inventory(compile_costs(CostListing(LINES)))
RESOURCES = {
    "links": served(replace(pairs(8), links=kep_690())),
    "costs": served_resource(PluginResource("gpu", "x.io/d"), pairs(8), PluginKnowledge(costs=COSTS)),
    "place": served(pairs(8)),
    "shares": served(inventory(nic(0), nic(1)), "rdma", form="shares"),
    "vfs": served(inventory(nic(0, vfs=4), nic(1, vfs=4)), "rdma", form="vfs"),
}


def none(names: object) -> tuple[str, ...]:
    return ()


def unknown(addresses: object) -> FunctionsByAddress:
    return {}


NOTHING, ALL = NodeFiles(none, unknown), NodeFiles(tuple, unknown)


def sick(device: InventoryDevice) -> InventoryDevice:
    return replace(device, is_healthy=False)


def asked(available: list[str], size: int, must: list[str] | None = None) -> pb.ContainerPreferredAllocationRequest:
    return pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=must or [], allocation_size=size
    )


@pytest.mark.parametrize(
    ("available", "size", "must", "chosen"),
    [
        (["gpu-3", "gpu-2", "gpu-0"], 2, [], {"gpu-2", "gpu-3"}),
        (["gpu-3", "gpu-2", "gpu-0"], 2, ["gpu-0"], {"gpu-0", "gpu-2"}),
        (["gpu-0", "gpu-9"], 1, [], {"gpu-0"}),
        (["gpu-0", "gpu-9"], 2, [], set()),
        (["gpu-0", "gpu-1"], 2, ["gpu-9"], set()),
        (["gpu-0"], 0, [], set()),
        (["gpu-0"], -1, [], set()),
        (["gpu-0", "gpu-0"], 2, [], set()),
        (["gpu-0", "gpu-1"], 1, ["gpu-0", "gpu-1"], set()),
        ([], 0, [], set()),
    ],
)
def test_what_is_preferred_is_available_and_has_what_it_must(
    available: list[str], size: int, must: list[str], chosen: set[str]
) -> None:
    """An answer with an error would fail the pod; an empty one leaves the choice to the kubelet."""
    assert set(served(pairs(4)).preferred(asked(available, size, must))) == chosen


@given(
    st.sampled_from(["links", "costs", "place", "shares", "vfs"]),
    st.lists(st.integers(0, 9), max_size=12),
    st.lists(st.integers(0, 9), max_size=3),
    st.integers(-1, 9),
)
def test_whatever_is_asked_the_answer_is_empty_or_a_set_that_can_be_had(
    how: str, available: list[int], must: list[int], size: int
) -> None:
    resource = RESOURCES[how]
    ids = [*resource.offered.devices, "gone-1", "gone-2"]
    free, included = ([ids[number] for number in numbers] for numbers in (available, must))
    chosen = resource.preferred(asked(free, size, included))
    if chosen:
        assert len(chosen) == len(set(chosen)) == size
        assert set(included) <= set(chosen) <= set(free) & resource.offered.devices.keys()
    else:
        usable = set(free) & resource.offered.devices.keys()
        assert size <= 0 or size > len(usable) or not set(included) <= usable or len(set(included)) > size


def test_an_unhealthy_device_is_never_preferred() -> None:
    resource = served(inventory(sick(gpu(0)), gpu(1)))
    assert resource.preferred(asked(["gpu-0", "gpu-1"], 1)) == ("gpu-1",)


def test_nvidias_variable_has_identifiers_where_they_are_known() -> None:
    resource = served(inventory(replace(gpu(0), uuid=UUID), gpu(1)), name="nvidia.com/gpu")
    assert resource.allocation(["gpu-1", "gpu-0"], NOTHING).envs["NVIDIA_VISIBLE_DEVICES"] == f"{UUID},1"


def test_a_gpu_of_another_maker_beside_nvidias_is_no_index_of_theirs() -> None:
    resource = served(inventory(gpu(0), replace(gpu(1), uuid=UUID)))
    assert "NVIDIA_VISIBLE_DEVICES" not in resource.allocation(["gpu-0"], NOTHING).envs
    assert resource.allocation(["gpu-0", "gpu-1"], NOTHING).envs["NVIDIA_VISIBLE_DEVICES"] == UUID


@pytest.mark.parametrize(
    ("name", "labels", "is_nvidia"),
    [
        ("nvidia.com/gpu", {}, True),
        ("x.io/gpu", {"node.koordinator.sh/gpu-vendor": "nvidia"}, True),
        ("x.io/gpu", {"node.koordinator.sh/gpu-vendor": "huawei"}, False),
    ],
)
def test_gpus_of_others_have_no_variable_of_nvidias(name: str, labels: dict[str, str], is_nvidia: bool) -> None:
    envs = served(DeviceInventory((gpu(0),), node_labels=labels), name=name).allocation(["gpu-0"], NOTHING).envs
    assert ("NVIDIA_VISIBLE_DEVICES" in envs) is is_nvidia


def test_a_resource_of_a_vendor_has_no_gpus_of_others() -> None:
    made = zip(("nvidia", "amd", ""), range(3), strict=True)
    node = inventory(*(replace(gpu(n), vendor=vendor) for vendor, n in made))
    offered = {name: [*served(node, name=name).offered.devices] for name in ("nvidia.com/gpu", "amd.com/gpu", "x.io/d")}
    assert offered == {
        "nvidia.com/gpu": ["gpu-0", "gpu-2"],
        "amd.com/gpu": ["gpu-1", "gpu-2"],
        "x.io/d": ["gpu-0", "gpu-1", "gpu-2"],
    }
    assert "NVIDIA_VISIBLE_DEVICES" not in served(node).allocation(["gpu-1"], NOTHING).envs


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ({f"nvidia.com/gpu={UUID}", "nvidia.com/gpu=0", "cri-proxy.io/gpu=0"}, f"nvidia.com/gpu={UUID}"),
        ({"nvidia.com/gpu=0", "cri-proxy.io/gpu=0"}, "nvidia.com/gpu=0"),
        ({"cri-proxy.io/gpu=0", "nvidia.com/gpu=1"}, "cri-proxy.io/gpu=0"),
        ({"nvidia.com/gpu=1", "cri-proxy.io/rdma=0"}, ""),
    ],
)
def test_of_the_cdi_names_of_a_device_the_first_that_is_declared_is_given(declared: set[str], name: str) -> None:
    resource = served(inventory(replace(gpu(0), uuid=UUID)))
    answer = resource.allocation(["gpu-0"], NodeFiles(lambda names: tuple(n for n in names if n in declared), unknown))
    assert [device.name for device in answer.cdi_devices] == ([name] if name else [])


def test_a_gpu_is_named_by_the_number_that_its_specification_proves() -> None:
    """As where a file numbers GPUs otherwise than NVIDIA's toolkit counts them."""
    gpus = [replace(gpu(n), path=PciePath(bus=f"0000:0{n}:00.0")) for n in range(2)]
    proofs = {f"nvidia.com/gpu={n}": [proved([f"0000:0{1 - n}:00.0"])] for n in range(2)}
    files = NodeFiles(lambda names: tuple(set(names) & proofs.keys()), unknown, lambda names: proofs)
    answer = served(inventory(*gpus)).allocation(["gpu-1"], files)
    assert [device.name for device in answer.cdi_devices] == ["nvidia.com/gpu=0"]


def test_a_virtual_function_has_a_cdi_name_of_its_own_and_never_that_of_its_device() -> None:
    resource = served(inventory(nic(1, vfs=1)), "rdma", form="vfs")
    answer = resource.allocation(["0000:01:00.1"], ALL)
    assert [device.name for device in answer.cdi_devices] == ["cri-proxy.io/vf=0000:01:00.1"]
    assert answer.envs["CRI_PROXY_ALLOCATED_RDMA"] == "1@0000:01:00.1"


def test_functions_of_a_container_are_named_as_by_the_sr_iov_plugin() -> None:
    """Its format: addresses under the resource's name; how each is used as JSON by provider, without blanks."""
    known = (
        PciFunction("0000:00:00.1", "vfio-pci", vfio="/dev/vfio/12"),
        PciFunction("0000:01:00.2", "mlx5_core", rdma=("mlx5_2",), verbs=("uverbs2",), has_connection_manager=True),
    )
    resource = served(inventory(nic(0, vfs=1), nic(1, vfs=2)), "rdma", "example.com/rail-0", form="vfs")
    asked: list[str] = []

    def functions(addresses: Sequence[str]) -> FunctionsByAddress:
        asked.extend(addresses)
        return by_address(known)

    envs = resource.allocation(["0000:01:00.2", "0000:00:00.1", "0000:01:00.1"], NodeFiles(none, functions)).envs
    assert asked == ["0000:00:00.1", "0000:01:00.1", "0000:01:00.2"]
    assert envs["PCIDEVICE_EXAMPLE_COM_RAIL-0"] == ",".join(asked)
    assert envs["PCIDEVICE_EXAMPLE_COM_RAIL-0_INFO"] == (
        '{"0000:00:00.1":{"generic":{"deviceID":"0000:00:00.1"},'
        '"vfio":{"dev-mount":"/dev/vfio/12","mount":"/dev/vfio/vfio"}},'
        '"0000:01:00.1":{"generic":{"deviceID":"0000:01:00.1"}},'
        '"0000:01:00.2":{"generic":{"deviceID":"0000:01:00.2"},'
        '"rdma":{"rdma_cm":"/dev/infiniband/rdma_cm","rdma_dev":"mlx5_2","uverbs":"/dev/infiniband/uverbs2"}}}'
    )


@pytest.mark.parametrize(
    ("device", "form", "id", "variable"),
    [
        (nic(0), "whole", "rdma-0", "0000:51:00.0"),
        (nic(0), "shares", "rdma-0-share-0", None),  # others have the rest
        (gpu(0), "whole", "gpu-0", None),  # GPUs have variables of their own
    ],
)
def test_only_functions_that_a_container_has_alone_are_named_by_address(
    device: InventoryDevice, form: str, id: str, variable: str | None
) -> None:
    listed = replace(device, path=PciePath(bus="0000:51:00.0"))
    envs = served(inventory(listed), device.kind, "x.io/d", form).allocation([id], NOTHING).envs
    assert envs.get("PCIDEVICE_X_IO_D") == variable


def test_shares_of_a_device_are_one_device_of_the_container() -> None:
    resource = served(inventory(nic(0), nic(1)), "rdma", form="shares")
    answer = resource.allocation(["rdma-1-share-3", "rdma-0-share-0", "rdma-1-share-0"], ALL)
    assert answer.envs == {"CRI_PROXY_ALLOCATED_RDMA": "0:25,1:50"}
    assert answer.annotations == {"allocated.cri-proxy.io/rdma": "0:25,1:50"}
    assert [device.name for device in answer.cdi_devices] == ["cri-proxy.io/rdma=0", "cri-proxy.io/rdma=1"]


@pytest.mark.parametrize(
    ("how", "ids", "units"),
    [
        ("place", ["gpu-1", "gpu-4"], {("gpu", 1, ""): 100, ("gpu", 4, ""): 100}),
        ("vfs", ["0000:01:00.2"], {("rdma", 1, "0000:01:00.2"): 1}),
        ("shares", ["rdma-0-share-1", "rdma-0-share-2"], {("rdma", 0, ""): 50}),
    ],
)
def test_what_the_container_carries_are_the_devices_that_the_kubelet_allocated(
    how: str, ids: list[str], units: dict[tuple[str, int, str], int]
) -> None:
    """The kubelet copies annotations and CDI names of the answer to the container's configuration."""
    resource = RESOURCES[how]
    answer = resource.allocation(ids, ALL)
    names = [cri.CDIDevice(name=device.name) for device in answer.cdi_devices]
    config = cri.ContainerConfig(annotations=answer.annotations, CDI_devices=names)
    devices = DeviceInventory(tuple(device for group in resource.offered.groups for device in group.devices))
    grants, problems = given_devices(config, JoinedDevices(devices))
    assert {(grant.kind, grant.minor, grant.vf): grant.amount for grant in grants} == units
    assert problems == ()


def test_no_devices_are_an_empty_answer() -> None:
    assert served(pairs(2)).allocation([], ALL) == pb.ContainerAllocateResponse()


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (["gpu-0", "gpu-11"], "gpu-11: x.io/d has no such device; it has gpu-0, .*, gpu-7 and 2 more"),
        (["a\x1b[31m"], r"^a[^\x1b]*: x.io/d has no such device"),
        (["gpu-9"], "gpu-9: x.io/d has it as unhealthy; ask for another one"),
        (["gpu-1", "gpu-1"], "gpu-1: asked for twice"),
    ],
)
def test_what_a_container_cannot_have_is_refused_by_name(ids: list[str], problem: str) -> None:
    resource = served(inventory(*(gpu(minor) for minor in range(9)), sick(gpu(9))))
    with pytest.raises(AllocationRefused, match=problem):
        resource.allocation(ids, NOTHING)
    with pytest.raises(AllocationRefused, match=problem):
        resource.checked(ids)
