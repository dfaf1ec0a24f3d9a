import pytest

from cri_proxy.cri.device_names.names import NOTHING_TOLD, DeviceName, ToldDevices
from cri_proxy.cri.devices.gpu_variables import has_no_gpu, has_nvidia_gpus, is_privileged, visible_gpus
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.device_grants import DeviceGrant, listed_only
from policies.devices import DeviceInventory, InventoryDevice

AMD, NIC = InventoryDevice("gpu", 0), InventoryDevice("rdma", 0, uuid="GPU-5a")
TOLD = ToldDevices(is_known=True)


@pytest.mark.parametrize(
    ("inventory", "has_some"),
    [
        (DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a"), AMD)), True),
        (DeviceInventory((AMD,), node_labels={"node.koordinator.sh/gpu-vendor": "nvidia"}), True),
        (DeviceInventory((NIC,), node_labels={"node.koordinator.sh/gpu-vendor": "nvidia"}), False),
        (DeviceInventory((AMD, NIC)), False),
        (DeviceInventory(()), False),
    ],
)
def test_gpus_are_nvidias_by_their_identifiers_or_the_nodes_label(
    inventory: DeviceInventory, *, has_some: bool
) -> None:
    assert has_nvidia_gpus(inventory) == has_some


def test_a_container_has_no_gpu_only_where_the_kubelet_says_so_of_it() -> None:
    assert has_no_gpu(pb.ContainerConfig(), (), TOLD)
    assert not has_no_gpu(pb.ContainerConfig(), (), NOTHING_TOLD)


@pytest.mark.parametrize(
    ("cdi", "devices", "told"),
    [
        ("k8s.device-plugin.nvidia.com/gpu=GPU-5a", (), TOLD),
        ("", (DeviceGrant("gpu", 0, 50),), TOLD),
        ("", (listed_only("nvidia.com/gpu/gpu0"),), TOLD),
        ("", (), ToldDevices(allocated=("nvidia.com/mig-1g.5gb/MIG-7c",), is_known=True)),
        ("", (), ToldDevices(allocated=("nvidia.com/gpu/GPU-5a",), is_known=True)),
        ("", (), ToldDevices(cdi=(("k8s.gpu.nvidia.com/device=0", "podresapi:d/p/0"),), is_known=True)),
        ("", (), ToldDevices(names=(DeviceName("pci", "0000:51:00.0", "podresapi:gpu.x/p/0"),), is_known=True)),
    ],
)
def test_whatever_may_be_a_gpu_counts_as_one(cdi: str, devices: tuple[DeviceGrant, ...], told: ToldDevices) -> None:
    config = pb.ContainerConfig(CDI_devices=[pb.CDIDevice(name=cdi)] if cdi else [])
    assert not has_no_gpu(config, devices, told)


def test_a_nic_is_no_gpu() -> None:
    told = ToldDevices(allocated=("intel.com/sriov_netdevice/0000:51:00.1",), is_known=True)
    assert has_no_gpu(pb.ContainerConfig(), (DeviceGrant("rdma", 0, 100),), told)


@pytest.mark.parametrize(("added", "is_so"), [(["NET_ADMIN"], False), (["CAP_SYS_ADMIN"], True), (["all"], True)])
def test_a_container_with_sys_admin_is_privileged_to_the_toolkit(added: list[str], *, is_so: bool) -> None:
    config = pb.ContainerConfig()
    config.linux.security_context.capabilities.add_capabilities.extend(added)
    assert is_privileged(config) == is_so


@pytest.mark.parametrize(("value", "named"), [("all", "all"), ("void", ""), ("none", ""), ("", "")])
def test_a_pod_names_gpus_by_the_variable(value: str, named: str) -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="NVIDIA_VISIBLE_DEVICES", value=value.encode())])
    assert (visible_gpus(config), visible_gpus(pb.ContainerConfig())) == (named, "")
