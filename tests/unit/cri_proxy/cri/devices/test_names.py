from collections.abc import Sequence

import pytest

from cri_proxy.cri.devices.names import (
    CandidateNames,
    Proofs,
    devices_allocated,
    devices_named,
    names_of,
    source_of,
)
from policies.device_grants import DeviceGrant
from policies.devices import (
    DeviceInventory,
    InventoryDevice,
    JoinedDevices,
    PciePath,
    VfGroup,
    VirtualFunction,
    proved,
)
from tests.fakes.device_policy import inventory, two_pairs

NODE = two_pairs()
VFS = (VfGroup((VirtualFunction(0, "0000:51:00.1"), VirtualFunction(1, "0000:51:00.2"))),)


def test_a_gpu_is_named_by_its_uuid_then_by_its_minor_then_as_ours() -> None:
    assert names_of(DeviceGrant("gpu", 1, 50), NODE) == (
        "nvidia.com/gpu=GPU-1",
        "nvidia.com/gpu=1",
        "cri-proxy.io/gpu=1",
    )


def test_a_device_that_is_gone_from_the_inventory_keeps_the_names_of_its_minor() -> None:
    kinds = ("nvidia.com/gpu", "dcu.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "cri-proxy.io/gpu")
    assert names_of(DeviceGrant("gpu", 7, 100), NODE) == tuple(f"{kind}=7" for kind in kinds)


def test_a_vf_is_named_by_its_address_and_never_as_its_nic() -> None:
    assert names_of(DeviceGrant("rdma", 0, 1, vf="0000:10:00.1"), NODE) == ("cri-proxy.io/vf=0000:10:00.1",)
    assert names_of(DeviceGrant("rdma", 0, 100), NODE) == ("cri-proxy.io/rdma=0",)


def test_every_name_leads_back_to_its_device() -> None:
    for grant in (
        DeviceGrant("gpu", 1, 100),
        DeviceGrant("rdma", 0, 100),
        DeviceGrant("rdma", 1, 1, vf="0000:20:00.2"),
    ):
        for name in names_of(grant, NODE):
            (found,) = devices_named([name, "vendor.com/class=other"], JoinedDevices(NODE))
            assert (found.key, found.vf, found.amount, found.is_given) == (grant.key, grant.vf, grant.amount, True)


def test_a_gpu_whose_vendor_no_source_names_has_the_names_of_all() -> None:
    known = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0), InventoryDevice("gpu", 1, vendor="nvidia"))))
    found = {name: devices_named([name], known) for name in ("amd.com/gpu=0", "nvidia.com/gpu=0", "amd.com/gpu=1")}
    assert {name: [str(each) for each in given] for name, given in found.items()} == {
        "amd.com/gpu=0": ["gpu 0"],
        "nvidia.com/gpu=0": ["gpu 0"],
        "amd.com/gpu=1": [],
    }


def test_gpus_have_the_names_of_their_vendor() -> None:
    node = DeviceInventory((InventoryDevice("gpu", 0, vendor="amd"), InventoryDevice("gpu", 1, vendor="8086")))
    assert names_of(DeviceGrant("gpu", 0, 100), node) == ("amd.com/gpu=0", "cri-proxy.io/gpu=0")
    assert names_of(DeviceGrant("gpu", 1, 100), node) == ("cri-proxy.io/gpu=1",)
    assert [str(grant) for grant in devices_named(["amd.com/gpu=all"], JoinedDevices(node))] == ["gpu 0"]
    assert devices_named(["nvidia.com/gpu=all", "nvidia.com/gpu=0"], JoinedDevices(node)) == ()


def test_a_name_of_the_type_that_a_device_had_before_is_its_own() -> None:
    node = JoinedDevices(DeviceInventory((InventoryDevice("nic", 0, formerly=(("rdma", 2),)),)))
    assert [str(grant) for grant in devices_named(["cri-proxy.io/rdma=2"], node)] == ["nic 0"]


def test_two_names_of_one_device_are_one() -> None:
    names = ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-0"]
    assert [str(grant) for grant in devices_named(names, JoinedDevices(NODE))] == ["gpu 0"]


def test_all_gpus_of_nvidia_are_every_gpu() -> None:
    assert [str(grant) for grant in devices_named(["nvidia.com/gpu=all"], JoinedDevices(NODE))] == ["gpu 0", "gpu 1"]


def test_names_are_of_no_device_without_an_inventory_or_names() -> None:
    assert devices_named(["nvidia.com/gpu=0"], JoinedDevices()) == ()
    assert devices_named([], JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0),)))) == ()


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/gpu=0", "nvidia.com/gpu=gpu0", "k8s.device-plugin.nvidia.com/gpu=GPU-5a", "nvidia.com/gpu=all"],
)
def test_a_cdi_name_is_of_the_device_that_cost_files_call_otherwise(name: str) -> None:
    """Cost files write a number, an index with the type, or a UUID, and so do specifications."""
    listed = "nvidia.com/gpu/GPU-5a" if "GPU-5a" in name else "nvidia.com/gpu/gpu0"
    joined = JoinedDevices(DeviceInventory((), costs=inventory(listed, "example.com/nic/0")))
    assert [(grant.cost_name, grant.is_given) for grant in devices_named([name], joined)] == [(listed, True)]


@pytest.mark.parametrize(
    ("allocated", "device"),
    [
        ("nvidia.com/gpu/GPU-1", "gpu 1"),
        ("amd.com/gpu/0000:83:00.0", "gpu 2"),
        ("amd.com/gpu/amdgpu_xcp_1", "gpu 3"),
        ("amd.com/cpx_nps4/amdgpu_xcp_1", "gpu 3"),
        ("amd.com/cpx_nps4/0000:83:00.0", "gpu 2"),
        ("amd.com/cpx_nps4/amdgpu_xcp_2", None),
        ("intel.com/sriov_netdevice/0000:20:00.2", "rdma 1 VF 0000:20:00.2"),
        ("cri-proxy.io/gpu/gpu-1", "gpu 1"),
        ("example.com/any/0000:20:00.2", "rdma 1 VF 0000:20:00.2"),
        (
            "cri-proxy.io/rdma/rdma-1-vf-0000:20:00.2",
            "rdma 1 VF 0000:20:00.2",
        ),  # of our plugin before it named addresses
        ("cri-proxy.io/rdma/rdma-1-vf-0000:99:00.2", None),
        ("example.com/any/rdma-1-share-0", None),  # the annotation of our plugin names it
        ("rdma/hca_shared_devices_a/0", None),
        ("nvidia.com/mig-1g.5gb/MIG-7c", None),
    ],
)
def test_the_kubelet_names_devices_as_their_plugins_do(allocated: str, device: str | None) -> None:
    amd = InventoryDevice("gpu", 2, path=PciePath(bus="0000:83:00.0"))
    part = InventoryDevice("gpu", 3, uuid="amdgpu_xcp_1", vendor="amd")
    found = devices_allocated([allocated], JoinedDevices(DeviceInventory((*NODE.devices, amd, part))))
    assert [(str(grant), grant.is_given) for grant in found] == ([(device, True)] if device else [])


def test_the_place_of_a_virtual_function_by_its_former_id_is_that_of_its_nic() -> None:
    names = ("cri-proxy.io/rdma/rdma-1-vf-0000:20:00.2", "cri-proxy.io/rdma/rdma-0-vf-0000:99:00.2")
    assert [source_of(name, JoinedDevices(NODE)) for name in names] == ["rdma/1", "rdma/0"]


def test_shares_that_a_plugin_offers_of_one_gpu_are_that_gpu_once() -> None:
    names = ["nvidia.com/gpu.shared/GPU-1::0", "nvidia.com/gpu.shared/GPU-1::3"]
    assert [(str(g), g.is_shared) for g in devices_allocated(names, JoinedDevices(NODE))] == [("gpu 1", True)]


MIG = DeviceInventory(
    (
        InventoryDevice("gpu", 0, 0, uuid="GPU-5a", path=PciePath(bus="0000:17:00.0")),
        InventoryDevice("gpu", 1, 1, uuid="GPU-7c", parts=("MIG-01", "MIG-02")),
        InventoryDevice("gpu", 2, vendor="amd"),
    )
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nvidia.com/gpu=0:1", "gpu 0 part 0:1"),
        ("nvidia.com/mig-1g.10gb=1:3", "gpu 1 part 1:3"),
        ("nvidia.com/gpu=MIG-GPU-7c/1/0", "gpu 1 part MIG-GPU-7c/1/0"),
        ("k8s.device-plugin.nvidia.com/gpu=MIG-02", "gpu 1 part MIG-02"),
        ("nvidia.com/mig-3g.40gb=MIG-0f", "gpu 0 part MIG-0f"),  # its specification has GPU 0's device node
        ("nvidia.com/gpu=2:0", ""),  # of AMD's
        ("nvidia.com/gpu=9:0", ""),
        ("example.com/gpu=0:1", ""),
        ("nvidia.com/gpu=MIG-1f", ""),
    ],
)
def test_a_mig_device_is_a_part_of_its_gpu_by_whatever_name(name: str, found: str) -> None:
    proofs = {"nvidia.com/mig-3g.40gb=MIG-0f": [proved(["0000:17:00.0"], is_part=True)]}
    given = devices_named([name, name], JoinedDevices(MIG), proofs)
    assert [str(grant) for grant in given] == [found] * bool(found)
    assert all((grant.is_given, grant.source) == (True, f"gpu/{grant.minor}") for grant in given)


NUMBERED_OTHERWISE = DeviceInventory(
    (
        InventoryDevice("gpu", 0, uuid="GPU-5a", path=PciePath(bus="0000:17:00.0")),
        InventoryDevice("gpu", 1, uuid="GPU-7c", path=PciePath(bus="0000:65:00.0")),
        InventoryDevice("gpu", 2),
        InventoryDevice("gpu", 3, uuid="GPU-9e"),
        InventoryDevice("gpu", 4, uuid="amdgpu_xcp_1", vendor="amd", part_of="0000:05:00.0"),
        InventoryDevice("gpu", 5, path=PciePath(bus="0000:05:00.0"), vendor="amd"),
        InventoryDevice("rdma", 0, path=PciePath(bus="0000:51:00.0"), vf_groups=VFS),
    )
)


@pytest.mark.parametrize(
    ("name", "proofs", "found"),
    [
        # NVIDIA's index 0 is the inventory's GPU 1.
        ("nvidia.com/gpu=0", ["0000:65:00.0"], "gpu 1"),
        ("nvidia.com/gpu=0", ["GPU-7C"], "gpu 1"),
        ("nvidia.com/gpu=0", ["0000:99:00.0 GPU-9e"], "gpu 3"),  # its address is not listed, its identifier is
        ("nvidia.com/gpu=0", ["00000000:17:00.0"], "gpu 0"),
        ("nvidia.com/gpu=0", [], "gpu 0"),
        ("nvidia.com/gpu=0", ["0000:99:00.0"], ""),  # none of those here
        ("nvidia.com/gpu=2", ["0000:99:00.0"], "gpu 2"),  # the inventory does not tell where GPU 2 is
        ("nvidia.com/gpu=3", ["0000:99:00.0"], "gpu 3"),  # nor where GPU 3 is
        ("nvidia.com/gpu=3", ["0000:99:00.0 GPU-11"], ""),
        ("nvidia.com/gpu=GPU-5a", ["0000:65:00.0"], "gpu 0"),  # a name that proves it goes first
        ("nvidia.com/gpu=0:1", ["0000:65:00.0"], "gpu 1 part 0:1"),
        ("nvidia.com/gpu=2:1", ["0000:99:00.0"], "gpu 2 part 2:1"),
        ("nvidia.com/gpu=0:1", ["0000:99:00.0"], ""),
        ("nvidia.com/gpu=MIG-GPU-5a/1/0", ["0000:65:00.0"], "gpu 0 part MIG-GPU-5a/1/0"),
        # Of AMD's partitions, and of names that tell of nothing.
        ("amd.com/gpu=0", ["amdgpu_xcp_1 0000:05:00.0"], "gpu 4"),
        ("amd.com/gpu=4", ["0000:05:00.0"], "gpu 5"),
        ("amd.com/gpu=0", ["amdgpu_xcp_7 0000:05:00.0"], "gpu 5"),  # a partition that is not listed is of its GPU
        ("k8s.gpu.nvidia.com/claim=5a-gpu-0", ["0000:65:00.0"], "gpu 1"),
        ("example.com/pair=a", ["0000:17:00.0", "0000:51:00.2", "0000:00:1f.0"], "gpu 0, rdma 0 VF 0000:51:00.2"),
        ("cri-proxy.io/rdma=0", ["0000:51:00.0"], "rdma 0"),
        ("example.com/nic=a", ["0000:51:00.0"], ""),  # plugins give its verbs to many containers
        ("example.com/nic=a", ["0000:51:00.2"], "rdma 0 VF 0000:51:00.2"),
        ("example.com/nic=a", [], ""),
    ],
)
def test_what_is_proved_goes_before_the_number_of_a_device(name: str, proofs: Sequence[str], found: str) -> None:
    given = devices_named([name], JoinedDevices(NUMBERED_OTHERWISE), {name: [proved(p.split()) for p in proofs]})
    assert ", ".join(map(str, given)) == found


GPU0, GPU1, NIC = DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 100), DeviceGrant("rdma", 0, 100)
SWAPPED = {"nvidia.com/gpu=0": [proved(["0000:65:00.0"])], "nvidia.com/gpu=1": [proved(["0000:17:00.0"])]}


@pytest.mark.parametrize(
    ("declared", "proofs", "given"),
    [
        (["nvidia.com/gpu=0", "nvidia.com/gpu=1"], {}, ("nvidia.com/gpu=0", "nvidia.com/gpu=1", "")),
        (["nvidia.com/gpu=0", "nvidia.com/gpu=1"], SWAPPED, ("nvidia.com/gpu=1", "nvidia.com/gpu=0", "")),
        (["nvidia.com/gpu=GPU-5a", "nvidia.com/gpu=0"], SWAPPED, ("nvidia.com/gpu=GPU-5a", "nvidia.com/gpu=0", "")),
        (["nvidia.com/gpu=0", "cri-proxy.io/gpu=0"], SWAPPED, ("cri-proxy.io/gpu=0", "nvidia.com/gpu=0", "")),
        (["nvidia.com/gpu=0"], {}, ("nvidia.com/gpu=0", "", "")),
        (["cri-proxy.io/rdma=0"], {}, ("", "", "cri-proxy.io/rdma=0")),
    ],
)
def test_a_number_that_is_proved_to_be_anothers_is_given_for_no_device(
    declared: list[str], proofs: Proofs, given: tuple[str, ...]
) -> None:
    names = CandidateNames.of([GPU0, GPU1, NIC], NUMBERED_OTHERWISE)
    assert set(declared) <= set(names.every)
    found = names.those(declared)
    assert found.given(JoinedDevices(NUMBERED_OTHERWISE), proofs) == given


def test_nothing_has_to_be_proved_where_names_tell_their_devices() -> None:
    every = [f"nvidia.com/gpu={name}" for name in ("GPU-5a", "GPU-7c", "0", "1")]
    names = CandidateNames.of([GPU0, GPU1, NIC], NUMBERED_OTHERWISE)
    assert names.those(every).to_prove == ()
    assert names.those(every[1:]).to_prove == ("nvidia.com/gpu=0", "nvidia.com/gpu=1")
    assert CandidateNames.of([NIC], NUMBERED_OTHERWISE).those(every).to_prove == ()


def test_a_part_of_a_gpu_is_one_whatever_it_is_called() -> None:
    proofs = {(name := "k8s.gpu.nvidia.com/claim=5a-mig-1"): [proved(["0000:65:00.0"], is_part=True)]}
    given = devices_named([name], JoinedDevices(NUMBERED_OTHERWISE), proofs)
    assert [str(each) for each in given] == ["gpu 1 part 5a-mig-1"]


def test_what_the_kubelet_has_allocated_of_mig_is_a_part_of_its_gpu() -> None:
    names = ["nvidia.com/mig-1g.10gb/MIG-01", "nvidia.com/mig-1g.10gb/MIG-02", "nvidia.com/gpu/MIG-01::3"]
    given = devices_allocated(names, JoinedDevices(MIG))
    assert [(str(grant), grant.is_shared) for grant in given] == [
        ("gpu 1 part MIG-01", True),
        ("gpu 1 part MIG-02", False),
    ]
