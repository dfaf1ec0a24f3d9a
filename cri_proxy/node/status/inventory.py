"""Frozen values of the inventory of devices in the status: the file that lists them, and what is held of each."""

from dataclasses import dataclass, field

from cri_proxy.codec import FLAT
from cri_proxy.in_force.report import FilesReport
from policies.device_grants import WHOLE


@dataclass(frozen=True, slots=True)
class InventoryFileView:
    """The inventory ``file``, '' where none is read; ``scans``: devices that are found on PCI are given out too.

    ``disagreements`` are sentences about devices of which two sources state different facts. ``shows_gpus``: there are
    GPUs of NVIDIA's, which containers without one may see by their own NVIDIA_VISIBLE_DEVICES.
    """

    file: str
    scans: bool
    report: FilesReport = field(metadata=FLAT)
    disagreements: tuple[str, ...] = ()
    shows_gpus: bool = False
    health_problem: str = ""


@dataclass(frozen=True, slots=True)
class HolderView:
    """A container that holds a device, or ``amount`` of its 100 units; ``is_given``: others chose it.

    ``exclusive`` is what it keeps others from: the same device, or the PCIe (``ExclusivePolicy``), '' where neither.
    Behind its name stands why it has no grant, where it has none: it has ended, or is left alone.
    """

    container: str
    amount: int
    vf: str = ""
    is_given: bool = False
    exclusive: str = ""


@dataclass(frozen=True, slots=True)
class InventoryDeviceView:
    """A device of the inventory, or one that is held and ``is_missing`` there.

    ``free`` is what is left of its 100 units (of a GPU the smaller of core and memory), ``free_vfs`` of its ``vfs``.
    ``ailment`` is why it is unhealthy, as far as a source tells that.
    """

    type: str
    minor: int
    numa_node: int | None = None
    pcie: str = ""
    is_healthy: bool = True
    is_missing: bool = False
    free: int = WHOLE
    vfs: int = 0
    free_vfs: int = 0
    holders: tuple[HolderView, ...] = ()
    ailment: str = ""


def state_of(device: InventoryDeviceView) -> str:
    """Return the state of a device: missing, held, unhealthy, cut (into MIG instances, none of them held) or free."""
    if device.is_missing:
        return "missing"
    if device.holders:
        return "held"
    if not device.is_healthy:
        return "unhealthy"
    return "free" if device.free else "cut"
