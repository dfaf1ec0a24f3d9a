"""The words for a PCI class code. Source: PCI Code and ID Assignment Specification, section 1."""

from typing import Final

_BASES: Final = {
    0x00: "device",
    0x01: "storage controller",
    0x02: "network controller",
    0x03: "display controller",
    0x04: "multimedia device",
    0x05: "memory controller",
    0x06: "bridge",
    0x07: "communication controller",
    0x08: "system peripheral",
    0x09: "input device",
    0x0A: "docking station",
    0x0B: "processor",
    0x0C: "serial bus controller",
    0x0D: "wireless controller",
    0x0E: "intelligent I/O controller",
    0x0F: "satellite controller",
    0x10: "encryption controller",
    0x11: "signal processing controller",
    0x12: "processing accelerator",
    0x13: "instrumentation",
    0x40: "co-processor",
}
"""By the base class, the highest byte."""

_SUBCLASSES: Final = {
    0x0100: "SCSI controller",
    0x0104: "RAID controller",
    0x0106: "SATA controller",
    0x0107: "SAS controller",
    0x0108: "NVMe controller",
    0x0200: "Ethernet controller",
    0x0207: "InfiniBand controller",
    0x0300: "VGA controller",
    0x0302: "3D controller",
    0x0403: "audio device",
    0x0502: "CXL memory device",
    0x0806: "IOMMU",
    0x0C03: "USB controller",
    0x0C05: "SMBus controller",
    0x0C06: "InfiniBand controller",
}
"""By base class and subclass, where that is the better-known word."""


def class_words(class_code: int) -> str:
    """Return the class of a device in words, by its code of 24 bits.

    >>> class_words(0x020000), class_words(0x030200), class_words(0x0880FE), class_words(0xFF0000)
    ('Ethernet controller', '3D controller', 'system peripheral', 'unassigned class')
    """
    return _SUBCLASSES.get(class_code >> 8) or _BASES.get(class_code >> 16, "unassigned class")
