"""Resolve CDI devices by the specification files, for a runtime that does not: what the container gets, or why not.

Source: the CDI specification and its reference implementation. A device of the stronger directory hides one of the
same name; two in one directory are in conflict, and neither can be had. The edits of a whole file come before those of
the first of its devices, once, then each device's own; later ones replace earlier ones.
"""

import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from os import major, minor
from pathlib import Path
from typing import Final

from cri_proxy.cri.cdi.conversion import Given, HostFile, clean_path, express, paths_of
from cri_proxy.cri.cdi.edits import CdiEdits, CdiProblem, known_fields, read_edits
from cri_proxy.cri.cdi.names import is_device, is_kind
from cri_proxy.cri.cdi.spec_files import SpecFiles
from cri_proxy.foreign_text import SENTENCE_BYTES, admit

# 0.x and 1.x: what a later one adds to them is refused field by field.
_VERSION: Final = re.compile(r"v?[01]\.\d{1,4}\.\d{1,4}", re.ASCII)
# All that one container gets: far above what vendors have, and far below what a request may hold.
MAX_EDITS: Final = 4096
_SPEC: Final = ("cdiVersion", "kind", "annotations", "devices", "containerEdits")
_DEVICE: Final = ("name", "annotations", "containerEdits")


@dataclass(frozen=True, slots=True)
class ResolvedDevices:
    """What a container gets for the CDI devices ``names``. ``problem`` is why it gets none of them, '' = it gets all.

    Names that no file declares are not among them.
    """

    names: tuple[str, ...]
    given: Given = Given()  # noqa: RUF009 - frozen
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Declaring:
    """One file: its devices by name and its own edits, as JSON has them. ``problem`` makes all of it invalid."""

    devices: Mapping[str, tuple[object, ...]]
    common: object = None
    problem: str = ""


_NOTHING: Final = _Declaring({})


@dataclass(frozen=True, slots=True)
class _DeclaredDevice:
    """A device and the file that declares it."""

    name: str
    path: str
    spec: _Declaring


class Resolver:
    """Resolves devices by the files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path) -> None:
        """``root`` is the directory that holds ``dev/``, ``etc/`` and ``var/``."""
        self._root = root
        self._files = SpecFiles(root, _declaring)

    def resolve(self, names: Sequence[str]) -> ResolvedDevices:
        """Return what a container with these devices gets."""
        by_directory = [list(group) for _, group in groupby(self._files, key=lambda item: item[0].parent)]
        found: list[_DeclaredDevice] = []
        try:
            for name in dict.fromkeys(names):
                declaring = self._declaring_files(name, by_directory)
                if declaring is not None:
                    found.append(declaring)
            given = self._given(found)
        except CdiProblem as error:
            return ResolvedDevices((), problem=admit(error.text, SENTENCE_BYTES))
        return ResolvedDevices(tuple(device.name for device in found), given)

    def _declaring_files(
        self, name: str, by_directory: Iterable[Sequence[tuple[Path, _Declaring]]]
    ) -> _DeclaredDevice | None:
        """Return the declaration of this device in the strongest directory that has one. Raises CdiProblem."""
        for files in by_directory:
            places = [(path, spec) for path, spec in files for _ in spec.devices.get(name, ())]
            if len(places) > 1:
                both = " and ".join(self._shown(path) for path, _ in places[:2])
                raise CdiProblem(f"{name} is declared twice, in {both}: neither counts until one is removed")
            for path, spec in places:
                return _DeclaredDevice(name, self._shown(path), spec)
        return None

    def _given(self, devices: Sequence[_DeclaredDevice]) -> Given:
        """Return all that these devices bring. Raises CdiProblem that names the device."""
        parts: list[Given] = []
        seen: set[str] = set()
        for device in devices:
            try:
                if device.spec.problem:
                    raise CdiProblem(device.spec.problem)
                if not is_device(device.name.partition("=")[2]):
                    raise CdiProblem("has a name that CDI does not allow")
                if device.path not in seen:
                    parts.append(self._expressed(read_edits(device.spec.common)))
                parts.append(self._expressed(_edits_of(device.spec.devices[device.name][0])))
            except CdiProblem as error:
                raise CdiProblem(f"{device.name} ({device.path}) {error.text}") from None
            seen.add(device.path)
        return _joined(parts)

    def _expressed(self, edits: CdiEdits) -> Given:
        if sum(map(len, (edits.variables, edits.nodes, edits.mounts, edits.group_ids))) > MAX_EDITS:
            raise CdiProblem(f"has more than {MAX_EDITS} edits")
        return express(edits, {path: file for path in paths_of(edits) if (file := self._host_file(path)) is not None})

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

    def _shown(self, path: Path) -> str:
        return f"/{path.relative_to(self._root)}"


def _declaring(content: object) -> _Declaring:
    """Return the devices of one file; none for what is no specification at all."""
    if not isinstance(content, dict):
        return _NOTHING
    kind, devices = content.get("kind"), content.get("devices")
    if not isinstance(kind, str) or not isinstance(devices, list):
        return _NOTHING
    named: dict[str, tuple[object, ...]] = {}
    for device in devices:
        if isinstance(device, dict) and isinstance(device.get("name"), str | int):
            name = f"{kind}={device['name']}"
            named[name] = (*named.get(name, ()), device)
    try:
        fields = _valid(content, kind)
    except CdiProblem as error:
        return _Declaring(named, problem=error.text)
    return _Declaring(named, fields.get("containerEdits"))


def _valid(content: object, kind: str) -> Mapping[str, object]:
    """Return the fields of a file. Raises CdiProblem for what makes all of it invalid."""
    fields = known_fields(content, "the specification", _SPEC)
    version = fields.get("cdiVersion")
    if not is_kind(kind):
        raise CdiProblem(f"has the kind {kind!r}, which is not VENDOR/CLASS as CDI allows it")
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        raise CdiProblem(f"has cdiVersion {version!r}, and cri-proxy reads 0.x.y and 1.x.y")
    return fields


def _edits_of(device: object) -> CdiEdits:
    """Return what this device of a file changes. Raises CdiProblem."""
    edits = read_edits(known_fields(device, "devices", _DEVICE).get("containerEdits"))
    if edits == CdiEdits():
        raise CdiProblem("has no containerEdits, which CDI asks of every device")
    return edits


def _joined(parts: Iterable[Given]) -> Given:
    """Return these as one; of what has the same name or place in the container the last stays, in its place."""
    parts = list(parts)
    variables = {name: value for part in parts for name, value in part.variables}
    nodes = {clean_path(node.container_path): node for part in parts for node in part.nodes}
    mounts = {clean_path(mount.container_path): mount for part in parts for mount in part.mounts}
    groups = dict.fromkeys(number for part in parts for number in part.group_ids)
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    return Given(tuple(variables.items()), tuple(nodes.values()), tuple(mounts.values()), tuple(groups), tuple(notes))


_resolver = cache(Resolver)  # per process: specification files are parsed again only when they change


def resolve_devices(root: Path, names: Sequence[str]) -> ResolvedDevices:
    """Return what a container with these CDI devices gets. For helper processes."""
    return _resolver(root).resolve(names)
