"""Find CDI devices and the host device nodes behind them, in the specification files of /etc/cdi and /var/run/cdi.

A device plugin or DRA driver writes specification files; the runtime adds the devices in them to the container. Only
the device nodes are read here; files of /var/run/cdi go before those of /etc/cdi. Source: the CDI specification
(cncf-tags/container-device-interface, SPEC.md): kind ``vendor.com/class``, devices by name,
``containerEdits.deviceNodes`` with ``hostPath`` or ``path``.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain

DIRECTORIES = ("var/run/cdi", "etc/cdi")
# Far above what drivers write; only root may write there, so that this bounds accidents.
MAX_FILES = 256
MAX_FILE_BYTES = 4 << 20

_Stamp = tuple[int, int]  # modification time in ns, size
_YAML = Dialect(MAX_FILE_BYTES, max_depth=32, max_nodes=500_000, has_aliases=True)


@dataclass(frozen=True, slots=True)
class _Spec:
    """Host paths in one file: of each device by its name, and those that every device has as well."""

    devices: Mapping[str, tuple[str, ...]]
    common: tuple[str, ...] = ()


_NO_DEVICES = _Spec({})


def cdi_name(device: str) -> str:
    """Return the CDI name of a device of a cost file: its type is the kind, as ``vendor.com/class``.

    >>> cdi_name("example.com/gpu/gpu0")
    'example.com/gpu=gpu0'
    """
    kind, _, name = device.rpartition("/")
    return f"{kind}={name}"


class CdiSpecs:
    """The specification files below a root, read again when they change. Reads files: not on the loop."""

    def __init__(self, root: Path) -> None:
        """``root`` is the directory that holds ``etc/`` and ``var/``."""
        self._root = root
        self._read: dict[Path, tuple[_Stamp, _Spec]] = {}

    def device_nodes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return host paths of the device nodes behind these names, in their order; unknown names give none."""
        if not names:
            return ()
        specs = [spec for path in self._files() if (spec := self._spec_in(path)).devices]
        found: list[str] = []
        for name in names:
            # Joined here: the paths of all devices together may be the square of the file's length.
            spec = next((spec for spec in specs if name in spec.devices), _NO_DEVICES)
            found.extend((*spec.devices.get(name, ()), *spec.common))
        return tuple(dict.fromkeys(found))

    def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these names that a file declares, in their order: a runtime refuses all others."""
        specs = [spec for path in self._files() if (spec := self._spec_in(path)).devices]
        return tuple(name for name in names if any(name in spec.devices for spec in specs))

    def _files(self) -> Iterator[Path]:
        for directory in DIRECTORIES:
            try:
                files = sorted(p for p in (self._root / directory).iterdir() if p.suffix in (".json", ".yaml"))
            except OSError:
                continue
            yield from files[:MAX_FILES]

    def _spec_in(self, path: Path) -> _Spec:
        """Return the devices of one file; none when it cannot be read or understood."""
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            known = self._read.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            spec = _spec(_content(path)) if stat.S_ISREG(found.st_mode) else _NO_DEVICES
        except OSError:
            return _NO_DEVICES
        self._read[path] = (stamp, spec)
        return spec


def _content(path: Path) -> bytes:
    """Return the content of a regular file, empty for one that is too long. Raises OSError."""
    # The file may have been replaced meanwhile: without O_NONBLOCK a FIFO would wait for its writer (fifo(7)).
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        # No more than it has: Python allocates at once what it is asked to read.
        fits = stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES
        return file.read(found.st_size) if fits else b""


def _spec(content: bytes) -> _Spec:
    spec = _parsed(content)
    if not isinstance(spec, dict):
        return _NO_DEVICES
    kind, devices = spec.get("kind"), spec.get("devices")
    if not isinstance(kind, str) or not isinstance(devices, list):
        return _NO_DEVICES
    named = (d for d in devices if isinstance(d, dict) and isinstance(d.get("name"), str | int))
    return _Spec({f"{kind}={device['name']}": _paths(device) for device in named}, _paths(spec))


def _parsed(content: bytes) -> object:
    """Parse JSON, else YAML; None when it is neither."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        try:
            value = plain(parse_tree(content.decode(), _YAML))
        except (YamlError, ValueError):
            return None
    return value


def _paths(holder: Mapping[object, object]) -> tuple[str, ...]:
    """Return host paths of the device nodes in the ``containerEdits`` of a device or of the whole file."""
    edits = holder.get("containerEdits")
    nodes = edits.get("deviceNodes") if isinstance(edits, dict) else None
    if not isinstance(nodes, list):
        return ()
    paths = (node.get("hostPath") or node.get("path") for node in nodes if isinstance(node, dict))
    return tuple(path for path in paths if isinstance(path, str) and path.startswith("/"))
