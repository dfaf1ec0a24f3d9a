"""Format who is on given CPUs: where each is, who owns it, who may run there. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cri_proxy.cli.render.columns import WIDTH, paint, paragraph
from cri_proxy.cli.render.pool_tree import use_text
from cri_proxy.node.status.model import ContainerView, StatusView
from sysfs.cpuset import CpuSet
from sysfs.show.cpu_map import CpuMap
from sysfs.text import numbered, plural


@dataclass(frozen=True, slots=True)
class _CpuUse:
    """Where CPUs are, and what they are used for; those that differ in nothing stand together."""

    where: str
    use: str
    owners: tuple[str, ...]
    others: tuple[str, ...]


def render_cpus(view: StatusView, cpus: CpuSet, *, colours: bool = False, width: int = WIDTH) -> str:
    """Return the answer for these CPUs, those that differ in nothing together."""
    found: dict[_CpuUse, CpuSet] = {}
    for cpu in cpus:
        place = _place(view, CpuSet.of([cpu]))
        found[place] = found.get(place, CpuSet()) | CpuSet.of([cpu])
    return "\n".join(line for place, those in found.items() for line in _lines(place, those, colours, width))


def _place(view: StatusView, cpu: CpuSet) -> _CpuUse:
    running = [each for each in view.containers if each.cpus is None or cpu <= each.cpus]
    owners = [each for each in running if cpu <= each.exclusive | each.isolated]
    others = [each for each in running if each not in owners]
    where = _where(view.map, cpu) if view.map is not None else ""
    return _CpuUse(where, _use(view, cpu, owners), tuple(map(str, owners)), tuple(map(_who, others)))


def _who(container: ContainerView) -> str:
    how = "not pinned" if container.cpus is None else use_text(container)
    return f"{container}: {how}"


def _use(view: StatusView, cpu: CpuSet, owners: Sequence[ContainerView]) -> str:
    sets = view.map or CpuMap(())
    if owners:
        kind = " (kernel-isolated)" if cpu <= owners[0].isolated else ""
        return f"owned by {' and '.join(map(str, owners))}{kind}"
    named = (
        (sets.offline, "offline"),
        (sets.unavailable, "not available to containers"),
        (sets.reserved, "reserved for the system"),
        (sets.isolated, "kernel-isolated, without an owner"),
    )
    return next((text for those, text in named if cpu <= those), "shared")


def _where(shown: CpuMap, cpu: CpuSet) -> str:
    """Return package, NUMA node and thread siblings of a CPU."""
    for package in shown.packages:
        for node in package.nodes:
            for core in (core for domain in node.l3 for core in domain.cores if cpu <= core):
                core_text = f", core of {numbered('CPU', core)}" if len(core) > 1 else ""
                return f"package {package.id}, NUMA node {node.id}{core_text}"
    return ""


def _lines(place: _CpuUse, cpus: CpuSet, colours: bool, width: int) -> list[str]:
    style = "green" if place.owners else ""
    lines = [paint(f"{numbered('CPU', cpus)}: {place.use}", style or "bold", colours=colours)]
    lines += [f"  {place.where}"] if place.where else []
    if place.others:
        may = "can run there as well" if place.owners else "may run there"
        lines.append(f"  {plural(len(place.others), 'container')} {may}:")
        lines += [line for each in place.others for line in paragraph(each, "      ", first="    ", width=width)]
    elif place.use == "shared":
        lines.append("  no container may run there now")
    return lines
