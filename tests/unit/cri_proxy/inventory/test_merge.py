from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.in_force.report import FileState
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.inventory.file import inventory_value, read_inventory_text
from cri_proxy.inventory.merge import InventoryFile, with_scanned
from cri_proxy.inventory.numbers import DeviceNumbers
from policies.devices import DeviceInventory, InventoryDevice, PciePath, VfGroup, VirtualFunction
from tests.fakes.secret_files import MARK, SECRETS

GOOD, BAD = "gpu: [{minor: 0}]\n", "gpu: 7\n"
FILE = InventoryFile(Path("/d/a.yaml"))


def found(text: str, problem: str = "") -> FoundFiles:
    return FoundFiles(Path("/d/a.yaml"), (TextFile("a.yaml", text, problem),), is_one=True)


def state(text: str, kept: str = "", problem: str = "") -> tuple[int, str, str]:
    judged = FILE.judge(found(text, problem), {"a.yaml": kept} if kept else {})
    (file,) = judged.files
    return len(judged.content.devices), file.state, file.problem


def test_a_good_file_is_in_force() -> None:
    assert state(GOOD) == (1, FileState.IN_FORCE, "")


def test_a_bad_file_leaves_its_last_good_text_in_force_or_nothing() -> None:
    assert state(BAD, kept=GOOD)[:2] == (1, FileState.KEPT)
    assert state(BAD)[:2] == (0, FileState.REJECTED)
    assert state(BAD, kept=BAD)[:2] == (0, FileState.REJECTED)


def test_an_empty_file_is_being_written_and_a_second_document_is_a_mistake() -> None:
    assert "is empty" in state("\n", kept=GOOD)[2]
    assert "another document begins here" in state(f"{GOOD}---\n{GOOD}")[2]
    assert state("{}") == (0, FileState.IN_FORCE, "")


def test_what_cannot_be_read_keeps_what_it_said() -> None:
    assert state("", kept=GOOD, problem="cannot be read: Input/output error")[:2] == (1, FileState.KEPT)
    silent = FILE.judge(FoundFiles(Path("/d/a.yaml"), (), "does not answer"), {"a.yaml": GOOD})
    assert (len(silent.content.devices), silent.files[0].state) == (1, FileState.KEPT)


def test_what_is_wrong_with_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    bad = InventoryFile(tmp_path / "devices.yaml")
    bad.path.write_text(BAD)
    (file,) = bad.judge(bad.read(), {}).files
    assert (file.line, file.problem.startswith("gpu: ")) == (1, True)


def scanned(*buses: str) -> DeviceInventory:
    gpus = (InventoryDevice("gpu", n, n, f"pci{n}", PciePath("pci0", bus=bus)) for n, bus in enumerate(buses))
    return DeviceInventory(tuple(gpus))


def test_a_scan_fills_in_what_the_file_leaves_out_of_the_same_device() -> None:
    listed = DeviceInventory((InventoryDevice("gpu", 5, path=PciePath(bus="0000:01:00.0"), uuid="GPU-5"),))
    (device,) = with_scanned(listed, scanned("0000:01:00.0")).devices
    assert (device.minor, device.uuid, device.numa, device.pcie) == (5, "GPU-5", 0, "pci0")


def test_file_and_scan_both_state_what_they_find_of_a_device() -> None:
    listed = read_inventory_text('gpu:\n- {minor: 0, numa: 3, bus: "0000:01:00.0"}\n', "devices.yaml")
    found = DeviceInventory(tuple(device.stated_by("the scan") for device in scanned("0000:01:00.0").devices))
    (device,) = with_scanned(listed, found).devices
    assert device.numa == 3
    assert [(each.source, str(each.nodes)) for each in device.statements] == [
        ("devices.yaml line 2", "3"),
        ("the scan", "0"),
    ]


def test_devices_that_only_the_scan_finds_get_the_next_free_minors() -> None:
    listed = DeviceInventory((InventoryDevice("gpu", 0, path=PciePath(bus="0000:09:00.0")),))
    both = with_scanned(listed, scanned("0000:01:00.0", "0000:09:00.0", "0000:0a:00.0"))
    assert [(device.minor, device.path.bus) for device in both.devices] == [
        (0, "0000:09:00.0"),
        (1, "0000:01:00.0"),
        (2, "0000:0a:00.0"),
    ]


def test_a_scan_adds_none_of_a_type_of_which_the_file_has_one_without_an_address() -> None:
    for bus in ("", "02:00.0"):
        listed = DeviceInventory((InventoryDevice("gpu", 0, path=PciePath(bus=bus)),))
        assert with_scanned(listed, scanned("0000:01:00.0", "0000:02:00.0")) == listed


def minors(inventory: DeviceInventory) -> dict[str, int]:
    return {device.path.bus: device.minor for device in inventory.devices}


def test_a_device_keeps_its_minor_when_another_one_goes_and_comes_back() -> None:
    first = with_scanned(DeviceInventory(()), scanned("0000:01:00.0", "0000:02:00.0"))
    left = with_scanned(DeviceInventory(()), scanned("0000:02:00.0"), first)
    assert minors(left) == {"0000:02:00.0": 1}
    assert minors(with_scanned(DeviceInventory(()), scanned("0000:01:00.0", "0000:02:00.0"), left)) == minors(first)


def test_a_device_in_the_place_of_another_one_gets_no_minor_that_containers_may_hold() -> None:
    first = with_scanned(DeviceInventory(()), scanned("0000:01:00.0", "0000:02:00.0"))
    now = with_scanned(DeviceInventory(()), scanned("0000:00:00.0", "0000:02:00.0"), first)
    assert minors(now) == {"0000:00:00.0": 2, "0000:02:00.0": 1}


def test_the_file_may_take_the_minor_that_a_scan_gave() -> None:
    first = with_scanned(DeviceInventory(()), scanned("0000:01:00.0"))
    listed = DeviceInventory((InventoryDevice("gpu", 0, path=PciePath(bus="0000:09:00.0")),))
    assert minors(with_scanned(listed, scanned("0000:01:00.0"), first)) == {"0000:09:00.0": 0, "0000:01:00.0": 1}


def typed(kind: str, bus: str, *alike: str, minor: int = 0) -> DeviceInventory:
    return DeviceInventory((InventoryDevice(kind, minor, path=PciePath(bus=bus), alike=(kind, *alike)),))


def test_a_device_whose_type_changes_is_known_by_the_one_that_it_had() -> None:
    bus, first = "0000:01:00.0", typed("rdma", "0000:01:00.0", minor=2)
    (now,) = with_scanned(DeviceInventory(()), typed("nic", bus), first).devices
    assert (now.key, now.formerly) == (("nic", 0), (("rdma", 2),))
    numbers = DeviceNumbers().after(first).after(DeviceInventory((now,)))
    (later,) = with_scanned(DeviceInventory(()), typed("nic", bus), numbers.beside(DeviceInventory((now,)))).devices
    assert later == now
    (back,) = with_scanned(DeviceInventory(()), typed("rdma", bus), numbers.beside(DeviceInventory((now,)))).devices
    assert (back.key, back.formerly) == (("rdma", 2), (("nic", 0),))


def test_no_other_device_gets_the_number_of_one_whose_type_has_changed() -> None:
    both = DeviceInventory((*typed("rdma", "0000:01:00.0").devices, *typed("rdma", "0000:02:00.0", minor=1).devices))
    now = DeviceInventory((*typed("nic", "0000:01:00.0").devices, *typed("rdma", "0000:02:00.0").devices))
    found = with_scanned(DeviceInventory(()), now, both).devices
    assert [(device.key, device.formerly) for device in found] == [(("nic", 0), (("rdma", 0),)), (("rdma", 1), ())]


@pytest.mark.parametrize(("listed", "is_added"), [("rdma", False), ("nic", False), ("fpga", True), ("gpu", True)])
def test_a_device_may_be_one_that_the_file_lists_without_an_address_under_a_type_of_its_class(
    listed: str, is_added: bool
) -> None:
    found = with_scanned(DeviceInventory((InventoryDevice(listed, 0),)), typed("nic", "0000:01:00.0", "rdma"))
    assert (len(found.devices) == 2) == is_added


def test_the_vendor_is_the_files_then_the_scans() -> None:
    bus = "0000:01:00.0"
    by_scan = DeviceInventory((InventoryDevice("gpu", 0, path=PciePath(bus=bus), vendor="amd"),))
    for text, vendor in (("", "amd"), (", vendor: nvidia", "nvidia"), (", uuid: GPU-5a", "amd")):
        listed = read_inventory_text(f'gpu: [{{minor: 5, bus: "{bus}"{text}}}]', "a.yaml")
        assert with_scanned(listed, by_scan).devices[0].vendor == vendor


@pytest.mark.parametrize(("numa", "node"), [("-1", None), ("null", 0), ("3", 3)])
def test_a_file_may_state_that_a_device_has_no_numa_node(numa: str, node: int | None) -> None:
    text = f'gpu: [{{minor: 0, bus: "0000:01:00.0", numa: {numa}}}]'
    found = with_scanned(read_inventory_text(text, "a.yaml"), scanned("0000:01:00.0"))
    assert [device.numa for device in found.devices] == [node]
    written = inventory_value(read_inventory_text(text, "a.yaml"))["gpu"]
    assert f"'numa': {'None' if numa == 'null' else numa}," in str(written)


def test_an_address_as_nvidia_writes_it_is_the_same_device() -> None:
    listed = read_inventory_text('gpu: [{minor: 5, bus: "00000000:0A:00.0"}]', "a.yaml")
    (device,) = with_scanned(listed, scanned("0000:0a:00.0")).devices
    assert (device.minor, device.numa) == (5, 0)


def test_a_vf_that_the_file_lists_as_a_device_is_given_once() -> None:
    vfs = tuple(VirtualFunction(n, f"0000:51:00.{n + 1}") for n in range(2))
    physical = InventoryDevice("rdma", 0, path=PciePath(bus="0000:51:00.0"), vf_groups=(VfGroup(vfs),))
    own = InventoryDevice("rdma", 7, path=PciePath(bus="0000:51:00.2"))
    both = with_scanned(DeviceInventory((own,)), DeviceInventory((physical,)))
    assert [[vf.bus for group in device.vf_groups for vf in group.vfs] for device in both.devices] == [
        [],
        ["0000:51:00.1"],
    ]


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_file_without_devices_nothing_is_repeated(name: str) -> None:
    assert MARK not in state(SECRETS[name])[2]
    assert "no key of an inventory is understood" in state(SECRETS[name])[2]


def test_of_a_file_with_a_known_key_what_is_wrong_is_quoted() -> None:
    assert "unknown key 'gup'" in state("gup: []\ngpu: []\n")[2]
    assert "type: expected one of gpu" in state("kind: Device\nspec: {devices: [{type: gup}]}\n")[2]


def test_a_file_may_name_a_partition_and_a_scan_fills_in_its_place() -> None:
    parts = scanned("0000:01:00.0", "").devices
    found = DeviceInventory((parts[0], replace(parts[1], uuid="amdgpu_xcp_1", vendor="amd")))
    listed = read_inventory_text("gpu: [{minor: 7, uuid: amdgpu_xcp_1}]", "devices.yaml")
    first, second = with_scanned(listed, found).devices
    assert (first.minor, first.numa, first.pcie, first.vendor) == (7, 1, "pci1", "amd")
    assert (second.minor, second.path.bus) == (0, "0000:01:00.0")
