"""Resolve CDI devices by specifications, for a runtime that does not: what the container gets, or why not. Pure.

Source: the CDI specification and its reference implementation. A device of the stronger directory hides one of the
same name; two in one directory are in conflict, and neither can be had. The edits of a whole file come before those of
the first of its devices, once, then each device's own; later ones replace earlier ones.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from cri_proxy.cri.cdi.conversion import Given, HostFile, clean_path, express, paths_of
from cri_proxy.cri.cdi.edits import CdiEdits, CdiProblem, known_fields, read_edits
from cri_proxy.cri.cdi.names import is_device, is_kind
from cri_proxy.cri.cdi.specs import CdiSpec, Fields, Specs
from cri_proxy.foreign_text import SENTENCE_BYTES, admit

# 0.x and 1.x: what a later one adds to them is refused field by field.
_VERSION: Final = re.compile(r"v?[01]\.\d{1,4}\.\d{1,4}", re.ASCII)
# All that one container gets: far above what vendors have, and far below what a request may hold.
MAX_EDITS: Final = 4096
_SPEC: Final = ("cdiVersion", "kind", "annotations", "devices", "containerEdits")
_DEVICE: Final = ("name", "annotations", "containerEdits")


@dataclass(frozen=True, slots=True)
class ResolvedDevices:
    """Additions to a container for CDI devices, ``names``. ``problem`` is why it gets none of them, '' = it gets all.

    Names that no file declares are not among them.
    """

    names: tuple[str, ...]
    given: Given = Given()  # noqa: RUF009 - frozen
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _DeclaredDevice:
    """A device and the file that declares it."""

    name: str
    path: str
    spec: CdiSpec


HostFiles = Callable[[str], HostFile | None]
"""Returns what the host has at a path, links followed as the runtime does."""


def resolve(specs: Specs, names: Iterable[str], host_file: HostFiles) -> ResolvedDevices:
    """Return the additions to a container with these devices."""
    by_directory = [list(group) for _, group in groupby(specs, key=lambda item: item[0].rpartition("/")[0])]
    try:
        declared = [_declared(name, by_directory) for name in dict.fromkeys(names)]
        found = [device for device in declared if device is not None]
        given = _given(found, host_file)
    except CdiProblem as error:
        return ResolvedDevices((), problem=admit(str(error), SENTENCE_BYTES))
    return ResolvedDevices(tuple(device.name for device in found), given)


def _declared(name: str, by_directory: Iterable[Specs]) -> _DeclaredDevice | None:
    """Return the declaration of this device in the strongest directory that has one. Raises CdiProblem."""
    for specs in by_directory:
        places = [_DeclaredDevice(name, path, spec) for path, spec in specs for _ in spec.devices.get(name, ())]
        if len(places) > 1:
            both = " and ".join(device.path for device in places[:2])
            raise CdiProblem(f"{name} is declared twice, in {both}: neither counts until one is removed")
        if places:
            return places[0]
    return None


def _given(devices: Iterable[_DeclaredDevice], host_file: HostFiles) -> Given:
    """Return all that these devices bring. Raises CdiProblem that names the device."""
    parts: list[Given] = []
    seen: set[str] = set()
    for device in devices:
        try:
            fields = _valid(device.spec.content)
            if not is_device(device.name.partition("=")[2]):
                raise CdiProblem("has a name that CDI does not allow")
            if device.path not in seen:
                parts.append(_expressed(read_edits(fields.get("containerEdits")), host_file))
            parts.append(_expressed(_edits_of(device.spec.devices[device.name][0]), host_file))
        except CdiProblem as error:
            raise CdiProblem(f"{device.name} ({device.path}) {error}") from None
        seen.add(device.path)
    return _joined(parts)


def _expressed(edits: CdiEdits, host_file: HostFiles) -> Given:
    if sum(map(len, (edits.variables, edits.nodes, edits.mounts, edits.group_ids))) > MAX_EDITS:
        raise CdiProblem(f"has more than {MAX_EDITS} edits")
    return express(edits, {path: file for path in paths_of(edits) if (file := host_file(path)) is not None})


def _valid(content: Fields) -> Mapping[str, object]:
    """Return the fields of a file. Raises CdiProblem for what makes all of it invalid."""
    fields, kind = known_fields(content, "the specification", _SPEC), str(content["kind"])
    version = fields.get("cdiVersion")
    if not is_kind(kind):
        raise CdiProblem(f"has the kind {kind!r}, which is not VENDOR/CLASS as CDI allows it")
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        raise CdiProblem(f"has cdiVersion {version!r}, and cri-proxy reads 0.x.y and 1.x.y")
    return fields


def _edits_of(device: object) -> CdiEdits:
    """Return the edits of this device of a file. Raises CdiProblem."""
    edits = read_edits(known_fields(device, "devices", _DEVICE).get("containerEdits"))
    if edits == CdiEdits():
        raise CdiProblem("has no containerEdits, which CDI asks of every device")
    return edits


def _joined(parts: Iterable[Given]) -> Given:
    """Return these as one; of what has the same name or place in the container the last stays, in its place."""
    parts = list(parts)
    variables = {name: value for part in parts for name, value in part.variables}
    nodes = {clean_path(node.path): node for part in parts for node in part.nodes}
    mounts = {clean_path(mount.container_path): mount for part in parts for mount in part.mounts}
    groups = dict.fromkeys(number for part in parts for number in part.group_ids)
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    return Given(tuple(variables.items()), tuple(nodes.values()), tuple(mounts.values()), tuple(groups), tuple(notes))
