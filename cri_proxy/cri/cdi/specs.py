"""Find the host device nodes behind CDI devices, for the hints of a container, and which devices are declared.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md): kind ``vendor.com/class``, devices by
name, ``containerEdits.deviceNodes`` with ``hostPath`` or ``path``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.cri.cdi.spec_files import SpecFiles


@dataclass(frozen=True, slots=True)
class _Spec:
    """Host paths in one file: of each device by its name, and those that every device has as well."""

    devices: Mapping[str, tuple[str, ...]]
    common: tuple[str, ...] = ()


_NO_DEVICES = _Spec({})


class CdiSpecs:
    """The devices of the specification files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path) -> None:
        """``root`` is the directory that holds ``etc/`` and ``var/``."""
        self._files = SpecFiles(root, _spec)

    def device_nodes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return host paths of the device nodes behind these names, in their order; unknown names give none."""
        if not names:
            return ()
        specs = self._with_devices()
        found: list[str] = []
        for name in names:
            # Joined here: the paths of all devices together may be the square of the file's length.
            spec = next((spec for spec in specs if name in spec.devices), _NO_DEVICES)
            found.extend((*spec.devices.get(name, ()), *spec.common))
        return tuple(dict.fromkeys(found))

    def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these names that a file declares, in their order: a runtime refuses all others."""
        specs = self._with_devices()
        return tuple(name for name in names if any(name in spec.devices for spec in specs))

    def _with_devices(self) -> list[_Spec]:
        return [spec for _, spec in self._files if spec.devices]


def _spec(content: object) -> _Spec:
    if not isinstance(content, dict):
        return _NO_DEVICES
    kind, devices = content.get("kind"), content.get("devices")
    if not isinstance(kind, str) or not isinstance(devices, list):
        return _NO_DEVICES
    named = (d for d in devices if isinstance(d, dict) and isinstance(d.get("name"), str | int))
    return _Spec({f"{kind}={device['name']}": _paths(device) for device in named}, _paths(content))


def _paths(holder: Mapping[object, object]) -> tuple[str, ...]:
    """Return host paths of the device nodes in the ``containerEdits`` of a device or of the whole file."""
    edits = holder.get("containerEdits")
    nodes = edits.get("deviceNodes") if isinstance(edits, dict) else None
    if not isinstance(nodes, list):
        return ()
    paths = (node.get("hostPath") or node.get("path") for node in nodes if isinstance(node, dict))
    return tuple(path for path in paths if isinstance(path, str) and path.startswith("/"))
