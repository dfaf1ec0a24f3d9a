"""CDI specifications: the devices that files declare, and what names them for the hints of a container. Pure.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md): kind ``vendor.com/class``, devices by
name, ``containerEdits``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.cri.device_names.cdi_edits import named_by_edits
from cri_proxy.cri.device_names.names import DeviceName, each_once, pci_address

Fields = Mapping[object, object]


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A file as JSON has it, and its ``devices`` by CDI name: several where a name stands there more than once."""

    content: Fields
    devices: Mapping[str, tuple[Fields, ...]]

    @property
    def is_specification(self) -> bool:
        """Return whether it is one at all."""
        return bool(self.content)

    def device(self, name: str) -> tuple[Fields, ...]:
        """Return the device of this name, () where there is none; of several the last, which no container gets.

        CDI's libraries refuse a file with a name that stands twice ("invalid spec, multiple device"), and
        ``resolve`` refuses such a device: what it says here counts for hints and statements alone.
        """
        return self.devices.get(name, ())[-1:]


Specs = Sequence[tuple[str, CdiSpec]]
"""The files of a node by path, those of the stronger directory first."""

NO_SPECIFICATION: Final = CdiSpec({}, {})


def cdi_spec(content: object) -> CdiSpec:
    """Return the devices of one file; none for what is no specification at all."""
    fields = content if isinstance(content, dict) else {}
    kind, devices = fields.get("kind"), fields.get("devices")
    if not isinstance(kind, str) or not isinstance(devices, list):
        return NO_SPECIFICATION
    named: dict[str, tuple[Fields, ...]] = {}
    for device in devices:
        if isinstance(device, dict) and isinstance(device.get("name"), str | int):
            name = f"{kind}={device['name']}"
            named[name] = (*named.get(name, ()), device)
    return CdiSpec(fields, named)


def declaring(specs: Specs, name: str) -> CdiSpec:
    """Return the first file that declares this device; NO_SPECIFICATION where none does."""
    return next((spec for _, spec in specs if name in spec.devices), NO_SPECIFICATION)


def behind(specs: Specs, names: Iterable[str]) -> Mapping[str, tuple[DeviceName, ...]]:
    """Return what names the hardware of each of these CDI devices: its own edits, and other names of the same device.

    NVIDIA's toolkit declares each GPU by its index and by its identifier, if so told, with the same device nodes.
    """
    return {name: _behind(declaring(specs, name), name) for name in names}


def _behind(spec: CdiSpec, name: str) -> tuple[DeviceName, ...]:
    own = [each for holder in spec.device(name) for each in named_by_edits(holder)]
    paths = _paths(own)
    others = ((each.partition("=")[2], spec.device(each)) for each in spec.devices if paths and each != name)
    ids = (text for text, (holder,) in others if _is_identifier(text) and _paths(named_by_edits(holder)) == paths)
    return each_once((*own, *(DeviceName("gpu", text) for text in ids)))


def _paths(names: Iterable[DeviceName]) -> frozenset[str]:
    return frozenset(name.text for name in names if name.kind == "path")


def _is_identifier(text: str) -> bool:
    return pci_address(text) is not None or text.lower().startswith("gpu-")


def declared(specs: Specs, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of these names that a file declares, in their order."""
    return tuple(name for name in names if declaring(specs, name).is_specification)


def named(specs: Specs, asked: Iterable[tuple[str, str]]) -> tuple[DeviceName, ...]:
    """Return the names of the devices behind these CDI names, in their order; unknown names have none.

    With each name comes ``via`` for what it stands for. A variable of the file is named before it.
    """
    found: list[DeviceName] = []
    for cdi_name, via in asked:
        spec = declaring(specs, cdi_name)
        for holder in (*spec.device(cdi_name), spec.content):
            found += (DeviceName(n.kind, n.text, f"{n.via} of {via}" if n.via else via) for n in named_by_edits(holder))
    return each_once(found)
