from dataclasses import replace

import pytest

from policies.devices import (
    RDMA,
    DeviceOffer,
    OfferForm,
    PciePath,
    VfGroup,
    VirtualFunction,
    offer_of,
    offered_devices,
)
from tests.unit.policies.devices.build import gpu, inventory, nic, plugin_given

WHOLE = DeviceOffer()
VFS = DeviceOffer(OfferForm.VFS)


def test_whole_devices_are_named_by_type_and_minor_in_the_order_of_minors() -> None:
    offered = offered_devices(inventory(gpu(10), gpu(2), nic(0)), "gpu", WHOLE)
    assert list(offered.devices) == ["gpu-2", "gpu-10"]
    assert offered.parts(["gpu-10", "gpu-2"]) == (plugin_given("gpu", 2), plugin_given("gpu", 10))


def test_virtual_functions_are_named_by_their_addresses_and_a_device_without_them_is_not_offered() -> None:
    offered = offered_devices(inventory(nic(0), nic(1, vfs=2)), "rdma", VFS)
    assert list(offered.devices) == ["0000:01:00.1", "0000:01:00.2"]
    parts = offered.parts(reversed(list(offered.devices)))
    assert [(part.minor, part.vf, part.amount) for part in parts] == [(1, "0000:01:00.1", 1), (1, "0000:01:00.2", 1)]


@pytest.mark.parametrize(("shares", "units"), [(4, [25, 50, 75, 100]), (3, [33, 66, 100]), (100, [1, 2, 3, 4])])
def test_shares_of_one_device_add_up_to_all_of_it(shares: int, units: list[int]) -> None:
    offered = offered_devices(inventory(nic(0), nic(1)), "rdma", DeviceOffer(OfferForm.SHARES, shares))
    ids = [f"rdma-1-share-{number}" for number in range(shares)]
    assert {offered.devices[name].part.amount for name in ids} == {units[0]}
    assert [offered.parts(ids[: count + 1]) for count in range(len(units))] == [
        (plugin_given(RDMA, 1, most),) for most in units
    ]


def test_virtual_functions_are_in_the_order_of_their_addresses() -> None:
    vfs = VfGroup((VirtualFunction(0, "vf10"), VirtualFunction(1, "vf2")))
    offered = offered_devices(inventory(replace(nic(0), vf_groups=(vfs,))), "rdma", VFS)
    assert [(name, device.order) for name, device in offered.devices.items()] == [
        ("vf2", 0),
        ("vf10", 1),
    ]


def test_an_id_has_the_node_of_its_device_or_of_the_pcie_that_it_is_on() -> None:
    offered = offered_devices(inventory(gpu(0, 1, "a"), nic(0, None, "a"), nic(1, None)), "rdma", WHOLE)
    assert [device.node for device in offered.devices.values()] == [1, None]
    assert offered.groups[offered.devices["rdma-0"].group].pcie == "a"


def test_an_id_has_the_address_of_what_it_alone_stands_for() -> None:
    """A share leaves the function to others."""
    listed = replace(nic(1, vfs=1), path=PciePath(bus="0000:01:00.0"))
    buses = {
        str(offer.form): [each.bus for each in offered_devices(inventory(listed), "rdma", offer).devices.values()]
        for offer in (WHOLE, VFS, DeviceOffer(OfferForm.SHARES, 2))
    }
    assert buses == {"whole": ["0000:01:00.0"], "vfs": ["0000:01:00.1"], "shares": ["", ""]}


def test_an_id_has_health_and_identifier_of_its_device() -> None:
    sick = replace(gpu(0), is_healthy=False, uuid="GPU-a")
    (device,) = offered_devices(inventory(sick), "gpu", WHOLE).devices.values()
    assert (device.is_healthy, device.uuid) == (False, "GPU-a")


def test_nothing_is_offered_of_a_gpu_that_is_cut_into_parts() -> None:
    node = inventory(replace(gpu(0), parts=("MIG-5a",)), gpu(1))
    offers = (WHOLE, DeviceOffer(OfferForm.SHARES, 2))
    assert [[*offered_devices(node, "gpu", offer).devices] for offer in offers] == [
        ["gpu-1"],
        ["gpu-1-share-0", "gpu-1-share-1"],
    ]


def test_what_is_not_offered_has_no_part() -> None:
    with pytest.raises(KeyError):
        offered_devices(inventory(gpu(0)), "gpu", WHOLE).parts(["gpu-1"])


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("rdma", "half", "expected whole, vfs, shares:N or shares:N:spread, got 'half'"),
        ("rdma", "shares", "expected whole"),
        ("rdma", "shares:0", "expected whole"),
        ("rdma", "shares:101", "at most as many shares"),
        ("fpga", "shares:2", "fpga cannot be offered in shares, only gpu and rdma can"),
        ("gpu", "shares:3", "100 units are no even parts of 3; offer 2 or 4 shares"),
        ("gpu", "shares:99", "offer 50 or 100 shares"),
        ("gpu", "shares:4:pack", "expected whole"),
        ("rdma", "shares:4:spread", "only shares of gpu are spread; offer shares:4"),
    ],
)
def test_a_form_that_cannot_be_offered_is_an_error(kind: str, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        offer_of(kind, text)


def test_forms_are_read_as_they_are_written() -> None:
    assert offer_of("gpu", "whole") == WHOLE
    assert offer_of("rdma", "vfs") == VFS
    assert offer_of("rdma", "shares:100") == DeviceOffer(OfferForm.SHARES, 100)
    assert offer_of("gpu", "shares:4:spread") == DeviceOffer(OfferForm.SHARES, 4, spreads=True)
