import pytest

from cri_proxy.cri.annotations.device_filter import LocalityFilter, PathPattern
from cri_proxy.cri.device_names.names import DeviceName
from cri_proxy.cri.device_sources import (
    MAX_VARIABLES,
    cdi_names,
    counting_localities,
    locality_paths,
    named_devices,
    pci_addresses,
    source_kind,
)
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import DeviceLocality
from sysfs.cpuset import CpuSet, NodeSet


def config(*mounts: pb.Mount, devices: tuple[str, ...] = ()) -> pb.ContainerConfig:
    return pb.ContainerConfig(mounts=mounts, devices=[pb.Device(host_path=d) for d in devices])


def test_devices_and_writable_mounts_count_once_each() -> None:
    data = pb.Mount(host_path="/mnt/nvme", container_path="/data")
    assert locality_paths(config(data, data, devices=("/dev/vfio/7",))) == ("/dev/vfio/7", "/mnt/nvme")


VOLUMES = "/var/lib/kubelet/pods/1/volumes/"


@pytest.mark.parametrize(
    "mount",
    [
        pb.Mount(host_path="/mnt/nvme", container_path="/data", readonly=True),
        pb.Mount(host_path="/etc/localtime", container_path="/x"),
        pb.Mount(host_path="/var/lib/kubelet/pods/1/etc-hosts", container_path="/etc/hosts"),
        pb.Mount(host_path="/lib/modules", container_path="/m"),
        pb.Mount(host_path="/usr/lib64", container_path="/m"),
        pb.Mount(host_path="/x", container_path="/usr/lib/y"),
        pb.Mount(host_path="/var/lib/kubelet/pods/1/containers/c/2", container_path="/dev/termination-log"),
        pb.Mount(host_path=VOLUMES + "kubernetes.io~configmap/settings", container_path="/c"),
        pb.Mount(host_path=VOLUMES + "kubernetes.io~secret/token", container_path="/s"),
        pb.Mount(host_path=VOLUMES + "kubernetes.io~projected/token", container_path="/p"),
        pb.Mount(container_path="/image", image=pb.ImageSpec(image="x")),
    ],
    ids=lambda m: m.host_path or "image",
)
def test_mounts_that_every_container_has_or_only_reads_do_not_count(mount: pb.Mount) -> None:
    assert locality_paths(config(mount)) == ()


@pytest.mark.parametrize("path", ["/etcetera", "/library", "/usr/libelf", VOLUMES + "kubernetes.io~empty-dir/cache"])
def test_paths_that_only_look_alike_count(path: str) -> None:
    assert locality_paths(config(pb.Mount(host_path=path, container_path="/data"))) == (path,)


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("vendor.com/nic=0000:3B:00.1", ("0000:3b:00.1",)),
        ("vendor.com/gpu=pf-0000:3b:00.0-vf2", ("0000:3b:00.0",)),
        ("vendor.com/gpu=0", ()),
        ("vendor.com/gpu=10000:3b:00.0f", ()),
    ],
)
def test_a_cdi_name_tells_a_place_only_by_a_pci_address(name: str, addresses: tuple[str, ...]) -> None:
    assert pci_addresses(pb.ContainerConfig(CDI_devices=[pb.CDIDevice(name=name)])) == addresses


def test_cdi_devices_are_named_by_the_field_and_by_annotations() -> None:
    given = pb.ContainerConfig(
        CDI_devices=[pb.CDIDevice(name="a/b=1")], annotations={"cdi.k8s.io/plugin": "a/b=0, a/b=1", "other": "a/b=9"}
    )
    assert cdi_names(given) == ("a/b=0", "a/b=1")


def hint(source: str, via: str = "", devices: str = "") -> DeviceLocality:
    return DeviceLocality(source, CpuSet.parse("0"), NodeSet(), via, tuple(devices.split()))


def test_a_hint_is_of_the_kind_of_what_named_it() -> None:
    given = config(pb.Mount(host_path="/mnt/nvme"), devices=("/dev/vfio/7",))
    mount, node, cdi = hint("/mnt/nvme"), hint("/dev/vfio/7"), hint("0000:3b:00.0", "CDI device a/b=c")
    plugin, claim = hint("podresapi:x/1"), hint("/dev/gpu0", "podresapi:d/p/gpu-0")
    assert [source_kind(each, given) for each in (mount, node, cdi, plugin, claim)] == [
        "mounts", "devices", "devices", "pod-resources", "pod-resources",
    ]  # fmt: skip


def test_a_pci_device_counts_once_however_many_names_it_has() -> None:
    node, variable, group = (
        hint("/dev/vfio/7", "", "a b"),
        hint("a", "PCIDEVICE_X", "a"),
        hint("podresapi:x/1", "", "b c"),
    )
    assert counting_localities([node, variable, group], config(), LocalityFilter()) == (node, group)


def test_hints_of_devices_that_are_not_known_all_count() -> None:
    given = [hint("podresapi:x/1"), hint("podresapi:x/2")]
    assert counting_localities(given, config(), LocalityFilter()) == tuple(given)


def test_where_one_name_of_a_device_does_not_count_another_one_does() -> None:
    node, variable = hint("/dev/nvidia0", "", "a"), hint("0", "NVIDIA_VISIBLE_DEVICES", "a")
    chosen = LocalityFilter(deny=(PathPattern("/dev/"),))
    assert counting_localities([node, variable], config(), chosen) == (variable,)


def test_devices_of_claims_are_filtered_by_driver_pool_and_device() -> None:
    claim = hint("/dev/gpu0", "podresapi:gpu.example.com/node/gpu-0", "a")
    denied = LocalityFilter(deny=(PathPattern("podresapi:gpu.example.com/"),))
    assert (
        counting_localities([claim], config(), denied),
        counting_localities([claim], config(), LocalityFilter()),
    ) == (
        (),
        (claim,),
    )


def with_variables(*pairs: tuple[str, str]) -> pb.ContainerConfig:
    return pb.ContainerConfig(envs=[pb.KeyValue(key=key, value=value.encode()) for key, value in pairs])


def test_of_a_variable_that_is_set_twice_the_later_value_counts() -> None:
    given = with_variables(("NVIDIA_VISIBLE_DEVICES", "GPU-a"), ("PATH", "/"), ("NVIDIA_VISIBLE_DEVICES", "1"))
    assert named_devices(given).names == (DeviceName("gpu", "1", "NVIDIA_VISIBLE_DEVICES"),)


def test_thousands_of_variables_are_not_all_looked_at() -> None:
    given = with_variables(*((f"PCIDEVICE_{n}", f"{n:04x}:00:00.0") for n in range(5000)))
    assert len(named_devices(given).names) <= MAX_VARIABLES


def listed(*devices: str) -> pb.ContainerConfig:
    root = "/var/run/nvidia-container-devices"
    return config(*(pb.Mount(host_path="/dev/null", container_path=f"{root}/{d}", readonly=True) for d in devices))


def test_nvidias_list_of_mounts_names_gpus_and_cdi_devices() -> None:
    given = listed("GPU-a", "all", "cdi/nvidia.com/gpu/0", "cdi/odd")
    found = named_devices(given)
    assert found.names == (DeviceName("gpu", "GPU-a", "/var/run/nvidia-container-devices"),)
    assert found.cdi == ("nvidia.com/gpu=0",)


def test_a_container_without_devices_names_none() -> None:
    assert named_devices(with_variables(("PATH", "/"))).names == ()
