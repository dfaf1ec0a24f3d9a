"""Choose the containers of a status by namespace, pod, pool, kind or what is amiss; the pools that hold them stay."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from cri_proxy.errors import CommandFailed
from cri_proxy.node.status.model import ContainerView, StatusView
from policies.base import CpuKind, PoolView
from sysfs.cpuset import CpuSet
from sysfs.known_words import did_you_mean
from sysfs.show.cpu_map import cpus_of
from sysfs.text import numbered


@dataclass(frozen=True, slots=True)
class StatusFilter:
    """'' means any. ``pod`` is a glob of pods or workloads, ``pool`` a pool with all below it.

    ``cpus`` are CPUs of which a container may run on one; one that is not pinned may run on any.
    """

    namespace: str = ""
    pod: str = ""
    pool: str = ""
    kind: str = ""
    problems: bool = False
    cpus: CpuSet = CpuSet()

    @property
    def is_empty(self) -> bool:
        """Return whether every container passes."""
        return self == StatusFilter()

    def __str__(self) -> str:
        named = (("namespace", self.namespace), ("pod", self.pod), ("pool", self.pool), ("kind", self.kind))
        parts = [f"{name} {value}" for name, value in named if value] + ["with problems"] * self.problems
        return ", ".join([*parts, *([numbered("CPU", self.cpus)] if self.cpus else [])])


def filtered(view: StatusView, wanted: StatusFilter) -> StatusView:
    """Return the status with the containers that pass, and the pools that hold them or are above these.

    Raises CommandFailed for a pool or CPU that does not exist.
    """
    if wanted.is_empty:
        return view
    names = {pool.name for pool in view.pools}
    if wanted.pool and wanted.pool not in names:
        raise CommandFailed(f"there is no pool {wanted.pool!r}; {did_you_mean(wanted.pool, sorted(names))}", 2)
    if view.map is not None and (absent := wanted.cpus - cpus_of(view.map)):
        raise CommandFailed(f"there is no {numbered('CPU', absent)}; there are {numbered('CPU', cpus_of(view.map))}", 2)
    inside = _below(view.pools, wanted.pool) if wanted.pool else names | {""}
    chosen = tuple(each for each in view.containers if each.pool in inside and _passes(each, wanted))
    parents = {pool.name: pool.parent for pool in view.pools}
    held = {each.pool for each in chosen if each.kind != CpuKind.RESERVED} | ({wanted.pool} if wanted.pool else set())
    shown = {above for name in held for above in _path(name, parents)}
    return replace(view, containers=chosen, pools=tuple(pool for pool in view.pools if pool.name in shown))


def left_out(view: StatusView, chosen: StatusView) -> tuple[ContainerView, ...]:
    """Return the containers of a status that are not among the chosen ones of it."""
    there = {(each.pod_uid, each.name) for each in chosen.containers}
    return tuple(each for each in view.containers if (each.pod_uid, each.name) not in there)


def _path(pool: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Yield this pool and those above it."""
    while pool:
        yield pool
        pool = parents.get(pool, "")


def _below(pools: tuple[PoolView, ...], name: str) -> set[str]:
    """Return this pool and all below it; parents stand before children."""
    inside = {name}
    for pool in pools:
        if pool.parent in inside:
            inside.add(pool.name)
    return inside


def _passes(container: ContainerView, wanted: StatusFilter) -> bool:
    return (
        wanted.namespace in ("", container.namespace)
        and wanted.kind in ("", container.kind)
        and (not wanted.pod or any(fnmatchcase(name, wanted.pod) for name in (container.pod, container.workload)))
        and (not wanted.problems or bool(container.unmet or container.notes))
        and (not wanted.cpus or container.cpus is None or not wanted.cpus.isdisjoint(container.cpus))
    )
