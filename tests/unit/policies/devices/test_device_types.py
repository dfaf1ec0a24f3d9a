"""Which PCI functions are there to compute, by class and vendor; what scans make of them is tested with the scan."""

import pytest

from policies.devices import is_accelerator, type_of
from sysfs.cpuset import CpuSet
from sysfs.model import Device

NVIDIA, AMD, INTEL, ASPEED, QEMU, XILINX = 0x10DE, 0x1002, 0x8086, 0x1A03, 0x1234, 0x10EE


def function(code: int, vendor: int) -> Device:
    return Device("0000:05:00.0", code << 8, vendor, 0x74A1, 0, CpuSet.parse("0"))


@pytest.mark.parametrize("vendor", [NVIDIA, AMD, INTEL, ASPEED, QEMU, XILINX])
@pytest.mark.parametrize("code", [0x0300, 0x0301, 0x0302, 0x0380, 0x1200, 0x0200, 0x0108, 0x1180])
def test_a_display_controller_computes_if_it_can_be_no_console(code: int, vendor: int) -> None:
    """CPUs are kept beside 3D controllers, processing accelerators and all that NVIDIA calls a display."""
    expected = code in (0x0302, 0x1200) or (code >> 8 == 0x03 and vendor == NVIDIA)
    assert is_accelerator(function(code, vendor)) is expected


def test_a_gpu_by_type_may_be_a_console_of_its_board() -> None:
    integrated = function(0x0300, AMD)
    assert (type_of(integrated), is_accelerator(integrated)) == ("gpu", False)
