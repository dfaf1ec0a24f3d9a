"""Format the tree of pools with the containers in them: pods of a workload that are alike fold into a row. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from cri_proxy.cli.render.amounts import about_bytes_text, cpu_text
from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout, paint, paragraph, scaled
from cri_proxy.node.status import model
from policies.base import CpuKind, PoolView
from sysfs.cpuset import CpuSet, NodeSet

# Widths beyond which a column wraps: tree (which takes what the others leave), CPUs, use, memory nodes, memory, state.
# Together with the gaps they are 80.
_LIMITS = (19, 12, 15, 5, 11, 8)
_HEADER = ("POOL / CONTAINER", "CPUS", "USE", "MEM", "MEMORY", "STATE")
_SYSTEM = "reserved for the system"
_OTHER = "in no pool"
WIDE = "+"
COLD = "cold"
POD_CPUS = "pod's CPUs"
CLAIMED = "claimed"  # its CPUs were decided elsewhere
OVERCOMMITTED = "overcommitted"

SORTS: Final[Mapping[str, Callable[[model.ContainerView], tuple[object, ...]]]] = {
    "name": lambda c: (),
    "cpus": lambda c: (-1000 * len(c.exclusive | c.isolated) - c.shared_mcpu - c.reserved_mcpu,),
    "memory": lambda c: (-c.memory_bytes,),
    "kind": lambda c: (c.kind,),
}
"""The orders of the containers of a pool; those that are equal stay in the order of their names."""


@dataclass(frozen=True, slots=True)
class TreeShape:
    """How the tree is shown: ``is_folded`` by workload, ``sort`` is a key of SORTS, ``letters`` are those of owners.

    ``changed`` are containers that are marked, as ``namespace/pod/name``. ``left_out`` are those of the node
    that a filter does not show.
    """

    is_folded: bool = True
    sort: str = "name"
    letters: Mapping[str, str] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    left_out: tuple[model.ContainerView, ...] = ()


WHOLE: Final = TreeShape()


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A line of text, and the container that it is about: the first of those folded into it; '' = none."""

    text: str
    container: str = ""


def owner_of(container: model.ContainerView) -> str:
    """Return the name of who owns its CPUs: the container, or its pod."""
    return f"{container.namespace}/{container.pod}" if container.shares_pod_cpus else str(container)


def use_text(container: model.ContainerView) -> str:
    """Return how a container uses its CPUs, in words."""
    shared = f"{container.shared_mcpu}m shared" if container.shared_mcpu else "shared"
    match container.kind:
        case CpuKind.PRESERVE:
            return "left alone"
        case CpuKind.RESERVED:
            return f"{container.reserved_mcpu}m reserved" if container.reserved_mcpu else "reserved"
        case CpuKind.SHARED:
            return f"{shared}, {OVERCOMMITTED}" if container.is_overcommitted else shared
    owned = []
    if container.exclusive:
        owned.append(f"{len(container.exclusive)} exclusive")
    if container.isolated:
        owned.append(f"{len(container.isolated)} isolated")
    if container.kind == CpuKind.MIXED or container.shared_mcpu:
        owned.append(shared)
    return " + ".join(owned) or container.kind


def pool_use_text(pool: PoolView) -> str:
    """Return the rest of a pool, in words."""
    unit = "CPU" if pool.shared_free_mcpu == 1000 else "CPUs"
    parts = [f"{cpu_text(pool.shared_free_mcpu)} {unit} free" if pool.shared else "nothing shared"]
    if pool.isolated_free:
        parts.append(f"isolated {pool.isolated_free}")
    return "; ".join(parts)


def is_wide(container: model.ContainerView) -> bool:
    """Return whether it may use memory nodes beyond its pool's: its memory did not fit, or is of another kind."""
    return container.mems is not None and bool(container.home_mems) and not container.mems <= container.home_mems


@dataclass(frozen=True, slots=True)
class _TreeRow:
    """A row of the tree, or a note (cells with one text), and the container that it is about; '' = none."""

    cells: Cells
    container: str = ""

    @property
    def is_note(self) -> bool:
        return len(self.cells.texts) == 1


def _folded(containers: Iterable[model.ContainerView], shape: TreeShape) -> list[list[model.ContainerView]]:
    """Return the containers in their order, those of a workload's pods together that differ in nothing but CPUs."""
    groups: dict[object, list[model.ContainerView]] = {}
    for number, each in enumerate(sorted(containers, key=SORTS[shape.sort])):
        is_apart = not shape.is_folded or each.workload_kind == "Pod" or not each.workload
        alike = (each.namespace, each.workload, each.name, each.kind, use_text(each), _state_words(each), each.notes)
        groups.setdefault(number if is_apart else alike, []).append(each)
    return list(groups.values())


def _state_words(container: model.ContainerView) -> str:
    words = [container.state] if container.state != "running" else []
    words += [COLD] if container.is_cold else []
    words += [CLAIMED] if container.claim else []
    words += [POD_CPUS] if container.shares_pod_cpus else []
    return ", ".join(words)


def _member_cells(members: Sequence[model.ContainerView], shape: TreeShape, lead: str, rest: str) -> Cells:
    """Return the row of a container, or of several that are folded into it."""
    first, count = members[0], len(members)
    cpus = [each.cpus for each in members if each.cpus is not None]
    mems = [each.mems for each in members if each.mems is not None]
    wide = WIDE if any(map(is_wide, members)) else ""
    memory_bytes = sum(each.memory_bytes for each in members)
    letters = "".join(dict.fromkeys(shape.letters.get(owner_of(each), "") for each in members))
    name = str(first) if count == 1 else f"{first.namespace}/{first.workload}/{first.name} in {count} pods"
    texts = (
        f"{letters} {name}".strip(),
        str(reduce(or_, cpus, CpuSet())) if cpus else "any",
        use_text(first) if count == 1 else f"{count} x {use_text(first)}",
        f"{reduce(or_, mems, NodeSet())}{wide}" if mems else "any",
        about_bytes_text(memory_bytes) if memory_bytes else "",
        _state_words(first),
    )
    owns = "green" if first.exclusive or first.isolated else ""
    is_changed = any(str(each) in shape.changed for each in members)
    return Cells(texts, ("cyan" if is_changed else "", owns, owns, "yellow" if wide else "", "", "yellow"), lead, rest)


def _pool_cells(pool: PoolView, lead: str, rest: str) -> Cells:
    free = f"{about_bytes_text(pool.memory_free_bytes)} free" if pool.memory_bytes else ""
    texts = (pool.name, str(pool.shared), pool_use_text(pool), str(pool.mems), free, "")
    return Cells(texts, ("bold",) * len(texts), lead, rest)


def _members(
    containers: Iterable[model.ContainerView], shape: TreeShape, stem: str, *, more_follow: bool
) -> list[_TreeRow]:
    rows: list[_TreeRow] = []
    groups = _folded(containers, shape)
    for i, members in enumerate(groups):
        is_last = i == len(groups) - 1 and not more_follow
        lead, rest = (f"{stem}└─ ", f"{stem}   ") if is_last else (f"{stem}├─ ", f"{stem}│  ")
        rows.append(_TreeRow(_member_cells(members, shape, lead, rest), str(members[0])))
        notes = (Cells((note,), ("yellow",), f"{rest}! ", f"{rest}  ") for note in members[0].notes)
        rows += [_TreeRow(cells, str(members[0])) for cells in notes]
    return rows


def _pool_rows(view: model.StatusView, shape: TreeShape, pool: PoolView, lead: str, stem: str) -> list[_TreeRow]:
    """Return a pool, the containers in it, then the pools below it."""
    below = [child for child in view.pools if child.parent == pool.name and child.name != pool.name]
    inside = [c for c in view.containers if c.pool == pool.name and c.kind != CpuKind.RESERVED]
    rows = [_TreeRow(_pool_cells(pool, lead, f"{stem}│  " if inside or below else f"{stem}   "))]
    rows += _members(inside, shape, stem, more_follow=bool(below))
    for i, child in enumerate(below):
        is_last = i == len(below) - 1
        branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        rows += _pool_rows(view, shape, child, stem + branch, stem + further)
    return rows


def _group_rows(title: str, cpus: str, containers: Sequence[model.ContainerView], shape: TreeShape) -> list[_TreeRow]:
    """Return containers outside the tree under a title; nothing without containers and CPUs."""
    if not containers and not cpus:
        return []
    head = _TreeRow(Cells((title, cpus, "", "", "", ""), ("bold",) * 6))
    return [head, *_members(containers, shape, "", more_follow=False)]


def _rows(view: model.StatusView, shape: TreeShape) -> list[_TreeRow]:
    roots = [pool for pool in view.pools if not pool.parent]
    rows = [row for root in roots for row in _pool_rows(view, shape, root, "", "")]
    names = {pool.name for pool in view.pools}
    reserved = str(roots[0].reserved) if roots else ""
    system = [container for container in view.containers if container.kind == CpuKind.RESERVED]
    others = [c for c in view.containers if c.pool not in names and c.kind != CpuKind.RESERVED]
    return rows + _group_rows(_SYSTEM, reserved, system, shape) + _group_rows(_OTHER, "", others, shape)


def tree_lines(view: model.StatusView, shape: TreeShape, *, colours: bool, width: int = WIDTH) -> list[TreeLine]:
    """Return pools and containers in columns; empty columns are left out."""
    rows = _rows(view, shape)
    tabular = [row.cells for row in rows if not row.is_note]
    if not tabular:
        return []
    used = [i for i, name in enumerate(_HEADER) if i < 4 or any(cells.texts[i] for cells in tabular)]
    header = _chosen(Cells(_HEADER, ("dim",) * len(_HEADER)), used)
    limits = scaled([_LIMITS[i] for i in used], width)
    widths = column_widths([header, *(_chosen(cells, used) for cells in tabular)], limits, flexible=0, total=width)
    lines = [TreeLine(text) for text in layout([header], widths, colours=colours)]
    for row in rows:
        cells = row.cells
        if row.is_note:
            note = paragraph(cells.texts[0], cells.rest, first=cells.lead, width=width)
            texts = [paint(line, "yellow", colours=colours) for line in note]
        else:
            texts = layout([_chosen(cells, used)], widths, colours=colours)
        lines += [TreeLine(text, row.container) for text in texts]
    marks = []
    if any(is_wide(container) for container in view.containers):
        marks.append(f"{WIDE} uses memory nodes beyond its pool's")
    if any(container.shares_pod_cpus for container in view.containers):
        marks.append(f"{POD_CPUS}: shared by its containers, counted once")
    return lines + [TreeLine(line) for mark in marks for line in paragraph(mark, "  ", width=width)]


def _chosen(row: Cells, columns: Sequence[int]) -> Cells:
    styles = tuple(row.styles[i] for i in columns) if row.styles else ()
    return Cells(tuple(row.texts[i] for i in columns), styles, row.lead, row.rest)
