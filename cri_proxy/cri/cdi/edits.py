"""``CdiEdits``: what a CDI device changes in a container, read from the ``containerEdits`` of a specification. Pure.

Source: the CDI specification (SPEC.md, "Container edits"), 0.3.0 to 1.1.0. Its reference implementation reads the keys
whatever their case, and refuses those that it does not know.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from cri_proxy.errors import CriProxyError

T = TypeVar("T")

_EDITS: Final = ("env", "deviceNodes", "mounts", "hooks", "additionalGids", "intelRdt", "netDevices")
_NODE: Final = ("path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid")
_MOUNT: Final = ("hostPath", "containerPath", "type", "options")
_HOOK: Final = ("hookName", "path", "args", "env", "timeout")
_NODE_TYPES: Final = ("", "b", "c", "u", "p")
_MOST_ID: Final = 2**32 - 1


class CdiProblem(CriProxyError):
    """Why a device cannot be given: the rest of a sentence that begins with its name."""


@dataclass(frozen=True, slots=True)
class CdiNode:
    """A device node. ``kind`` is b, c, u or p, '' = that of the host's. ``number`` is major and minor, None = those.

    ``mode`` are permission bits, None = those of the host's node, as ``uid`` and ``gid``.
    """

    path: str
    host_path: str
    permissions: str = "rwm"
    kind: str = ""
    number: tuple[int, int] | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class CdiMount:
    """A mount. ``options`` are those of mount(8), ``kind`` a type of file system, '' = a bind mount."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class CdiHook:
    """A program that the runtime runs; ``stage`` is when: prestart, createRuntime, createContainer and so on."""

    stage: str
    path: str


@dataclass(frozen=True, slots=True)
class CdiEdits:
    """Changes in their order. ``others`` are the keys of those that are neither of these: intelRdt, netDevices."""

    variables: tuple[tuple[str, str], ...] = ()
    nodes: tuple[CdiNode, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    hooks: tuple[CdiHook, ...] = ()
    group_ids: tuple[int, ...] = ()
    others: tuple[str, ...] = ()


def read_edits(tree: object) -> CdiEdits:
    """Read ``containerEdits`` as JSON has it, None for none. Raises CdiProblem for what the specification forbids."""
    if tree is None:
        return CdiEdits()
    fields = known_fields(tree, "containerEdits", _EDITS)
    return CdiEdits(
        tuple(_each(fields, "env", _variable)),
        tuple(_each(fields, "deviceNodes", _node)),
        tuple(_each(fields, "mounts", _mount)),
        tuple(_each(fields, "hooks", _hook)),
        tuple(_each(fields, "additionalGids", lambda value: _number(value, "additionalGids"))),
        tuple(key for key in ("intelRdt", "netDevices") if fields.get(key) not in (None, [])),
    )


def _variable(value: object) -> tuple[str, str]:
    name, sign, text = _text(value, "env").partition("=")
    if not (name and sign):
        raise CdiProblem(f"has {value!r} in env, which is not NAME=VALUE")
    return name, text


def _node(value: object) -> CdiNode:
    fields = known_fields(value, "deviceNodes", _NODE)
    path = _path(fields, "path", "deviceNodes")
    kind, permissions = _text(fields.get("type"), "type"), _text(fields.get("permissions"), "permissions")
    major, minor = _optional(fields, "major"), _optional(fields, "minor") or 0
    if kind not in _NODE_TYPES:
        raise CdiProblem(f"has the device node {path} of type {kind!r}, which is none of b, c, u and p")
    if permissions != "none" and permissions.strip("rwm"):
        raise CdiProblem(f"has the device node {path} with permissions {permissions!r}, not of r, w and m")
    return CdiNode(
        path,
        _path(fields, "hostPath", "deviceNodes") if fields.get("hostPath") else path,
        permissions or "rwm",
        kind,
        (major, minor) if major else None,  # 0 is none, as in the reference implementation
        _mode(fields),
        _optional(fields, "uid"),
        _optional(fields, "gid"),
    )


def _mode(fields: Mapping[str, object]) -> int | None:
    """Return the permission bits; some vendors write the type of the file as well, as stat(2) gives it."""
    mode = _optional(fields, "fileMode")
    return None if mode is None else mode & 0o7777


def _mount(value: object) -> CdiMount:
    fields = known_fields(value, "mounts", _MOUNT)
    target = _path(fields, "containerPath", "mounts")
    kind = _text(fields.get("type"), "type")
    source = _text(fields.get("hostPath"), "hostPath")
    if not source:
        raise CdiProblem(f"has the mount {target} without a hostPath")
    return CdiMount(source, target, tuple(_each(fields, "options", lambda each: _text(each, "options"))), kind)


def _hook(value: object) -> CdiHook:
    fields = known_fields(value, "hooks", _HOOK)
    return CdiHook(_text(fields.get("hookName"), "hookName"), _text(fields.get("path"), "path"))


def known_fields(tree: object, where: str, known: Iterable[str]) -> Mapping[str, object]:
    """Return the fields by their known names, whatever the case of the file's. Raises CdiProblem for other fields."""
    if not isinstance(tree, dict):
        raise CdiProblem(f"has something else than fields in {where}")
    names = {name.lower(): name for name in known}
    for key in tree:
        if str(key).lower() not in names:
            raise CdiProblem(f"has the field {key!r} in {where}, which this version of cri-proxy does not know")
    return {names[str(key).lower()]: value for key, value in tree.items()}


def _each(fields: Mapping[str, object], key: str, read: Callable[[object], T]) -> Iterable[T]:
    values = fields.get(key)
    if values is None:
        return
    if not isinstance(values, list):
        raise CdiProblem(f"has something else than a list in {key}")
    for value in values:
        yield read(value)


def _path(fields: Mapping[str, object], key: str, where: str) -> str:
    path = _text(fields.get(key), key)
    if not path.startswith("/"):
        raise CdiProblem(f"has {path!r} as {key} in {where}, which is not an absolute path")
    return path


def _text(value: object, key: str) -> str:
    """Return a text of UTF-8 without NUL, which no system call takes; '' for None."""
    if value is None:
        return ""
    # A lone surrogate, which JSON may spell, is no character.
    if not isinstance(value, str) or "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise CdiProblem(f"has {value!r} as {key}, which is not a text")
    return value


def _number(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_ID:
        raise CdiProblem(f"has {value!r} as {key}, which is not a number of 32 bits")
    return value


def _optional(fields: Mapping[str, object], key: str) -> int | None:
    return None if fields.get(key) is None else _number(fields[key], key)
