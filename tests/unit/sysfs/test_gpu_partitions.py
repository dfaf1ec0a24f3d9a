"""Partitions of AMD's GPUs by KFD topology: which GPU each is a part of, on old kernels and new ones."""

from dataclasses import replace

import pytest

from sysfs.archives.capture import capture_tree
from sysfs.archives.tar import read_archive
from sysfs.descriptions.machine import describe
from sysfs.discover import discover_tree, fingerprint
from sysfs.errors import MachineSourceError
from sysfs.gpu_partitions import partitions
from sysfs.model import Device
from sysfs.reader import TreeReader
from tests.fakes.sysfs_tree import files_of, links_of, memory_tree, tree_of

NODES = "sys/devices/virtual/kfd/kfd/topology/nodes"
PLATFORM = "sys/devices/platform"
GPU = {"class": "0x120000", "vendor": "0x1002", "device": "0x74a1"}
MACHINE = describe(
    {
        "packages": 2,
        "cores": 2,
        "pci": [
            {"address": "0000:05:00.0", "node": 0, **GPU, "partitions": ["amdgpu_xcp_1", "amdgpu_xcp_2"]},
            {"address": "0000:06:00.0", "node": 0, "class": "0x020000", "vendor": "0x15b3"},
            {"address": "0001:85:00.0", "node": 1, **GPU, "partitions": ["amdgpu_xcp_9", "amdgpu_xcp_10"]},
        ],
    }
)


def parts(files: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return found(files)[0]


def found(files: dict[str, str]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    machine = discover_tree(memory_tree(files, links_of(MACHINE)))
    return {device.address: device.partitions for device in machine.devices if device.partitions}, machine.notes


WHOLE = {"0000:05:00.0": ("amdgpu_xcp_1", "amdgpu_xcp_2"), "0001:85:00.0": ("amdgpu_xcp_9", "amdgpu_xcp_10")}


def test_a_gpu_has_its_partitions_in_the_order_of_their_render_nodes() -> None:
    assert parts(files_of(MACHINE)) == WHOLE


def test_names_of_older_kernels_have_a_dot() -> None:
    files = {path.replace("amdgpu_xcp_", "amdgpu_xcp."): text for path, text in files_of(MACHINE).items()}
    assert parts(files) == {gpu: tuple(name.replace("p_", "p.") for name in names) for gpu, names in WHOLE.items()}


def test_older_kernels_have_the_partition_in_place_of_the_function() -> None:
    files = files_of(MACHINE)
    for node, part in ((1, 1), (2, 2)):
        path = f"{NODES}/{node}/properties"
        files[path] = files[path].replace(str(0x0500 | part << 28), str(0x0500 | part))
    assert parts(files) == WHOLE


def test_a_function_beside_the_gpu_is_not_taken_for_it() -> None:
    """MI300A has a USB controller as function 1."""
    usb = Device("0000:05:00.1", 0x0C0330, 0x1002, 0x14DF, 0, MACHINE.devices[0].local_cpus, ("pci0000:05",))
    machine = replace(MACHINE, devices=(*MACHINE.devices, usb))
    files = files_of(machine)
    files[f"{NODES}/1/properties"] = files[f"{NODES}/1/properties"].replace(str(0x0500 | 1 << 28), str(0x0501))
    read = discover_tree(memory_tree(files, links_of(machine)))
    assert {device.address: device.partitions for device in read.devices if device.partitions} == WHOLE


def test_partitions_that_kfd_does_not_have_are_not_in_use() -> None:
    """The driver makes eight for each GPU, whatever its mode."""
    files = files_of(MACHINE) | {f"{PLATFORM}/amdgpu_xcp_3/drm/renderD131/dev": "226:131\n"}
    assert parts(files) == WHOLE
    one = {path: text for path, text in files.items() if path != f"{NODES}/1/properties"}
    assert parts(one) == WHOLE | {"0000:05:00.0": ("amdgpu_xcp_2",)}


@pytest.mark.parametrize(
    "text", ["domain x\n", "drm_render_minor 129 130\nlocation_id -\n", "\N{LATIN SMALL LETTER A WITH DIAERESIS}"]
)
def test_a_node_that_cannot_be_read_is_noted_and_costs_its_partition_alone(text: str) -> None:
    left, notes = found(files_of(MACHINE) | {f"{NODES}/1/properties": text})
    assert left == WHOLE | {"0000:05:00.0": ("amdgpu_xcp_2",)}
    if text.isascii() and "-" not in text:
        assert notes == (
            f"{NODES}/1/properties: expected lines of a name and a number; a partition of a GPU is left out",
        )


def test_a_partition_of_no_listed_gpu_is_none() -> None:
    files = files_of(MACHINE)
    files[f"{NODES}/1/properties"] = "domain 7\nlocation_id 1280\ndrm_render_minor 129\n"
    assert parts(files) == WHOLE | {"0000:05:00.0": ("amdgpu_xcp_2",)}


def test_without_kfd_or_partitions_there_is_nothing_to_note() -> None:
    plain = replace(MACHINE, devices=tuple(replace(device, partitions=()) for device in MACHINE.devices))
    assert discover_tree(tree_of(plain)).notes == ()
    files = {path: text for path, text in files_of(MACHINE).items() if not path.startswith(NODES)}
    assert found(files) == ({}, ())


def test_a_single_partition_has_a_gpu_whatever_else_is_known() -> None:
    assert partitions(TreeReader(tree_of(MACHINE)))["amdgpu_xcp_10"] == "0001:85:00.0"


def test_a_capture_has_the_partitions(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("captures") / "machine.tar.xz"
    capture_tree(tree_of(MACHINE), file)
    (tree,) = read_archive(file).values()
    assert discover_tree(tree).devices == MACHINE.devices


def test_another_mode_is_another_machine() -> None:
    before = fingerprint(tree_of(MACHINE))
    files = files_of(MACHINE) | {"sys/devices/virtual/kfd/kfd/topology/generation_id": "3\n"}
    assert fingerprint(memory_tree(files, links_of(MACHINE))) != before


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["amdgpu_xcp"], "expected the name of a partition like amdgpu_xcp_1, got 'amdgpu_xcp'"),
        (["amdgpu_xcp_1", "amdgpu_xcp_1"], "pci: amdgpu_xcp_1: give every partition a unique name"),
    ],
)
def test_a_description_names_partitions_as_the_kernel_does(names: list[str], problem: str) -> None:
    with pytest.raises(MachineSourceError, match=problem):
        describe({"pci": [{"address": "0000:05:00.0", **GPU, "partitions": names}]})
