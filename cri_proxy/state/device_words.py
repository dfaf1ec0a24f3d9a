"""Name the devices that a container holds, as logs, status and resource files do. Pure."""

from policies.base import Grant
from policies.device_grants import DeviceGrant


def device_words(grant: Grant) -> tuple[str, ...]:
    """Return the devices of a container: those of cost files, then those of the inventory.

    A share has its units of 100, a virtual function its PCI address: ``gpu/0``, ``gpu/1:25``, ``rdma/1@ADDRESS``.
    """
    return tuple(map(device_word, grant.devices))


def device_word(part: DeviceGrant) -> str:
    """Return the name of one device, or of a part of one.

    >>> device_word(DeviceGrant("gpu", 1, 25)), device_word(DeviceGrant("rdma", 1, 1, vf="0000:51:00.1"))
    ('gpu/1:25', 'rdma/1@0000:51:00.1')
    """
    return part.cost_name or f"{part.kind}/{part.word}"
