from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.cri.device_locality import DeviceFinder, DeviceNumber, device_number
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
    return DeviceLocality(source, CpuSet.parse("4-7"), NodeSet.parse("1"))


@pytest.mark.parametrize("path", ["/dev/nvme0n1p1", f"/{PCI}"])
def test_a_device_is_where_it_or_the_nearest_directory_above_it_says(tmp_path: Path, path: str) -> None:
    assert tree(tmp_path).of([path]) == (hint(path),)


def test_a_controller_that_tells_only_its_node_gets_the_cpus_from_above(tmp_path: Path) -> None:
    hints = tree(tmp_path)
    (tmp_path / PCI / "nvme/nvme0/numa_node").write_text("1\n")
    assert hints.of(["/dev/nvme0n1p1"]) == (hint("/dev/nvme0n1p1"),)


def test_a_pci_address_is_looked_up_on_the_bus(tmp_path: Path) -> None:
    assert tree(tmp_path).of([], ["0000:3b:00.0", "0000:ff:00.0"]) == (hint("0000:3b:00.0"),)


@pytest.mark.parametrize(("node", "cpus"), [("-1", "0-7"), ("0-", "0-7"), ("", "")])
def test_a_device_without_a_known_place_gives_no_hint(node: str, cpus: str, tmp_path: Path) -> None:
    assert tree(tmp_path, node=node, cpus=cpus).of(["/dev/nvme0n1p1"]) == ()


@pytest.mark.parametrize("path", ["/dev/tty1", "/dev/nosuch", "/sys/nosuch"])
def test_virtual_and_unknown_devices_give_no_hint(path: str, tmp_path: Path) -> None:
    assert tree(tmp_path).of([path]) == ()


def test_a_vfio_group_is_where_its_devices_are(tmp_path: Path) -> None:
    hints = tree(tmp_path)
    link(tmp_path / "sys/kernel/iommu_groups/7/devices/0000:3b:00.0", tmp_path / PCI)
    assert hints.of(["/dev/vfio/7", "/dev/vfio/8"]) == (hint("/dev/vfio/7"),)


def test_a_mapped_device_is_where_the_disks_below_it_are(tmp_path: Path) -> None:
    hints = tree(tmp_path)
    mapped = tmp_path / "sys/devices/virtual/block/dm-0"
    mapped.mkdir(parents=True)
    link(mapped / "slaves/nvme0n1p1", tmp_path / PCI / "nvme/nvme0/nvme0n1/nvme0n1p1")
    link(tmp_path / "sys/dev/block/253:0", mapped)
    assert hints.of(["/dev/mapped"]) == (hint("/dev/mapped"),)


def test_the_disk_of_the_root_file_system_attracts_nobody_but_who_asks_for_the_device_itself(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / PCI / "nvme/nvme0/nvme0n1/nvme0n1p1/partition").write_text("1\n")
    stored = replace(NVME, is_storage=True)
    hints = DeviceFinder(tmp_path, lambda path: NVME if path.name == "nvme0n1p1" else stored)
    assert hints.of(["/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/x"]) == ()
    assert hints.of(["/dev/nvme0n1p1"]) == (hint("/dev/nvme0n1p1"),)


def test_a_path_that_no_file_can_have_gives_no_hint(tmp_path: Path) -> None:
    assert tree(tmp_path).of(["/dev/a\0b", "/sys/a\0b"]) == ()


def test_a_character_device_is_numbered_by_itself_and_what_is_not_there_not_at_all() -> None:
    assert device_number(Path("/dev/null")) == DeviceNumber("char", 1, 3)
    assert device_number(Path("/nosuch")) is None


def test_a_directory_on_no_device_has_no_number() -> None:
    assert device_number(Path("/proc")) is None
