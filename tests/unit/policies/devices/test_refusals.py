from policies.devices.annotations import DeviceHint, RequiredScope
from policies.devices.candidates import DeviceCandidate
from policies.devices.demand import DeviceDemand
from policies.devices.model import pcie_groups
from policies.devices.refusals import joint_refusal, scope_refusal
from tests.unit.policies.devices.build import gpu, nic

TWELVE = [gpu(i, 0, f"p{i}") for i in range(12)]


def test_a_long_list_of_places_is_cut_and_counted() -> None:
    groups = pcie_groups(TWELVE)
    usable = [DeviceCandidate(device, number) for number, device in enumerate(TWELVE)]
    demand = DeviceDemand("gpu", 2, 100, hint=DeviceHint(scope=RequiredScope.PCIE))
    text = scope_refusal(demand, usable, groups)
    assert text.endswith("1 on PCIe p6, 1 on PCIe p7 and 4 places more")
    joint = joint_refusal([demand, DeviceDemand("rdma", 1, 1)], [usable, []], groups)
    assert "1 gpu and no rdma on PCIe p7; and 4 more; ask for fewer, or leave out requiredScope" in joint


def test_a_joint_refusal_names_what_each_pcie_could_give() -> None:
    devices = [gpu(0, 0, "p0"), gpu(1, 0, "p0"), nic(0, 0, "p0"), gpu(2, 0, "p1")]
    groups = pcie_groups(devices)
    gpus = [DeviceCandidate(devices[0], 0), DeviceCandidate(devices[1], 0), DeviceCandidate(devices[3], 1)]
    text = joint_refusal(
        [DeviceDemand("gpu", 3, 100), DeviceDemand("rdma", 2, 1)], [gpus, [DeviceCandidate(devices[2], 0)]], groups
    )
    assert text == (
        "device-joint-allocate with SamePCIe: no choice of 3 gpu has rdma on each of its PCIe groups, 2 rdma or more in"
        " all; to be had are 2 gpu and 1 rdma on PCIe p0; 1 gpu and no rdma on PCIe p1; ask for fewer, or leave out"
        " requiredScope"
    )
