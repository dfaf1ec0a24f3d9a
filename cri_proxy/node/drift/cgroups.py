"""Read the cpuset that the kernel enforces on a container, by its pid's cgroup (v1, v2); detect processes moved out.

Sources: cgroups(7) for ``/proc/PID/cgroup``, cpuset(7) for v1, the kernel's cgroup-v2 document for
``cpuset.cpus`` (empty = the parent's) and ``cpuset.cpus.effective``. Everything lies below a root given as an argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from policies.base import Pinning
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

# Where systemd keeps the units that programs create, and their properties that were set later (systemd 252).
_UNITS = "run/systemd/transient"
_V1_MOUNTS = ("sys/fs/cgroup/cpuset", "sys/fs/cgroup/cpuset,cpu")
_ONLINE, _POSSIBLE = "sys/devices/system/cpu/online", "sys/devices/system/cpu/possible"
_V2_MOUNTS = ("sys/fs/cgroup", "sys/fs/cgroup/unified")


@dataclass(frozen=True, slots=True)
class Enforced:
    """The sets of one container's cgroup; ``inherits_cpus``: it has none of its own (v2) and runs on its parent's.

    ``path`` is the cgroup below the mount, as the kernel prints it. ``has_escaped``: the process is not in its
    container's cgroup any more but above it, where v1 moves the processes of a cgroup whose CPUs all went offline.
    ``online`` are the CPUs that were online at the time, ``possible`` those that can ever be (the kernel's cputopology
    document); None where that is unknown. ``directory`` holds the cgroup's files. ``unit``: the sets in its scope unit,
    which systemd writes whenever it applies the unit; None = none there.
    """

    path: str
    cpus: CpuSet
    mems: NodeSet
    inherits_cpus: bool = False
    has_escaped: bool = False
    online: CpuSet | None = None
    possible: CpuSet | None = None
    directory: Path | None = None
    unit: Pinning = Pinning()  # noqa: RUF009 - frozen

    @property
    def is_systemd_scope(self) -> bool:
        """Whether systemd manages it too: a scope unit of its own (the systemd cgroup driver)."""
        return self.path.endswith(".scope")


class Cpusets(Protocol):
    """The source of enforced cpusets."""

    def enforced(self, pid: int, container_id: str) -> Enforced | None:
        """Return the cpuset of this container, whose process has this pid; None when it is unknown. May block."""


class Cgroups:
    """Implements ``Cpusets`` on the kernel's files. Blocks; call it from a thread."""

    def __init__(self, root: Path) -> None:
        """``root`` holds ``proc`` and ``sys/fs/cgroup``."""
        self._root = root

    def enforced(self, pid: int, container_id: str) -> Enforced | None:
        """Return the cpuset of this container, whose process has this pid.

        None when it is unknown: the process or cgroup is gone, the pid belongs to another process by now (the
        container's id is in no part of its cgroup's path), or there is no cpuset controller.
        """
        text = _text(self._root / "proc" / str(pid) / "cgroup")
        if text is None:
            return None
        is_v1, path = _membership(text)
        # The pid may be another process's by now: the path proves that it is the container's.
        own = _own_part(path, container_id)
        has_escaped = not own and is_v1 and _is_above(path, text, container_id)
        if not own and not has_escaped:
            return None
        for mount in _V1_MOUNTS if is_v1 else _V2_MOUNTS:
            found = _read(self._root / mount, own or path)
            if found is not None:
                # On v1 systemd does not write cpusets (systemd.resource-control(5), AllowedCPUs).
                unit = Pinning() if is_v1 else _unit(self._root / _UNITS, own.rpartition("/")[2])
                online, possible = (_set(self._root / name) for name in (_ONLINE, _POSSIBLE))
                return replace(found, has_escaped=has_escaped, online=online, possible=possible, unit=unit)
        return None


def _membership(text: str) -> tuple[bool, str]:
    """Return (is v1, path) in the hierarchy with the cpuset controller: v1's if mounted, else the unified one."""
    unified = ""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpuset" in controllers.split(","):
            return True, path
        if number == "0" and not controllers:
            unified = path
    return False, unified


def _own_part(path: str, container_id: str) -> str:
    """Return the container's own cgroup, '' for none; its process may be in a cgroup that it made below."""
    parts = path.split("/")
    if ".." in parts or not container_id:  # outside the cgroup namespace that we see
        return ""
    at = next((i for i, part in enumerate(parts) if container_id in part), None)
    return "" if at is None else "/".join(parts[: at + 1])


def _is_above(path: str, text: str, container_id: str) -> bool:
    """Return whether this cgroup is above the one in which another controller still has the container."""
    paths = (line.split(":", 2)[-1] for line in text.splitlines())
    own = next((part for p in paths if (part := _own_part(p, container_id))), "")
    return own.startswith(path.rstrip("/") + "/")


def _set(path: Path) -> CpuSet | None:
    """Return the CPUs that this file lists; None without a valid list."""
    try:
        return CpuSet.parse(_text(path) or "") or None
    except CpuSetError:
        return None


def _read(mount: Path, path: str) -> Enforced | None:
    """Read a cgroup's sets: v1 has them in the files, on v2 an empty file means the effective set."""
    directory = mount / path.lstrip("/")
    cpus, mems = _text(directory / "cpuset.cpus"), _text(directory / "cpuset.mems")
    if cpus is None or mems is None:
        return None
    effective_cpus = cpus or _text(directory / "cpuset.cpus.effective") or ""
    effective_mems = mems or _text(directory / "cpuset.mems.effective") or ""
    try:
        sets = CpuSet.parse(effective_cpus), NodeSet.parse(effective_mems)
    except CpuSetError:
        return None
    return Enforced(path, *sets, inherits_cpus=not cpus, directory=directory) if sets[0] else None


def _unit(units: Path, name: str) -> Pinning:
    """Return the sets in a transient scope unit: what it was created with, or what a property was set to later."""
    if not name.endswith(".scope"):
        return Pinning()
    cpus, mems = "AllowedCPUs", "AllowedMemoryNodes"
    # The unit, then its drop-ins, as systemd reads them (systemd.unit(5)).
    files = (units / name, *(units / f"{name}.d" / f"50-{key}.conf" for key in (cpus, mems)))
    lines = [line for file in files for line in (_text(file) or "").splitlines()]
    try:
        return Pinning(CpuSet.parse(_assigned(lines, cpus)) or None, NodeSet.parse(_assigned(lines, mems)) or None)
    except CpuSetError:
        return Pinning()


def _assigned(lines: Sequence[str], key: str) -> str:
    """Return the list that these lines of a unit assign: each adds to it, an empty one clears it."""
    items: list[str] = []
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == key:
            items = [*items, *value.replace(",", " ").split()] if value.strip() else []
    return ",".join(items)


def _text(path: Path) -> str | None:
    """Return the file's stripped content; None when it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
