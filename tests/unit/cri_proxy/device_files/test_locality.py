from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.cri.device_names.names import DeviceName, NameKind
from cri_proxy.cri.device_names.nvidia_gpus import Gpu, NvidiaGpus
from cri_proxy.device_files.locality import DeviceFinder, DeviceNumber, device_number, needs_number
from policies.base import DeviceLocality
from sysfs.cpuset import CpuSet, NodeSet

NVME = DeviceNumber("block", 259, 1)
PCI = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"


def tree(root: Path, *, node: str = "1", cpus: str = "4-7") -> DeviceFinder:
    """An NVMe partition behind a PCI device, and a virtual terminal; /dev paths are numbered by name."""
    partition = root / PCI / "nvme/nvme0/nvme0n1/nvme0n1p1"
    partition.mkdir(parents=True)
    (root / PCI / "numa_node").write_text(f"{node}\n")
    (root / PCI / "local_cpulist").write_text(f"{cpus}\n")
    (root / "sys/devices/virtual/tty/tty1").mkdir(parents=True)
    link(root / "sys/dev/block/259:1", partition)
    link(root / "sys/dev/char/4:1", root / "sys/devices/virtual/tty/tty1")
    link(root / "sys/bus/pci/devices/0000:3b:00.0", root / PCI)
    numbers = {"mapped": DeviceNumber("block", 253, 0), "nvme0n1p1": NVME, "tty1": DeviceNumber("char", 4, 1)}
    return DeviceFinder(root, lambda path: numbers.get(path.name))


def link(name: Path, target: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(target)


def hint(source: str) -> DeviceLocality:
    return DeviceLocality(source, CpuSet.parse("4-7"), NodeSet.parse("1"), devices=("0000:3b:00.0",))


def hints_of(found: DeviceFinder, *paths: str) -> tuple[DeviceLocality, ...]:
    return found.of([DeviceName("path", path) for path in paths])


@pytest.mark.parametrize("path", ["/dev/nvme0n1p1", f"/{PCI}"])
def test_a_device_is_where_it_or_the_nearest_directory_above_it_says(tmp_path: Path, path: str) -> None:
    assert hints_of(tree(tmp_path), path) == (hint(path),)


def test_a_controller_that_tells_only_its_node_gets_the_cpus_from_above(tmp_path: Path) -> None:
    hints = tree(tmp_path)
    (tmp_path / PCI / "nvme/nvme0/numa_node").write_text("1\n")
    assert hints_of(hints, "/dev/nvme0n1p1") == (hint("/dev/nvme0n1p1"),)


def test_a_pci_address_is_looked_up_on_the_bus(tmp_path: Path) -> None:
    names = [DeviceName("pci", address) for address in ("0000:3b:00.0", "0000:ff:00.0")]
    assert tree(tmp_path).of(names) == (hint("0000:3b:00.0"),)


@pytest.mark.parametrize(("node", "cpus"), [("-1", "0-7"), ("0-", "0-7"), ("", "")])
def test_a_device_without_a_known_place_gives_no_hint(node: str, cpus: str, tmp_path: Path) -> None:
    assert hints_of(tree(tmp_path, node=node, cpus=cpus), "/dev/nvme0n1p1") == ()


@pytest.mark.parametrize("path", ["/dev/tty1", "/dev/nosuch", "/sys/nosuch"])
def test_virtual_and_unknown_devices_give_no_hint(path: str, tmp_path: Path) -> None:
    assert hints_of(tree(tmp_path), path) == ()


def test_a_vfio_group_is_where_its_devices_are(tmp_path: Path) -> None:
    hints = tree(tmp_path)
    link(tmp_path / "sys/kernel/iommu_groups/7/devices/0000:3b:00.0", tmp_path / PCI)
    assert hints_of(hints, "/dev/vfio/7", "/dev/vfio/8") == (hint("/dev/vfio/7"),)


def test_a_mapped_device_is_where_the_disks_below_it_are(tmp_path: Path) -> None:
    hints = tree(tmp_path)
    mapped = tmp_path / "sys/devices/virtual/block/dm-0"
    mapped.mkdir(parents=True)
    link(mapped / "slaves/nvme0n1p1", tmp_path / PCI / "nvme/nvme0/nvme0n1/nvme0n1p1")
    link(tmp_path / "sys/dev/block/253:0", mapped)
    assert hints_of(hints, "/dev/mapped") == (hint("/dev/mapped"),)


def test_the_disk_of_the_root_file_system_attracts_nobody_but_who_asks_for_the_device_itself(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / PCI / "nvme/nvme0/nvme0n1/nvme0n1p1/partition").write_text("1\n")
    stored = replace(NVME, is_storage=True)
    hints = DeviceFinder(tmp_path, lambda path: NVME if path.name == "nvme0n1p1" else stored)
    assert hints_of(hints, "/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/x") == ()
    assert hints_of(hints, "/dev/nvme0n1p1") == (hint("/dev/nvme0n1p1"),)


def test_a_path_that_no_file_can_have_gives_no_hint(tmp_path: Path) -> None:
    assert hints_of(tree(tmp_path), "/dev/a\0b", "/sys/a\0b") == ()


def test_a_character_device_is_numbered_by_itself_and_what_is_not_there_not_at_all(tmp_path: Path) -> None:
    assert device_number(Path("/dev/null")) == DeviceNumber("char", 1, 3)
    assert device_number(tmp_path / "nosuch") is None


def test_a_directory_on_no_device_has_no_number() -> None:
    assert device_number(Path("/proc")) is None


UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


@pytest.mark.parametrize(
    ("kind", "text", "entry", "shown"),
    [
        ("interface", "eth1", "class/net/eth1/device", "interface eth1"),
        ("mediated", UUID, f"bus/mdev/devices/{UUID}", f"mediated device {UUID}"),
        ("auxiliary", "mlx5_core.sf.4", "bus/auxiliary/devices/mlx5_core.sf.4", "auxiliary device mlx5_core.sf.4"),
        ("path", "/dev/vfio/devices/vfio3", "class/vfio-dev/vfio3", "/dev/vfio/devices/vfio3"),
        ("path", "/sys/bus/pci/devices/n", "bus/pci/devices/n", "/sys/bus/pci/devices/n"),
    ],
)
def test_a_device_without_a_node_is_found_where_the_kernel_links_it(
    tmp_path: Path, kind: NameKind, text: str, entry: str, shown: str
) -> None:
    finder = tree(tmp_path)
    below = tmp_path / PCI / "child"
    below.mkdir()
    link(tmp_path / "sys" / entry, below)
    (found,) = finder.of([DeviceName(kind, text, "ITS_VARIABLE")])
    assert found == replace(hint(shown), via="ITS_VARIABLE")


@pytest.mark.parametrize(("name", "number"), [("dri/renderD128", "226:128"), ("infiniband/uverbs0", "231:192")])
def test_a_node_of_a_gpu_or_a_nic_leads_to_its_pci_device(tmp_path: Path, name: str, number: str) -> None:
    tree(tmp_path)
    child = tmp_path / PCI / name
    child.mkdir(parents=True)
    link(tmp_path / "sys/dev/char" / number, child)
    major, minor = map(int, number.split(":"))
    finder = DeviceFinder(tmp_path, {tmp_path / "dev" / name: DeviceNumber("char", major, minor)}.get)
    assert hints_of(finder, f"/dev/{name}") == (hint(f"/dev/{name}"),)


def gpus(root: Path, *minors: int) -> DeviceFinder:
    """GPUs with these minors at PCI devices of bus 3b, of which sysfs knows the first; the last two have parts."""
    tree(root)
    found = tuple(Gpu(f"0000:3b:00.{at}", minor, f"gpu-{at}") for at, minor in enumerate(minors))
    return DeviceFinder(root, lambda _: None, NvidiaGpus(found, frozenset(minors[-2:]), ((33, minors[0]),)))


@pytest.mark.parametrize("path", ["/dev/nvidia5", "/run/driver/dev/nvidia5", "/dev/nvidia-caps/nvidia-cap33"])
def test_a_node_of_nvidias_driver_is_that_of_the_gpu_with_this_minor(tmp_path: Path, path: str) -> None:
    assert hints_of(gpus(tmp_path, 5, 1), path, "/dev/nvidia7") == (hint(path),)
    assert not needs_number(path)


def test_a_gpu_may_be_called_by_its_index_or_uuid(tmp_path: Path) -> None:
    found = gpus(tmp_path, 5, 1).of([DeviceName("gpu", "0"), DeviceName("gpu", "GPU-0"), DeviceName("gpu", "9")])
    assert [(each.source, each.devices) for each in found] == [("0000:3b:00.0", ("0000:3b:00.0",))] * 2


def test_a_part_of_one_of_several_gpus_is_where_these_are(tmp_path: Path) -> None:
    finder = gpus(tmp_path, 5, 1)
    link(tmp_path / "sys/bus/pci/devices/0000:3b:00.1", tmp_path / PCI)
    (found,) = finder.of([DeviceName("gpu", "MIG-8f6b")])
    assert (str(found.nodes), found.devices) == ("1", ())


def test_a_device_outside_the_pci_bus_is_known_by_the_directory_that_tells_its_place(tmp_path: Path) -> None:
    finder = tree(tmp_path)
    directory = tmp_path / "sys/devices/platform/soc/accel0"
    directory.mkdir(parents=True)
    (directory / "numa_node").write_text("1\n")
    (found,) = hints_of(finder, "/sys/devices/platform/soc/accel0")
    assert found.devices[0].endswith("/sys/devices/platform/soc/accel0")


@pytest.mark.parametrize("name", ["amdgpu_xcp_3", "amdgpu_xcp.3"])
@pytest.mark.parametrize("node", ["renderD131", "card3"])
def test_a_partition_of_a_gpu_is_where_its_gpu_is(tmp_path: Path, name: str, node: str) -> None:
    tree(tmp_path)
    for each in ("renderD131", "card3"):
        (tmp_path / "sys/devices/platform" / name / "drm" / each).mkdir(parents=True)
    topology = tmp_path / "sys/devices/virtual/kfd/kfd/topology/nodes/4"
    topology.mkdir(parents=True)
    finder = DeviceFinder(tmp_path, lambda path: DeviceNumber("char", 226, 131) if path.name == node else None)
    link(tmp_path / "sys/dev/char/226:131", tmp_path / "sys/devices/platform" / name / "drm" / node)
    assert hints_of(finder, f"/dev/dri/{node}") == ()
    (topology / "properties").write_text(f"domain 0\nlocation_id {0x3B00 | 3 << 28}\ndrm_render_minor 131\n")
    assert hints_of(finder, f"/dev/dri/{node}") == (hint(f"/dev/dri/{node}"),)
    (tmp_path / "sys/bus/pci/devices/0000:3b:00.0").unlink()
    assert hints_of(finder, f"/dev/dri/{node}") == ()


def test_the_hardware_behind_a_name_is_known_without_its_place(tmp_path: Path) -> None:
    """The firmware of many machines names no NUMA node."""
    tree(tmp_path)
    gpu = (tmp_path / "sys/bus/pci/devices/0000:3b:00.0").resolve()
    (gpu / "numa_node").write_text("-1\n")
    (tmp_path / "sys/devices/platform/amdgpu_xcp_3/drm/renderD131").mkdir(parents=True)
    topology = tmp_path / "sys/devices/virtual/kfd/kfd/topology/nodes/4"
    topology.mkdir(parents=True)
    (topology / "properties").write_text(f"domain 0\nlocation_id {0x3B00 | 3 << 28}\ndrm_render_minor 131\n")
    link(tmp_path / "sys/dev/char/226:131", tmp_path / "sys/devices/platform/amdgpu_xcp_3/drm/renderD131")
    link(tmp_path / "sys/dev/char/226:1", gpu)
    numbers = {"renderD131": DeviceNumber("char", 226, 131), "card1": DeviceNumber("char", 226, 1)}
    finder = DeviceFinder(tmp_path, lambda path: numbers.get(path.name))
    paths = ("/dev/dri/renderD131", "/dev/dri/card1", "/dev/kfd", "/dev/nul\0")
    assert [finder.hardware(DeviceName("path", path)) for path in paths] == [
        (("amdgpu_xcp_3", "0000:3b:00.0"),),
        (("0000:3b:00.0",),),
        (),
        (),
    ]
    assert hints_of(finder, *paths) == ()
