"""The node's pools and containers as a tree for a terminal. Pure: a view in, text out."""

from collections.abc import Iterable, Sequence

from cri_proxy.cli.columns import Cells, column_widths, layout, paint, paragraph
from cri_proxy.http.view import ContainerView, StatusView
from policies.base import CpuKind, PoolView

# Widths beyond which a column wraps: tree (which takes what the others leave of 80), CPUs, use, memory nodes, state.
_LIMITS = (28, 14, 17, 5, 8)
_HEADER = Cells(("POOL / CONTAINER", "CPUS", "USE", "MEM", "STATE"), ("dim",) * 5)
_SYSTEM = "reserved for the system"
_OTHER = "in no pool"


def cpu_text(mcpu: int) -> str:
    """An amount of CPU for people.

    >>> cpu_text(2000), cpu_text(2500), cpu_text(500)
    ('2', '2.5', '0.5')
    """
    return f"{mcpu / 1000:.3f}".rstrip("0").rstrip(".")


def container_name(container: ContainerView) -> str:
    """namespace/pod/container."""
    return f"{container.namespace}/{container.pod}/{container.name}"


def use_text(container: ContainerView) -> str:
    """What a container's CPUs are to it, in words."""
    shared = f"{container.shared_mcpu}m shared" if container.shared_mcpu else "shared"
    match container.kind:
        case CpuKind.PRESERVE:
            return "left alone"
        case CpuKind.RESERVED:
            return f"{container.reserved_mcpu}m reserved" if container.reserved_mcpu else "reserved"
        case CpuKind.SHARED:
            return shared
    owned = []
    if container.exclusive:
        owned.append(f"{len(container.exclusive)} exclusive")
    if container.isolated:
        owned.append(f"{len(container.isolated)} isolated")
    if container.kind == CpuKind.MIXED or container.shared_mcpu:
        owned.append(shared)
    return " + ".join(owned) or container.kind


def pool_use_text(pool: PoolView) -> str:
    """What is left in a pool, in words."""
    parts = [f"shared, {cpu_text(pool.shared_free_mcpu)} free" if pool.shared else "nothing shared"]
    if pool.isolated_free:
        parts.append(f"isolated {pool.isolated_free} free")
    return "; ".join(parts)


def _container_cells(container: ContainerView, lead: str, rest: str) -> Cells:
    cpus = "any" if container.cpus is None else str(container.cpus)
    mems = "any" if container.mems is None else str(container.mems)
    owns = bool(container.exclusive or container.isolated)
    state = "" if container.state == "running" else container.state
    texts = (container_name(container), cpus, use_text(container), mems, state)
    return Cells(texts, ("", "green" if owns else "", "green" if owns else "", "", "yellow"), lead, rest)


def _note_cells(notes: Sequence[str], rest: str) -> Iterable[Cells]:
    """Notes stand below their container, over the whole width: they are marked and laid out later."""
    return (Cells((note,), ("yellow",), f"{rest}! ", f"{rest}  ") for note in notes)


def _pool_cells(pool: PoolView, lead: str, rest: str) -> Cells:
    return Cells((pool.name, str(pool.shared), pool_use_text(pool), str(pool.mems), ""), ("bold",) * 5, lead, rest)


def _members(containers: Sequence[ContainerView], stem: str, *, more_follow: bool) -> list[Cells]:
    rows: list[Cells] = []
    for i, container in enumerate(containers):
        is_last = i == len(containers) - 1 and not more_follow
        rest = f"{stem}   " if is_last else f"{stem}│  "
        rows.append(_container_cells(container, f"{stem}└─ " if is_last else f"{stem}├─ ", rest))
        rows.extend(_note_cells(container.notes, rest))
    return rows


def _pool_rows(view: StatusView, pool: PoolView, lead: str, stem: str) -> list[Cells]:
    """A pool, the containers in it, then the pools below it."""
    below = [child for child in view.pools if child.parent == pool.name and child.name != pool.name]
    inside = [c for c in view.containers if c.pool == pool.name and c.kind != CpuKind.RESERVED]
    rows = [_pool_cells(pool, lead, f"{stem}│  " if inside or below else f"{stem}   ")]
    rows += _members(inside, stem, more_follow=bool(below))
    for i, child in enumerate(below):
        is_last = i == len(below) - 1
        branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        rows += _pool_rows(view, child, stem + branch, stem + further)
    return rows


def _group_rows(title: str, cpus: str, containers: Sequence[ContainerView]) -> list[Cells]:
    """Containers outside the tree under a title; nothing without containers and CPUs."""
    if not containers and not cpus:
        return []
    stem_rows = _members(containers, "", more_follow=False)
    return [Cells((title, cpus, "", "", ""), ("bold",) * 5), *stem_rows]


def _rows(view: StatusView) -> list[Cells]:
    roots = [pool for pool in view.pools if not pool.parent]
    rows = [row for root in roots for row in _pool_rows(view, root, "", "")]
    names = {pool.name for pool in view.pools}
    reserved = str(roots[0].reserved) if roots else ""
    system = [container for container in view.containers if container.kind == CpuKind.RESERVED]
    others = [c for c in view.containers if c.pool not in names and c.kind != CpuKind.RESERVED]
    return rows + _group_rows(_SYSTEM, reserved, system) + _group_rows(_OTHER, "", others)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def render_status(view: StatusView, *, colours: bool = False) -> str:
    """The whole picture in 80 columns; long names and CPU lists wrap in their column, nothing is cut off."""
    ready = "ready" if view.is_ready else "not ready: no decisions are made yet"
    title = f"{view.node}: {view.policy}, {ready}, {_count(len(view.containers), 'container')}"
    lines = [paint(title, "bold" if view.is_ready else "yellow", colours=colours)]
    rows = [_HEADER, *_rows(view)]
    tabular = [row for row in rows if len(row.texts) == len(_LIMITS)]
    widths = column_widths(tabular, _LIMITS, flexible=0)
    if len(tabular) > 1:
        lines.append("")
    for row in rows if len(tabular) > 1 else ():
        if len(row.texts) == len(_LIMITS):
            lines += layout([row], widths, colours=colours)
        else:
            note = paragraph(row.texts[0], row.rest, first=row.lead)
            lines += [paint(line, "yellow", colours=colours) for line in note]
    if view.warnings:
        lines.append("")
    for warning in view.warnings:
        lines += [paint(line, "yellow", colours=colours) for line in paragraph(f"warning: {warning}", "  ", first="")]
    return "\n".join(lines)
