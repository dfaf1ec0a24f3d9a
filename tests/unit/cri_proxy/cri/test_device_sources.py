import pytest

from cri_proxy.cri.device_sources import cdi_names, hint_kind, hint_paths, pci_addresses
from cri_proxy.cri.proto import cri_v1_pb2 as pb


def config(*mounts: pb.Mount, devices: tuple[str, ...] = ()) -> pb.ContainerConfig:
    return pb.ContainerConfig(mounts=mounts, devices=[pb.Device(host_path=d) for d in devices])


def test_devices_and_writable_mounts_count_once_each() -> None:
    data = pb.Mount(host_path="/mnt/nvme", container_path="/data")
    assert hint_paths(config(data, data, devices=("/dev/vfio/7",))) == ("/dev/vfio/7", "/mnt/nvme")


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
    assert hint_paths(config(mount)) == ()


@pytest.mark.parametrize("path", ["/etcetera", "/library", "/usr/libelf", VOLUMES + "kubernetes.io~empty-dir/cache"])
def test_paths_that_only_look_alike_count(path: str) -> None:
    assert hint_paths(config(pb.Mount(host_path=path, container_path="/data"))) == (path,)


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


def test_a_hint_is_of_the_kind_of_what_named_it() -> None:
    given = config(pb.Mount(host_path="/mnt/nvme"), devices=("/dev/vfio/7",))
    assert [hint_kind(s, given) for s in ("/mnt/nvme", "/dev/vfio/7", "0000:3b:00.0", "podresapi:x/1")] == [
        "mounts", "devices", "devices", "pod-resources",
    ]  # fmt: skip
