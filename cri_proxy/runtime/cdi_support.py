"""How CDI devices are passed to a runtime: judged by its answers to ``Version`` and ``Status``. Pure.

Sources: CRI-O reads annotations from 1.23.2 and the field ``CDI_devices`` from 1.28 (cri-o/cri-o#6944); containerd
reads annotations from 1.7.0 (containerd/containerd#6654) and the field from 1.7.2 (containerd/containerd#8519), both
only with ``enable_cdi``, which is false by default in 1.7 and true from 2.0 on. It prints its configuration in
``Status`` with ``verbose``, as JSON: ``enableCDI``, ``cdiSpecDirs``. containerd 1.6 ignores both without a word.
"""

import json
import posixpath
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

Choice = Literal["auto", "runtime", "resolve"]
_Version = tuple[int, int, int]

_VERSION: Final = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
_DIRECTORIES: Final = frozenset(("/etc/cdi", "/run/cdi"))
_CONTAINERD: Final = "containerd"
_CRIO: Final = "cri-o"
_EMBEDDED: Final = "cri-proxy-embedded"


class CdiWay(StrEnum):
    """How a container gets CDI devices: names in CRI's field or in an annotation, or resolved by cri-proxy."""

    FIELD = "field"
    ANNOTATION = "annotation"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class CdiSupport:
    """How this runtime takes the names of CDI devices; RESOLVE: not at all.

    ``why`` names the runtime and what decides. ``remedy`` is what makes it take names, '' where it does.
    ``other_directories`` are those of its specifications, where they are not /etc/cdi and /var/run/cdi.
    """

    way: CdiWay
    why: str
    remedy: str = ""
    other_directories: tuple[str, ...] = ()


def way_of(choice: Choice, support: CdiSupport) -> CdiWay:
    """Return how containers get CDI devices by the operator's choice.

    >>> way_of("runtime", CdiSupport(CdiWay.RESOLVE, "containerd 1.6.20 ignores CDI names"))
    <CdiWay.FIELD: 'field'>
    """
    match choice:
        case "resolve":
            return CdiWay.RESOLVE
        case "runtime":
            return CdiWay.FIELD if support.way is CdiWay.RESOLVE else support.way
        case "auto":
            return support.way


def support_of(name: str, version: str, config: str) -> CdiSupport:
    """Return how a runtime of this name and version takes CDI names; ``config`` is its ``Status``' JSON, '' = none."""
    if name == _CONTAINERD:
        return _containerd(version, config)
    if name == _CRIO:
        return _crio(version)
    if name == _EMBEDDED:
        return CdiSupport(CdiWay.FIELD, "the embedded runtime takes CDI names")
    remedy = "set cdi: runtime if it adds the devices of CRI's field CDI_devices itself"
    return CdiSupport(CdiWay.RESOLVE, f"{name or 'a runtime without a name'} is not known to take CDI names", remedy)


def _containerd(version: str, config: str) -> CdiSupport:
    known, said = _version(version), _fields(config)
    is_on, directories = said.get("enableCDI"), _others(said.get("cdiSpecDirs"))
    called = f"containerd {version}"
    if known is not None and known < (1, 7, 0):
        return CdiSupport(CdiWay.RESOLVE, f"{called} ignores CDI names", "update it to 2.0 or later")
    # Its own word before its version: enable_cdi may be set in 1.7, and cleared in 2.0.
    if is_on is False:
        why = f"{called} adds no CDI devices: its configuration has enable_cdi = false"
        return CdiSupport(CdiWay.RESOLVE, why, "set enable_cdi = true in the section of its CRI plugin, and restart it")
    # It does not say: before 2.0 enable_cdi is off unless it is set.
    if is_on is not True and (known is None or known < (2, 0, 0)):
        why = f"{called} does not say whether its configuration has enable_cdi = true"
        return CdiSupport(CdiWay.RESOLVE, why, "update it to 2.0 or later, or set cdi: runtime if it is so")
    way = CdiWay.ANNOTATION if known is not None and known < (1, 7, 2) else CdiWay.FIELD
    return CdiSupport(way, f"{called} adds CDI devices", other_directories=directories)


def _crio(version: str) -> CdiSupport:
    known, called = _version(version), f"CRI-O {version}"
    if known is None:
        return CdiSupport(
            CdiWay.RESOLVE, f"{called} is of an unknown version", "set cdi: runtime if it is 1.28 or later"
        )
    if known < (1, 23, 2):
        return CdiSupport(CdiWay.RESOLVE, f"{called} ignores CDI names", "update it to 1.28 or later")
    return CdiSupport(CdiWay.FIELD if known >= (1, 28, 0) else CdiWay.ANNOTATION, f"{called} adds CDI devices")


def _version(text: str) -> _Version | None:
    """Return the version without what packagers and distributions add to it.

    >>> _version("1.6.20~ds1"), _version("v2.0.0-rc.1"), _version("v1.7.11-k3s2"), _version("<unknown>")
    ((1, 6, 20), (2, 0, 0), (1, 7, 11), None)
    """
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _fields(config: str) -> dict[str, object]:
    try:
        value = json.loads(config) if config else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _others(said: object) -> tuple[str, ...]:
    """Return the directories where they are not those of the specification; /var/run is a link to /run."""
    paths = [path for path in said if isinstance(path, str)] if isinstance(said, list) else []
    plain = {re.sub(r"^/var/run/", "/run/", posixpath.normpath(path)) for path in paths}
    return tuple(paths) if paths and plain != _DIRECTORIES else ()
