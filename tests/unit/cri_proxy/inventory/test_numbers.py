from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.numbers import NUMBERS, DeviceNumbers, boot_id, find_numbers
from policies.devices import EMPTY_INVENTORY, DeviceInventory, InventoryDevice, PciePath

A, B, C = "0000:10:00.0", "0000:20:00.0", "0000:30:00.0"
SAVED = DeviceNumbers((("gpu", A, 0), ("gpu", B, 1), ("rdma", C, 0)), "boot-1")


def scanned(*buses: str) -> DeviceInventory:
    """GPUs, numbered by address."""
    return DeviceInventory(
        tuple(InventoryDevice("gpu", n, path=PciePath(bus=bus)) for n, bus in enumerate(sorted(buses)))
    )


def found_again(saved: DeviceNumbers, *buses: str) -> dict[str, int]:
    """The number at each address after a restart with these numbers."""
    found = with_scanned(EMPTY_INVENTORY, scanned(*buses), saved.beside(EMPTY_INVENTORY))
    return {device.path.bus: device.minor for device in found.devices}


def test_devices_behind_one_that_is_gone_have_their_numbers_after_a_restart() -> None:
    saved = DeviceNumbers().after(scanned(A, B, C))
    assert found_again(saved, A, C) == {A: 0, C: 2}


def test_the_number_of_one_that_is_gone_is_kept_for_it() -> None:
    saved = DeviceNumbers().after(scanned(A, B))
    after = saved.after(with_scanned(EMPTY_INVENTORY, scanned(A), saved.beside(EMPTY_INVENTORY)))
    assert found_again(after, A, B, C) == {A: 0, B: 1, C: 2}


def test_an_inventory_may_give_a_number_to_another_device() -> None:
    listed = DeviceInventory((InventoryDevice("gpu", 0, path=PciePath(bus=C)), InventoryDevice("gpu", 1)))
    assert DeviceNumbers().after(scanned(A, B)).after(listed).devices == (("gpu", C, 0),)


def test_devices_that_are_gone_stand_beside_the_others() -> None:
    beside = SAVED.beside(scanned(A, B))
    assert [(device.kind, device.path.bus) for device in beside.devices] == [("gpu", A), ("gpu", B), ("rdma", C)]


def test_of_too_many_those_that_are_gone_are_forgotten() -> None:
    many = DeviceNumbers(tuple(("gpu", f"0000:{n // 256:02x}:{n % 256 // 8:02x}.{n % 8}", n) for n in range(4096)))
    after = many.after(DeviceInventory((InventoryDevice("rdma", 0, path=PciePath(bus=C)),)))
    assert len(after.devices) == 4096
    assert after.devices[-1] == ("rdma", C, 0)


def test_what_is_saved_is_found(tmp_path: Path) -> None:
    NUMBERS.save(tmp_path / "state", SAVED)
    assert find_numbers(tmp_path / "state", "boot-1") == SAVED
    assert (tmp_path / "state" / NUMBERS.name).stat().st_mode & 0o777 == 0o600


def test_at_another_start_of_the_machine_nothing_is_held_and_counting_begins_again(tmp_path: Path) -> None:
    NUMBERS.save(tmp_path, SAVED)
    assert find_numbers(tmp_path, "boot-2") == DeviceNumbers(boot="boot-2")
    assert find_numbers(tmp_path / "none", "boot-1") == DeviceNumbers(boot="boot-1")


def test_a_start_is_told_by_the_kernels_word_for_it(tmp_path: Path) -> None:
    assert boot_id(tmp_path) == ""
    file = tmp_path / "proc" / "sys" / "kernel" / "random" / "boot_id"
    file.parent.mkdir(parents=True)
    file.write_text("5a9f\n")
    assert boot_id(tmp_path) == "5a9f"


def test_what_cannot_be_written_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / f".{NUMBERS.name}.new").mkdir()
    with pytest.raises(StoreError, match=f"{NUMBERS.name}: cannot write"):
        NUMBERS.save(tmp_path, SAVED)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "boot": "", "devices": {}}',
        '{"version": 1, "devices": {}}',
        '{"version": 1, "boot": "", "devices": {"disk": {}}}',
        '{"version": 1, "boot": "", "devices": {"gpu": []}}',
        '{"version": 1, "boot": "", "devices": {"gpu": {"0000:10:00.0": true}}}',
        '{"version": 1, "boot": "", "devices": {"gpu": {"0000:10:00.0": -1}}}',
        '{"version": 1, "boot": "", "devices": {"gpu": {"here": 1}}}',
        '{"version": 1, "boot": "", "devices": {"gpu": {"0000:10:00.0": 0, "0000:20:00.0": 0}}}',
        " " * (1 << 20) + "{}",
    ],
)
def test_anything_else_is_an_error_with_the_remedy(text: str) -> None:
    with pytest.raises(StoreError, match="remove it"):
        NUMBERS.decode(text.encode(), "numbers.json")


def test_an_empty_document_has_no_numbers() -> None:
    assert NUMBERS.decode(b'{"version": 1, "boot": "x", "devices": {}}', "") == replace(SAVED, devices=(), boot="x")


def in_parts(*names: str) -> DeviceInventory:
    """A GPU at A with these partitions behind it, and a GPU at B."""
    gpu = InventoryDevice("gpu", 0, path=PciePath("pci0000:00", bus=A), vendor="amd")
    parts = [replace(gpu, minor=n, path=PciePath("pci0000:00"), uuid=name) for n, name in enumerate(names, 1)]
    return DeviceInventory((gpu, *parts, replace(gpu, minor=len(names) + 1, path=PciePath("pci0000:00", bus=B))))


def test_partitions_keep_their_numbers_by_their_names_over_restarts_and_other_modes() -> None:
    eight = in_parts("amdgpu_xcp_1", "amdgpu_xcp_2", "amdgpu_xcp_3")
    saved = DeviceNumbers().after(eight)
    assert saved.devices[-3:] == tuple(("gpu", f"amdgpu_xcp_{n}", n) for n in (1, 2, 3))
    found = with_scanned(EMPTY_INVENTORY, in_parts("amdgpu_xcp_3"), saved.beside(EMPTY_INVENTORY))
    numbers = {device.path.bus or device.uuid: device.minor for device in found.devices}
    assert numbers == {A: 0, "amdgpu_xcp_3": 3, B: 4}
    gone = saved.beside(found).devices[-1]
    assert (gone.uuid, gone.path.bus) == ("amdgpu_xcp_2", "")


def test_numbers_of_partitions_are_saved(tmp_path: Path) -> None:
    saved = DeviceNumbers((("gpu", A, 0), ("gpu", "amdgpu_xcp_1", 1)), "boot-1")
    NUMBERS.save(tmp_path, saved)
    assert find_numbers(tmp_path, "boot-1") == saved
