import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.simulate.scenario.devices import DEVICES, MOUNTS, DeviceLocator, attach
from cri_proxy.simulate.scenario.model import Attachment
from cri_proxy.simulate.scenario.parse import documents
from cri_proxy.yaml_fields import DocumentError
from sysfs.descriptions.machine import describe
from sysfs.documents.table import Form

NIC, DISK = "0000:3b:00.0", "0000:10:00.0"
MACHINE = describe(
    {
        "nodes": 2,
        "pci": [{"address": NIC, "class": 0x020000, "node": 1}, {"address": DISK, "class": 0x010802, "node": 0}],
    }
)
RENDER = f"/dev/dri/by-path/pci-{NIC}-render"


def one(form: Form[tuple[Attachment, ...]], text: str) -> Attachment:
    (found,) = form.read(next(documents(f"[{text}]", "s")), "devices", None)
    return found


def device(text: str) -> Attachment:
    return one(DEVICES, text)


def mount(text: str) -> Attachment:
    return one(MOUNTS, text)


async def hints(*given: Attachment) -> list[tuple[str, str]]:
    places, config = DeviceLocator(MACHINE), pb.ContainerConfig()
    places.add(given)
    attach(config, given)
    return [(hint.source, str(hint.nodes)) for hint in await places.localities_of(config)]


async def test_a_pci_address_is_a_cdi_device() -> None:
    assert device("3B:00.0") == Attachment(address=NIC)
    assert await hints(device(NIC)) == [(NIC, "1")]


async def test_a_path_that_spells_an_address_tells_its_place() -> None:
    assert await hints(device(RENDER), mount(f"/dev/disk/by-path/pci-{DISK}-nvme-1")) == [
        (f"/dev/disk/by-path/pci-{DISK}-nvme-1", "0"),
        (RENDER, "1"),
    ]


async def test_a_path_may_be_said_to_lie_on_a_device() -> None:
    assert await hints(mount(f"{{path: /mnt/data, on: '{DISK}'}}"), device(f"{{path: /dev/nic, on: '{NIC}'}}")) == [
        ("/dev/nic", "1"),
        ("/mnt/data", "0"),
    ]


async def test_a_path_of_which_nothing_is_known_tells_nothing() -> None:
    assert await hints(device("/dev/fuse"), mount("/var/lib/data")) == []


async def test_a_mount_that_is_only_read_counts_for_nothing() -> None:
    assert await hints(mount(f"{{path: /mnt/data, on: '{DISK}', read_only: true}}")) == []


def test_a_container_sees_a_path_where_it_is_told_to() -> None:
    assert mount("{path: /mnt/a, container: /data}").container_path == "/data"
    assert mount("/mnt/a").container_path == "/mnt/a"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gpu0", "expected a PCI address"),
        ("{path: gpu0}", "path: expected a path of the host"),
        ("{on: '10:00.0'}", "path is missing"),
    ],
)
def test_a_wrong_device_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        device(text)


@pytest.mark.parametrize("text", ["data", "{path: /a, on: disk}", "{path: /a, readonly: true}"])
def test_a_wrong_mount_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        mount(text)
