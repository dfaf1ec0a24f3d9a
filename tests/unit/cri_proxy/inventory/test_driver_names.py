from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from cri_proxy.file_workers import PLAIN_THREADS, FilesFailed
from cri_proxy.inventory.driver_names import DriverIdentifiers, identified
from cri_proxy.inventory.file import read_inventory_text
from policies.devices import DeviceInventory
from tests.fakes.nvidia_tree import write_gpu

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
LISTED = read_inventory_text(
    """\
gpu:
- {minor: 0, bus: "00000000:3B:00.0"}
- {minor: 1, bus: "0000:86:00.0", uuid: GPU-of-the-file}
- {minor: 2, bus: "0000:af:00.0"}
- {minor: 3}
rdma: [{minor: 0, bus: "0000:3c:00.0"}]
""",
    "devices.yaml",
)


class Hanging:
    """Files that answer so many times, then never again."""

    def __init__(self, answers: int = 0) -> None:
        self.answers = answers

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        self.answers -= 1
        if self.answers < 0:
            raise FilesFailed(subject, "no answer")
        return function(*args)


def uuids(inventory: DeviceInventory) -> list[str]:
    return [device.uuid for device in inventory.devices]


async def test_the_driver_names_gpus_of_known_address_unless_the_file_does(tmp_path: Path) -> None:
    write_gpu(tmp_path, "0000:3b:00.0", 7, "GPU-5a")
    write_gpu(tmp_path, "0000:86:00.0", 1, "GPU-other")
    write_gpu(tmp_path, "0000:3c:00.0", 2, "GPU-where-the-file-has-a-nic")
    found = await DriverIdentifiers(tmp_path, PLAIN_THREADS).filled(LISTED)
    assert uuids(found) == ["GPU-5a", "GPU-of-the-file", "", "", ""]
    assert [device.minor for device in found.devices] == [0, 1, 2, 3, 0]  # not those of /dev/nvidiaN
    assert identified(LISTED, tmp_path) == found
    assert [(each.source, each.uuid) for each in found.devices[1].statements] == [
        ("devices.yaml line 3", "GPU-of-the-file"),
        ("the NVIDIA driver", "GPU-other"),
    ]


async def test_what_the_driver_does_not_know_yet_is_filled_in_when_it_does(tmp_path: Path) -> None:
    write_gpu(tmp_path, "0000:3b:00.0", 0, "GPU-????????-????")
    identifiers = DriverIdentifiers(tmp_path, PLAIN_THREADS)
    assert await identifiers.filled(LISTED) == LISTED
    write_gpu(tmp_path, "0000:3b:00.0", 0, "GPU-5a")
    assert uuids(await identifiers.filled(LISTED))[0] == "GPU-5a"


async def test_without_a_driver_or_with_one_that_hangs_the_inventory_is_as_it_was(tmp_path: Path) -> None:
    assert await DriverIdentifiers(tmp_path / "none", PLAIN_THREADS).filled(LISTED) == LISTED
    assert await DriverIdentifiers(tmp_path, Hanging()).filled(LISTED) == LISTED


async def test_a_driver_that_hangs_later_takes_no_identifier_away(tmp_path: Path) -> None:
    """As it does once a GPU has fallen off its bus: an index would then mean another GPU to the toolkit."""
    write_gpu(tmp_path, "0000:3b:00.0", 0, "GPU-5a")
    identifiers = DriverIdentifiers(tmp_path, Hanging(answers=1))
    first = await identifiers.filled(LISTED)
    assert uuids(first)[0] == "GPU-5a"
    assert await identifiers.filled(LISTED) == first


async def test_nobody_is_asked_where_no_gpu_has_an_address(tmp_path: Path) -> None:
    whole = read_inventory_text(
        '{gpu: [{minor: 0, uuid: GPU-1}], rdma: [{minor: 0, bus: "0000:86:00.0"}]}', "devices.yaml"
    )
    assert await DriverIdentifiers(tmp_path, Hanging()).filled(whole) is whole
