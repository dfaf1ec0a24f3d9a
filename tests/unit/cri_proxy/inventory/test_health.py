"""Which devices a report calls unhealthy, in each of its forms."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cri_proxy.inventory.file import read_inventory_text
from cri_proxy.inventory.health import DeviceHealth, lost_gpus, read_health, unknown_devices, with_health
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.pci import inventory_of
from cri_proxy.yaml_fields import DocumentError
from policies.devices import DeviceInventory
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Device

A, B = "0000:17:00.0", "0000:2a:00.0"
HEADER = (
    "pci.bus_id, uuid, ecc.errors.uncorrected.volatile.total, ecc.errors.uncorrected.aggregate.total, "
    "retired_pages.pending, remapped_rows.failure\n"
)
DEEP = f"<ecc_errors>{'<b>' * 3000}{'</b>' * 3000}</ecc_errors>"
INVENTORY = read_inventory_text(
    f"""\
gpu:
- {{minor: 0, bus: "{A}"}}
- {{minor: 1, uuid: GPU-5a}}
- {{minor: 2, health: false}}
rdma: [{{minor: 0, bus: "0000:18:00.0"}}]
""",
    "devices.yaml",
)


def problems(text: str) -> Mapping[str, str]:
    return {health.name: health.problem for health in read_health(text, "report")}


def test_lines_name_devices_by_type_and_number_by_address_or_by_uuid() -> None:
    text = (
        "# by a probe\n\ngpu 0 ok\ngpu-1: unhealthy: fan failed\n00000000:17:00.0 unhealthy\nGPU-5a healthy\nrdma 7 ok"
    )
    assert problems(text) == {"gpu 0": "", "gpu 1": "fan failed", A: "unhealthy", "gpu5a": "", "rdma 7": ""}


def test_a_reason_may_have_a_comma() -> None:
    assert problems("gpu 0 unhealthy fan failed, too hot\ngpu 1 ok") == {"gpu 0": "fan failed, too hot", "gpu 1": ""}
    assert problems(f"{A} unhealthy hot, loud\nuuid, fan.speed [%]\nGPU-5a, ERR!") == {
        A: "hot, loud",
        "gpu5a": "fan.speed: ERR!",
    }


def test_of_several_words_about_a_device_the_bad_one_counts() -> None:
    assert problems("gpu 0 unhealthy first\ngpu 0 ok\ngpu 1 ok\ngpu 1 unhealthy x") == {"gpu 0": "first", "gpu 1": "x"}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ("0, 9, No, No", ""),  # 9 in its whole life
        ("[N/A], [N/A], [N/A], [N/A]", ""),
        ("[Not Supported], , , ", ""),
        ("2, 2, No, No", "2 uncorrected memory errors (ecc.errors.uncorrected.volatile.total)"),
        ("0, 0, Yes, No", "retired_pages.pending: Yes"),
        ("0, 0, No, 1", "remapped_rows.failure: 1"),
        (
            "[GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]",
            "ecc.errors.uncorrected.volatile.total: GPU is lost",
        ),
        ("ERR!, 0, No, No", "ecc.errors.uncorrected.volatile.total: ERR!"),
    ],
)
def test_a_row_of_nvidia_smi_is_a_gpu_with_its_errors(values: str, problem: str) -> None:
    text = f"{HEADER}00000000:17:00.0, GPU-5a, {values}\n00000000:2A:00.0, GPU-7c, 0, 0, No, No\n"
    assert problems(text) == {A: problem, B: ""}


def test_units_in_the_header_and_a_uuid_alone_are_read() -> None:
    assert problems("uuid, fan.speed [%]\nGPU-5a, 30 %\n") == {"gpu5a": ""}


XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log><driver_version>570.1</driver_version>
<gpu id="00000000:17:00.0"><uuid>GPU-5a</uuid><ecc_errors><volatile><sram_uncorrectable>{sram}</sram_uncorrectable>
<dram_uncorrectable>0</dram_uncorrectable></volatile><aggregate><dram_uncorrectable>4</dram_uncorrectable></aggregate>
</ecc_errors><remapped_rows><remapped_row_pending>{pending}</remapped_row_pending></remapped_rows>
<gpu_recovery_action>{action}</gpu_recovery_action></gpu>
<gpu id="00000000:2A:00.0"><uuid>GPU-7c</uuid></gpu></nvidia_smi_log>
"""


@pytest.mark.parametrize(
    ("sram", "pending", "action", "problem"),
    [
        ("0", "No", "None", ""),
        ("N/A", "N/A", "N/A", ""),
        ("3", "No", "None", "3 uncorrected memory errors (ecc_errors.volatile.sram_uncorrectable)"),
        ("0", "Yes", "None", "remapped_rows.remapped_row_pending: Yes"),
        ("0", "No", "GPU Reset", "gpu_recovery_action: GPU Reset"),
    ],
)
def test_the_xml_of_nvidia_smi_is_read(sram: str, pending: str, action: str, problem: str) -> None:
    assert problems(XML.format(sram=sram, pending=pending, action=action)) == {A: problem, B: ""}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[ 9.1] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.", {A: "Xid 79"}),
        ("Nov 28 n1 kernel: NVRM: Xid (PCI:0000:2a:00): 48, DBE", {B: "Xid 48"}),
        ("NVRM: Xid (PCI:0000:17:00): 31, Ch 00000010, intr", {}),  # of an application
        ("Unable to determine the device handle for GPU0000:17:00.0: Unknown Error", {A: "Unknown Error"}),
        (
            "Unable to determine the device handle for GPU 0000:17:00.0: GPU is lost.  Reboot",
            {A: "GPU is lost.  Reboot"},
        ),
    ],
)
def test_messages_of_the_driver_are_read(line: str, found: Mapping[str, str]) -> None:
    assert problems(f"{line}\n") == found
    assert {health.name for health in lost_gpus(line)} == (set(found) if "handle" in line else set())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "report: an empty report: expected DEVICE ok"),
        ("gpu 0 ok\ngpu 1 maybe", "report:2: expected DEVICE ok or DEVICE unhealthy REASON"),
        ("gpu zero ok", "report:1: expected DEVICE ok"),
        ("index, temperature.gpu\n0, 40", "report:1: no column tells the GPU: query pci.bus_id or uuid too"),
        (f"{HEADER}here, there, 0, 0, No, No", "report:2: no PCI address or uuid in "),
        ("<nvidia_smi_log><gpu>", "report:1: not XML"),
        ("<log></log>", "report: no <gpu> in it"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "report: declares entities"),
        (f"<a><gpu id='{A}'>{DEEP}</gpu></a>", "report: nested too deeply"),
        ("\x1b[31m boom", "report:1: expected"),
    ],
)
def test_what_is_no_report_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_health(text, "report")
    assert str(caught.value).startswith(problem)
    assert "\x1b" not in str(caught.value)


def test_a_device_is_unhealthy_where_the_report_or_the_inventory_has_it_so() -> None:
    reported = read_health(f"{A} unhealthy fan\nGPU-5A ok\ngpu 2 ok\nrdma 0 unhealthy\n", "report")
    found = with_health(INVENTORY, reported).devices
    assert [(str(each.kind), each.minor, each.is_healthy, each.ailment) for each in found] == [
        ("gpu", 0, False, "fan"),
        ("gpu", 1, True, ""),
        ("gpu", 2, False, ""),
        ("rdma", 0, False, "unhealthy"),
    ]
    assert with_health(INVENTORY, [DeviceHealth("gpu 0")]) is INVENTORY


def partitioned() -> DeviceInventory:
    """Two GPUs of AMD's at A and B, in three partitions each: gpu 0 to 2, and 3 to 5."""
    gpus = [
        Device(
            address, 0x120000, 0x1002, 1, 0, CpuSet.parse("0-3"), partitions=(f"amdgpu_xcp_{n}", f"amdgpu_xcp_{n + 1}")
        )
        for address, n in ((A, 1), (B, 4))
    ]
    machine = replace(describe({"packages": 1, "cores": 4, "memory": "1Gi"}), devices=tuple(gpus))
    return inventory_of(machine)


def sick(inventory: DeviceInventory, report: str = "") -> list[tuple[str, str]]:
    reported = read_health(report, "report") if report else ()
    found = with_health(inventory, reported).devices
    return [(each.uuid or each.path.bus, each.ailment) for each in found if not each.is_healthy]


@pytest.mark.parametrize("report", [f"{B} unhealthy fan", "gpu 3 unhealthy fan"])
def test_what_is_wrong_with_a_gpu_is_wrong_with_all_of_its_partitions(report: str) -> None:
    assert sick(partitioned(), report) == [(name, "fan") for name in (B, "amdgpu_xcp_4", "amdgpu_xcp_5")]


@pytest.mark.parametrize("report", ["gpu 4 unhealthy fan", "amdgpu_xcp_4 unhealthy: fan"])
def test_what_is_wrong_with_one_partition_is_wrong_with_it_alone(report: str) -> None:
    assert sick(partitioned(), report) == [("amdgpu_xcp_4", "fan")]


def test_a_file_that_has_a_gpu_as_unhealthy_has_its_partitions_so() -> None:
    listed = read_inventory_text(f"gpu: [{{minor: 3, bus: '{B}', health: false}}]", "devices.yaml")
    joined = with_scanned(listed, partitioned())
    assert sick(joined) == [(B, ""), *((f"amdgpu_xcp_{n}", f"the GPU {B} is unhealthy") for n in (4, 5))]
    assert sick(joined, "gpu 3 unhealthy hot")[1:] == [("amdgpu_xcp_4", "hot"), ("amdgpu_xcp_5", "hot")]
    alone = read_inventory_text(f"gpu: [{{minor: 5, uuid: amdgpu_xcp_5, part_of: '{B}', health: false}}]", "d.yaml")
    assert sick(with_scanned(alone, partitioned())) == [("amdgpu_xcp_5", "")]


def test_a_gpu_that_is_listed_by_its_partitions_alone_is_known_by_its_address() -> None:
    text = f"gpu: [{{minor: 0, uuid: MIG-5a, part_of: '{A}'}}, {{minor: 1, uuid: MIG-7c, part_of: '{A}'}}]"
    listed = read_inventory_text(text, "devices.yaml")
    assert sick(listed, f"{A} unhealthy lost") == [("MIG-5a", "lost"), ("MIG-7c", "lost")]
    assert sick(listed, "MIG-7c unhealthy stuck") == [("MIG-7c", "stuck")]


def test_a_mig_instance_is_no_device_and_stands_among_what_is_wrong_with_its_gpu() -> None:
    listed = read_inventory_text("gpu: [{minor: 0, parts: [MIG-5a, MIG-7C]}, {minor: 1, parts: [MIG-9e]}]", "d.yaml")
    reported = read_health("MIG-7c unhealthy stuck", "report")
    assert [each.ailment for each in with_health(listed, reported).devices] == ["MIG-7C: stuck", ""]


def test_a_number_that_the_inventory_lacks_is_named_and_an_address_of_another_device_is_not() -> None:
    assert unknown_devices(INVENTORY, read_health(f"gpu 9 ok\ngpu 0 ok\n{B} ok", "report")) == ("gpu 9",)
