"""Find what names the devices behind CDI devices, for the hints of a container, and which devices are declared.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md): kind ``vendor.com/class``, devices by
name, ``containerEdits``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.cri.cdi.spec_files import SpecFiles
from cri_proxy.cri.device_names.cdi_edits import named_by_edits
from cri_proxy.cri.device_names.names import DeviceName, each_once


@dataclass(frozen=True, slots=True)
class _Spec:
    """What one file names: for each device by its name, and for every device as well. Garbage is no specification."""

    devices: Mapping[str, tuple[DeviceName, ...]]
    common: tuple[DeviceName, ...] = ()
    is_specification: bool = True


_NO_DEVICES = _Spec({}, is_specification=False)


class CdiSpecs:
    """The devices of the specification files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path) -> None:
        """``root`` is the directory that holds ``etc/`` and ``var/``."""
        self._files = SpecFiles(root, _spec)

    def named(self, asked: Sequence[tuple[str, str]]) -> tuple[DeviceName, ...]:
        """Return what names the devices behind these CDI names, in their order; unknown names give none.

        With each name comes ``via`` for what it stands for. A variable of the file is named before it.
        """
        if not asked:
            return ()
        specs = [spec for _, spec in self._files]
        found: list[DeviceName] = []
        for cdi_name, via in asked:
            # Joined here: what all devices together have may be the square of the file's length.
            spec = next((spec for spec in specs if cdi_name in spec.devices), _NO_DEVICES)
            named = (*spec.devices.get(cdi_name, ()), *spec.common)
            found += (DeviceName(n.kind, n.text, f"{n.via} of {via}" if n.via else via) for n in named)
        return each_once(found)

    def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these names that a file declares, in their order: a runtime refuses all others."""
        specs = [spec for _, spec in self._files]
        return tuple(name for name in names if any(name in spec.devices for spec in specs))

    def unreadable(self) -> tuple[str, ...]:
        """Return the paths of files that are no specifications: what devices they should declare is not known."""
        return tuple(str(path) for path, spec in self._files if not spec.is_specification)


def _spec(content: object) -> _Spec:
    if not isinstance(content, dict):
        return _NO_DEVICES
    kind, devices = content.get("kind"), content.get("devices")
    if not isinstance(kind, str) or not isinstance(devices, list):
        return _NO_DEVICES
    named = (d for d in devices if isinstance(d, dict) and isinstance(d.get("name"), str | int))
    by_name = {f"{kind}={device['name']}": named_by_edits(device) for device in named}
    return _Spec(by_name, named_by_edits(content))
