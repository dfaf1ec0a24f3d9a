"""Read CDI specification files: of /var/run/cdi before those of /etc/cdi, each again when it changes.

A device plugin or DRA driver writes them; the runtime adds the devices in them to containers. Source: the CDI
specification (cncf-tags/container-device-interface, SPEC.md), which names both directories and the two formats.
"""

import json
import pickle
import stat
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from os import major, minor
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain
from cri_proxy.cri.cdi.conversion import HostFile
from cri_proxy.cri.cdi.resolve import ResolvedDevices, resolve
from cri_proxy.cri.cdi.specs import NO_SPECIFICATION, CdiSpec, behind, cdi_spec, declared, named
from cri_proxy.cri.cdi.variables import AddedVariables, adds_variables, variables_of
from cri_proxy.cri.device_names.names import DeviceName
from cri_proxy.foreign_files.beneath import FileBeneath, FileRefused, open_beneath
from cri_proxy.in_force.file_cache import ParsedFiles
from cri_proxy.in_force.state_file import StateFile

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DIRECTORIES = ("var/run/cdi", "etc/cdi")
_SUFFIXES: Final = (".json", ".yaml")
# Some drivers write a file for each ResourceClaim. Only root may write there: this bounds accidents.
MAX_FILES = 2048
MAX_FILE_BYTES = 4 << 20
MAX_PACKED_BYTES = 512 << 10
MAX_CLAIM_KINDS = 64
MAX_KIND_CHARACTERS = 320  # a domain, a slash and a class

_YAML = Dialect(MAX_FILE_BYTES, max_depth=32, max_nodes=500_000, has_aliases=True)


class CdiFiles:
    """The specification files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path) -> None:
        """``root`` is the directory that holds ``dev/``, ``etc/`` and ``var/``."""
        self._root = root
        self._files = ParsedFiles(_parsed)
        self._packed_stamps: Mapping[Path, tuple[int, ...]] = {}
        self._packed = self._taken = b""

    def packed(self) -> bytes:
        """Return what was parsed of these files, for ``take`` in another process; b"" where that is too much."""
        stamps = {path: stamp for path, (stamp, _) in self._files.known.items()}
        if stamps != self._packed_stamps:
            packed = zlib.compress(pickle.dumps(self._files.known), 1)
            self._packed_stamps, self._packed = stamps, packed if len(packed) <= MAX_PACKED_BYTES else b""
        return self._packed

    def take(self, packed: bytes) -> None:
        """Know what another process has parsed, beside what this one has."""
        if packed not in (b"", self._packed, self._taken):
            self._taken = packed
            self._files.known = pickle.loads(zlib.decompress(packed)) | self._files.known

    def specs(self) -> tuple[tuple[str, CdiSpec], ...]:
        """Return what each file says, the stronger directory first; a file that cannot be opened is left out."""
        found: dict[Path, CdiSpec] = {}
        for place in DIRECTORIES:
            with suppress(OSError), open_beneath(self._root / place) as directory:
                names = sorted(name for name in directory.names() if Path(name).suffix in _SUFFIXES)
                for path in (self._root / place / name for name in names[:MAX_FILES]):
                    with suppress(OSError):
                        try:
                            found[path] = self._files.of(directory, path)
                        except FileRefused:
                            found[path] = NO_SPECIFICATION
        if not self._files.known.keys() <= found.keys():  # files of claims come and go with their pods
            self._files.keep(found)
        return tuple((f"/{path.relative_to(self._root)}", spec) for path, spec in found.items())

    def named(self, asked: Sequence[tuple[str, str]]) -> tuple[DeviceName, ...]:
        """Return what names the devices behind these CDI names, as ``specs.named``."""
        return named(self.specs(), asked) if asked else ()

    def behind(self, names: Sequence[str]) -> Mapping[str, tuple[DeviceName, ...]]:
        """Return what names the hardware of each of these CDI devices, as ``specs.behind``."""
        return behind(self.specs(), names)

    def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these names that a file declares, in their order: a runtime refuses all others."""
        return declared(self.specs(), names)

    def unreadable(self) -> tuple[str, ...]:
        """Return the paths of files that are no specifications: what devices they should declare is not known."""
        return tuple(path for path, spec in self.specs() if not spec.is_specification)

    def variables(self, names: Sequence[str], prefix: str) -> AddedVariables:
        """Return the variables with this prefix that these CDI devices add, as ``variables_of``."""
        return variables_of(self.specs(), names, prefix)

    def with_variables(self, prefix: str) -> tuple[str, ...]:
        """Return the files of which a device adds variables with this prefix."""
        return tuple(path for path, spec in self.specs() if adds_variables(spec, prefix))

    def resolve(self, names: Sequence[str]) -> ResolvedDevices:
        """Return what a container with these devices gets."""
        return resolve(self.specs(), names, self._host_file)

    def _host_file(self, path: str) -> HostFile | None:
        """Return what the host has at this path, links followed as the runtime does."""
        try:
            found = (self._root / path.lstrip("/")).stat()
        except (OSError, ValueError):
            return None
        kinds = {stat.S_IFBLK: "b", stat.S_IFCHR: "c", stat.S_IFDIR: "d"}
        number = (major(found.st_rdev), minor(found.st_rdev))
        kind = kinds.get(stat.S_IFMT(found.st_mode), "")
        return HostFile(kind, number, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def specs_in(directory: Path) -> Mapping[str, CdiSpec]:
    """Return what each file of this directory says, by name; one that cannot be read is no specification. Blocks.

    Raises OSError where the directory cannot be listed.
    """
    files, found = ParsedFiles(_parsed), dict[str, CdiSpec]()
    with open_beneath(directory) as opened:
        for name in sorted(name for name in opened.names() if Path(name).suffix in _SUFFIXES):
            try:
                found[name] = files.of(opened, directory / name)
            except (FileRefused, OSError):
                found[name] = NO_SPECIFICATION
    return found


_cdi_files: Final = cache(CdiFiles)  # of one process: each file is parsed again only when it changes


def ask_cdi(root: Path, packed: bytes, question: Callable[[CdiFiles, *Ts], T], *args: *Ts) -> tuple[T, bytes]:
    """Return the answer of the files below this root, and what was parsed of them by now, as ``packed`` before."""
    files = _cdi_files(root)
    # Helpers end after seconds without work: what one has parsed is kept by the daemon for the next.
    files.take(packed)
    return question(files, *args), files.packed()


def _parsed(file: FileBeneath, path: Path) -> CdiSpec:
    """Parse JSON, else YAML; no specification where it is neither, or too long. Raises OSError."""
    content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return NO_SPECIFICATION
    try:
        return cdi_spec(json.loads(content))
    except (ValueError, RecursionError):
        try:
            return cdi_spec(plain(parse_tree(content.decode(), _YAML)))
        except (YamlError, ValueError):
            return NO_SPECIFICATION


def _written(kinds: frozenset[str]) -> Mapping[str, object]:
    return {"kinds": sorted(kinds)}


def _kinds(document: Mapping[str, object]) -> frozenset[str]:
    kinds = document.get("kinds")
    if not isinstance(kinds, list) or len(kinds) > MAX_CLAIM_KINDS or not all(isinstance(kind, str) for kind in kinds):
        raise ValueError
    return frozenset(kinds)


CLAIM_KINDS: Final = StateFile("claim-kinds.json", 1 << 20, _written, _kinds)
"""The kinds of CDI devices that have brought claims, by name."""
