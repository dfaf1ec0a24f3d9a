"""Say in CRI's terms what CDI edits say in those of the OCI runtime, or that CRI has no words for it. Pure.

CRI (``Device``, ``Mount`` of its api.proto) knows a device node by a node of the host, and of mount options only
read-only and propagation. What would be lost is a note where the container has what it needs without it, else a
refusal: half a device is worse than none.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cri_proxy.cri.cdi.edits import CdiEdits, CdiMount, CdiNode, CdiProblem
from sysfs.text import some

Propagation = Literal["private", "host-to-container", "bidirectional"]

_PROPAGATION: Final[Mapping[str, Propagation]] = {
    **dict.fromkeys(("private", "rprivate"), "private"),
    **dict.fromkeys(("slave", "rslave"), "host-to-container"),
    **dict.fromkeys(("shared", "rshared"), "bidirectional"),
}
# CRI's own way, or the kernel's default: nothing is lost with them.
_SILENT: Final = frozenset(["bind", "rbind", "rw", "ro", "suid", "dev", "exec", "async", "defaults"])
# A bind mount keeps those of the file system below it (mount(8)); without them it is as any mount of a pod.
_TIMES: Final = ("atime", "diratime", "relatime", "strictatime", "lazytime")
_DROPPED: Final = frozenset(["nosuid", "nodev", "noexec", *_TIMES, *(f"no{word}" for word in _TIMES)])
_BIND_KINDS: Final = ("", "bind", "none")


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file of the host. ``kind`` is b or c for a device node, d for a directory, '' for any other file.

    ``number`` is a device's major and minor, ``mode`` are permission bits.
    """

    kind: str = ""
    number: tuple[int, int] = (0, 0)
    mode: int = 0
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class GivenMount:
    """A ``Mount`` of CRI."""

    container_path: str
    host_path: str
    is_readonly: bool = False
    propagation: Propagation = "private"


@dataclass(frozen=True, slots=True)
class Given:
    """The additions to a container for its devices, in the order in which later ones replace earlier ones.

    ``notes`` are sentences about what is left out.
    """

    variables: tuple[tuple[str, str], ...] = ()
    nodes: tuple[CdiNode, ...] = ()
    mounts: tuple[GivenMount, ...] = ()
    group_ids: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def clean_path(path: str) -> str:
    """Return a place in the container as the one text that stands for it.

    >>> clean_path("/dev//gpu0/"), clean_path("//dev/./gpu0")
    ('/dev/gpu0', '/dev/gpu0')
    """
    return posixpath.normpath("/" + path.lstrip("/"))


def paths_of(edits: CdiEdits) -> tuple[str, ...]:
    """Return the host's files that ``express`` has to know, none twice."""
    paths = [*(node.host_path for node in edits.nodes), *(mount.host_path for mount in edits.mounts)]
    return tuple(dict.fromkeys(paths))


def express(edits: CdiEdits, host: Mapping[str, HostFile]) -> Given:
    """Return these edits in CRI's terms; ``host`` has those of ``paths_of`` that exist.

    Raises CdiProblem for what CRI cannot express.
    """
    for hook in edits.hooks:
        raise CdiProblem(f"has the {hook.stage} hook {hook.path}, and no request to a runtime can name a hook")
    for other in edits.others:
        raise CdiProblem(f"has {other}, which no request to a runtime can name")
    for node in edits.nodes:
        _check_node(node, host)
    mounts = tuple(_mount(mount, host) for mount in edits.mounts)
    notes = (*_notes_of_nodes(edits.nodes, host), *_notes_of_mounts(edits.mounts, host))
    # 0 is left out, as in the reference implementation: no device gives a container root's group.
    groups = tuple(dict.fromkeys(number for number in edits.group_ids if number))
    return Given(edits.variables, edits.nodes, mounts, groups, tuple(dict.fromkeys(notes)))


def _check_node(node: CdiNode, host: Mapping[str, HostFile]) -> None:
    found, what = host.get(node.host_path), f"the device node {node.path}"
    if node.permissions == "none":
        raise CdiProblem(f"has {what}, which has no permissions; CRI cannot request a device node without any")
    if node.kind == "p":
        raise CdiProblem(f"has {what}, a FIFO, which a runtime does not take for a device")
    if found is None:
        asked = f" as {node.kind or 'a device'} {_colon(node.number)}" if node.number else ""
        raise CdiProblem(
            f"has {what}{asked}, the host has no {node.host_path}, and a request can name nodes of the host only"
        )
    if found.kind not in ("b", "c"):
        raise CdiProblem(f"has {what}, and the host's {node.host_path} is no device")
    kind = "c" if node.kind == "u" else node.kind or found.kind
    if (kind, node.number or found.number) != (found.kind, found.number):
        raise CdiProblem(
            f"has {what} as {kind} {_colon(node.number or found.number)}, and the host's {node.host_path} is "
            f"{found.kind} {_colon(found.number)}: a request can name nodes of the host only"
        )


def _mount(mount: CdiMount, host: Mapping[str, HostFile]) -> GivenMount:
    what = f"the mount {mount.container_path}"
    if mount.kind not in _BIND_KINDS:
        raise CdiProblem(f"has {what} of type {mount.kind}, and a request can name bind mounts only")
    if not mount.host_path.startswith("/"):
        raise CdiProblem(f"has {what} of {mount.host_path!r}, which is not an absolute path")
    for option in mount.options:
        if option not in _SILENT and option not in _DROPPED and option not in _PROPAGATION:
            raise CdiProblem(f"has {what} with the option {option!r}, which no request to a runtime can name")
    if mount.host_path not in host:  # containerd would make a directory of that name
        raise CdiProblem(f"has {what} of {mount.host_path}, which the host does not have")
    spread = [_PROPAGATION[option] for option in mount.options if option in _PROPAGATION]
    access = [option for option in mount.options if option in ("ro", "rw")]
    return GivenMount(
        mount.container_path,
        mount.host_path,
        is_readonly=access[-1:] == ["ro"],
        propagation=spread[-1] if spread else "private",
    )


def _notes_of_nodes(nodes: Iterable[CdiNode], host: Mapping[str, HostFile]) -> Iterable[str]:
    """Yield the owners and modes that are lost: the runtime takes those of the host's node."""
    for node in nodes:
        found = host[node.host_path]
        pairs = (("mode", node.mode, found.mode), ("uid", node.uid, found.uid), ("gid", node.gid, found.gid))
        lost = [(name, ours, theirs) for name, ours, theirs in pairs if ours is not None and ours != theirs]
        if lost:
            said = ", ".join(f"{name} {_shown(name, theirs)} for {_shown(name, ours)}" for name, ours, theirs in lost)
            yield f"{node.path} has the host's {said}"


def _notes_of_mounts(mounts: Iterable[CdiMount], host: Mapping[str, HostFile]) -> Iterable[str]:
    """Yield which options are left out, all mounts with the same ones together."""
    by_options: dict[str, list[str]] = {}
    for mount in mounts:
        left = [option for option in mount.options if option in _DROPPED]
        if left:
            by_options.setdefault(", ".join(left), []).append(mount.container_path)
        if "bind" in mount.options and "rbind" not in mount.options and host[mount.host_path].kind == "d":
            yield f"{mount.container_path} shows what is mounted below {mount.host_path} too"
    for options, paths in by_options.items():
        yield f"mounted without {options}: {some(paths, 1)}"


def _shown(name: str, number: int) -> str:
    return f"{number:04o}" if name == "mode" else str(number)


def _colon(number: tuple[int, int] | None) -> str:
    return f"{number[0]}:{number[1]}" if number else ""
