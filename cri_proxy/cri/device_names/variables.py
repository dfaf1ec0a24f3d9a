"""Read the devices that device plugins name in a container's variables. Pure.

Sources: k8snetworkplumbingwg/sriov-network-device-plugin (``PCIDEVICE_RESOURCE`` with the ids of its devices, and
``PCIDEVICE_RESOURCE_INFO`` with JSON by these ids), KubeVirt (``PCI_RESOURCE_NAME``, ``MDEV_PCI_RESOURCE_NAME``),
NVIDIA's container toolkit (``NVIDIA_VISIBLE_DEVICES``).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cri_proxy.cri.device_names.names import MAX_NAMES, DeviceName, Named, pci_address

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
MAX_CHARS: Final = 64 << 10
"""Of all these variables of a container, with room for the JSON of a hundred devices and more."""

_MEDIATED: Final = "MDEV_PCI_RESOURCE_"
_PCI: Final = ("PCIDEVICE_", "PCI_RESOURCE_")
VARIABLE_PREFIXES: Final = (VISIBLE_DEVICES, _MEDIATED, *_PCI)
_NO_GPU: Final = frozenset({"", "none", "void"})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# MODULE.NAME.NUMBER, as mlx5_core.sf.4: Documentation/driver-api/auxiliary_bus.rst.
_AUXILIARY: Final = re.compile(r"[\w-]{1,64}\.[\w-]{1,32}\.\d{1,9}", re.ASCII)


def named_in_variables(variables: Mapping[str, str]) -> Named:
    """Return the devices that these variables name, within MAX_NAMES and MAX_CHARS; other variables name none.

    >>> named_in_variables({"PCIDEVICE_VENDOR_COM_NIC": "0000:3b:02.1"}).names
    (DeviceName(kind='pci', text='0000:3b:02.1', via='PCIDEVICE_VENDOR_COM_NIC'),)
    """
    found: dict[tuple[str, str], DeviceName] = {}
    left_chars = MAX_CHARS
    problems: tuple[str, ...] = ()
    for variable, value in variables.items():
        left_chars -= len(value)
        names = _named_by(variable, value) if left_chars >= 0 else ()
        for name in names:
            found.setdefault((name.kind, name.text), name)
        if left_chars < 0 or len(found) > MAX_NAMES:
            most = f"{MAX_NAMES} devices in {MAX_CHARS} characters"
            problems = (f"no locality of all devices of {variable}: the variables of a container name {most} at most",)
            break
    return Named(tuple(found.values())[:MAX_NAMES], problems)


def named_addresses(value: str, via: str) -> tuple[DeviceName, ...]:
    """Return the PCI addresses that this text is a list of; none where anything in it is none."""
    found = [pci_address(item.strip()) for item in value[:MAX_CHARS].split(",")]
    known = [address for address in found if address is not None]
    return tuple(DeviceName("pci", address, via) for address in known) if len(known) == len(found) else ()


def _named_by(variable: str, value: str) -> Iterator[DeviceName]:
    items = (item.strip() for item in (_keys(value) if value.startswith("{") else value.split(",")))
    if variable == VISIBLE_DEVICES:
        texts = list(items)
        if "all" not in map(str.lower, texts):  # every GPU there is says nothing about a place
            yield from (DeviceName("gpu", text, variable) for text in texts if text.lower() not in _NO_GPU)
    elif variable.startswith(_MEDIATED):
        yield from (DeviceName("mediated", text.lower(), variable) for text in items if _UUID.fullmatch(text))
    elif variable.startswith(_PCI):
        for text in items:
            address = pci_address(text)
            if address is not None:
                yield DeviceName("pci", address, variable)
            elif _AUXILIARY.fullmatch(text):
                yield DeviceName("auxiliary", text, variable)


def _keys(value: str) -> Sequence[str]:
    """Return the keys of a JSON object, the ids of devices; none where it does not parse."""
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return ()
    return [str(key) for key in parsed] if isinstance(parsed, dict) else ()
