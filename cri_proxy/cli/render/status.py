"""Format the daemon's status as text: warnings, the tree of pools with containers, memory use, refusals. Pure."""

from collections import Counter
from collections.abc import Sequence

from cri_proxy.cli.render.amounts import about_bytes_text, cpu_text, instances_text, moment_text
from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout, paint, paragraph
from cri_proxy.cli.render.inventory_table import inventory_table
from cri_proxy.node.status import model
from cri_proxy.node.status.inventory import state_of
from policies.alignment import TopologyOptions, TopologyPolicy
from policies.base import CpuKind, PoolView
from sysfs.text import plural

# Widths beyond which a column wraps: tree (which takes what the others leave), CPUs, use, memory nodes, memory, state.
# Together with the gaps they are 80.
_LIMITS = (19, 12, 15, 5, 11, 8)
_HEADER = ("POOL / CONTAINER", "CPUS", "USE", "MEM", "MEMORY", "STATE")
_DEVICE_LIMITS = (24, 6, 4, 16, 20)  # of the columns of devices
_SYSTEM = "reserved for the system"
_OTHER = "in no pool"
_NOTE = 1  # the cells of a row that is a note
# States of a cost file that are worth a word.
_ODD_FILES = (("kept", "by its last good content"), ("rejected", "rejected"))
WIDE = "+"
COLD = "cold"
POD_CPUS = "pod's CPUs"
CLAIMED = "claimed"  # its CPUs were decided elsewhere
OVERCOMMITTED = "overcommitted"


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


def _container_cells(container: model.ContainerView, lead: str, rest: str) -> Cells:
    cpus = "any" if container.cpus is None else str(container.cpus)
    mems = "any" if container.mems is None else f"{container.mems}{WIDE if is_wide(container) else ''}"
    memory = about_bytes_text(container.memory_bytes) if container.memory_bytes else ""
    owns = "green" if container.exclusive or container.isolated else ""
    words = [container.state] if container.state != "running" else []
    words += [COLD] if container.is_cold else []
    words += [CLAIMED] if container.claim else []
    words += [POD_CPUS] if container.shares_pod_cpus else []
    texts = (str(container), cpus, use_text(container), mems, memory, ", ".join(words))
    return Cells(texts, ("", owns, owns, "yellow" if is_wide(container) else "", "", "yellow"), lead, rest)


def _pool_cells(pool: PoolView, lead: str, rest: str) -> Cells:
    free = f"{about_bytes_text(pool.memory_free_bytes)} free" if pool.memory_bytes else ""
    texts = (pool.name, str(pool.shared), pool_use_text(pool), str(pool.mems), free, "")
    return Cells(texts, ("bold",) * len(texts), lead, rest)


def _members(containers: Sequence[model.ContainerView], stem: str, *, more_follow: bool) -> list[Cells]:
    rows: list[Cells] = []
    for i, container in enumerate(containers):
        is_last = i == len(containers) - 1 and not more_follow
        rest = f"{stem}   " if is_last else f"{stem}│  "
        rows.append(_container_cells(container, f"{stem}└─ " if is_last else f"{stem}├─ ", rest))
        rows += [Cells((note,), ("yellow",), f"{rest}! ", f"{rest}  ") for note in container.notes]
    return rows


def _pool_rows(view: model.StatusView, pool: PoolView, lead: str, stem: str) -> list[Cells]:
    """Return a pool, the containers in it, then the pools below it."""
    below = [child for child in view.pools if child.parent == pool.name and child.name != pool.name]
    inside = [c for c in view.containers if c.pool == pool.name and c.kind != CpuKind.RESERVED]
    rows = [_pool_cells(pool, lead, f"{stem}│  " if inside or below else f"{stem}   ")]
    rows += _members(inside, stem, more_follow=bool(below))
    for i, child in enumerate(below):
        is_last = i == len(below) - 1
        branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        rows += _pool_rows(view, child, stem + branch, stem + further)
    return rows


def _group_rows(title: str, cpus: str, containers: Sequence[model.ContainerView]) -> list[Cells]:
    """Return containers outside the tree under a title; nothing without containers and CPUs."""
    if not containers and not cpus:
        return []
    stem_rows = _members(containers, "", more_follow=False)
    return [Cells((title, cpus, "", "", "", ""), ("bold",) * 6), *stem_rows]


def _rows(view: model.StatusView) -> list[Cells]:
    roots = [pool for pool in view.pools if not pool.parent]
    rows = [row for root in roots for row in _pool_rows(view, root, "", "")]
    names = {pool.name for pool in view.pools}
    reserved = str(roots[0].reserved) if roots else ""
    system = [container for container in view.containers if container.kind == CpuKind.RESERVED]
    others = [c for c in view.containers if c.pool not in names and c.kind != CpuKind.RESERVED]
    return rows + _group_rows(_SYSTEM, reserved, system) + _group_rows(_OTHER, "", others)


def render_status(view: model.StatusView, *, colours: bool = False, width: int = WIDTH) -> str:
    """Return the whole status; long names and CPU lists wrap in their column, nothing is cut off."""
    ready = "ready" if view.is_ready else "not ready: its warnings tell why"
    title = f"{view.node}: {view.policy}, {ready}, {plural(len(view.containers), 'container')}"
    blocks = [
        [paint(title, "bold" if view.is_ready else "yellow", colours=colours), *_head(view, colours, width)],
        _tree(view, colours, width),
        _memory(view.memory, colours),
        _huge_pages(view.memory, colours),
        _devices(view.devices, colours, width),
        inventory_table(view.inventory, colours=colours, width=width),
        _refused(view.refused, colours, width),
        _sentences("violation", view.violations, "red", colours, width),
        _sentences("warning", view.warnings, "yellow", colours, width),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(view: model.StatusView, colours: bool, width: int) -> list[str]:
    """Return the lines below the title: the active file, cost files, CDI, the topology policy where there is one."""
    texts = [*_configuration(view), *_cost_files(view.costs), *_inventory(view), *_cdi(view), *_topology(view.topology)]
    lines = [line for text in texts for line in paragraph(text, "  ", first="", width=width)]
    return [paint(line, "dim", colours=colours) for line in lines]


def _topology(chosen: TopologyOptions | None) -> list[str]:
    """Return the topology policy in force with its scope and options; nothing where no hints are merged."""
    if chosen is None or chosen.policy is TopologyPolicy.NONE:
        return []
    options = ["prefer-closest-numa-nodes"] if chosen.prefers_closest else []
    options += ["preferred-allocation-hints"] if chosen.prefers_chosen_sets else []
    options += [f"max-allowable-numa-nodes {chosen.most_nodes}"] if chosen.most_nodes else []
    return [f"topology policy: {', '.join([chosen.policy, f'scope {chosen.scope}', *options])}"]


def _configuration(view: model.StatusView) -> list[str]:
    """Return the active file and since when; nothing without a file. A rejected change is among the warnings."""
    known = view.configuration
    if known is None or not known.file:
        return []
    group = f" (group {known.group})" if known.group else ""
    old = " (last valid version)" if known.is_kept else ""
    since = moment_text(known.since_seconds)
    return [f"configuration: {known.file}{group}{old}, sha256 {known.digest[:12]}, since {since}"]


def _cost_files(view: model.CostFilesView | None) -> list[str]:
    """Return how many cost files there are; nothing without any. What is wrong with them is among the warnings."""
    if view is None or not view.report.files:
        return []
    states = Counter(str(file.state) for file in view.report.files)
    odd = [f"{states[state]} {word}" for state, word in _ODD_FILES if states[state]]
    files = plural(len(view.report.files), "file") + (f" ({', '.join(odd)})" if odd else "")
    return [f"cost files: {view.directory}, {files}, {plural(view.device_count, 'device')}"]


def _cdi(view: model.StatusView) -> list[str]:
    """Return how containers get their devices by CDI; nothing on a node without devices."""
    return [f"CDI devices: {view.cdi.text}"] if view.cdi is not None and (view.devices or view.inventory) else []


def _inventory(view: model.StatusView) -> list[str]:
    """Return how many devices of the inventory there are of each type, and how many are free."""
    if not view.inventory:
        return []
    kinds = dict.fromkeys(device.type for device in view.inventory)
    known = {kind: [each for each in view.inventory if each.type == kind and not each.is_missing] for kind in kinds}
    counts = (f"{kind} {len(of)} ({sum(state_of(each) == 'free' for each in of)} free)" for kind, of in known.items())
    file = view.inventory_file
    return [f"inventory: {f'{file.file}, ' if file is not None and file.file else ''}{', '.join(counts)}"]


def _tree(view: model.StatusView, colours: bool, width: int) -> list[str]:
    """Return pools and containers in columns; empty columns are left out."""
    rows = _rows(view)
    tabular = [row for row in rows if len(row.texts) > _NOTE]
    if not tabular:
        return []
    used = [i for i, name in enumerate(_HEADER) if i < 4 or any(row.texts[i] for row in tabular)]
    header = _chosen(Cells(_HEADER, ("dim",) * len(_HEADER)), used)
    limits = [_LIMITS[i] for i in used]
    widths = column_widths([header, *(_chosen(row, used) for row in tabular)], limits, flexible=0, total=width)
    lines = layout([header], widths, colours=colours)
    for row in rows:
        if len(row.texts) > _NOTE:
            lines += layout([_chosen(row, used)], widths, colours=colours)
        else:
            note = paragraph(row.texts[0], row.rest, first=row.lead, width=width)
            lines += [paint(line, "yellow", colours=colours) for line in note]
    if any(is_wide(container) for container in view.containers):
        lines += paragraph(f"{WIDE} uses memory nodes beyond its pool's", "  ", width=width)
    if any(container.shares_pod_cpus for container in view.containers):
        lines += paragraph(f"{POD_CPUS}: shared by its containers, counted once", "  ", width=width)
    return lines


def _chosen(row: Cells, columns: Sequence[int]) -> Cells:
    styles = tuple(row.styles[i] for i in columns) if row.styles else ()
    return Cells(tuple(row.texts[i] for i in columns), styles, row.lead, row.rest)


def _huge_pages(nodes: Sequence[model.MemoryNodeView], colours: bool) -> list[str]:
    """Return a line per memory node and size of its huge pages; nothing on a machine without any."""
    header = ("MEMORY NODE", "HUGE PAGES", "CAPACITY", "PROMISED HERE", "HERE OR ELSEWHERE")
    rows = [
        Cells((f"{node.node}", pages.page_size, *map(_amount, (pages.capacity_bytes, *_promises(pages)))))
        for node in nodes
        for pages in node.huge_pages
    ]
    if not rows:
        return []
    rows = [Cells(header, ("dim",) * len(header)), *rows]
    return layout(rows, column_widths(rows, [len(name) for name in header], flexible=0), colours=colours)


def _promises(view: model.MemoryNodeView | model.HugePageView) -> tuple[int, int]:
    return view.promised_bytes, view.widely_promised_bytes


def _amount(count: int) -> str:
    return about_bytes_text(count) if count else "-"


def _memory(nodes: Sequence[model.MemoryNodeView], colours: bool) -> list[str]:
    """Return a line per memory node, once anything is promised."""
    if not any(node.containers for node in nodes):
        return []
    header = ("MEMORY NODE", "KIND", "CAPACITY", "PROMISED HERE", "HERE OR ELSEWHERE", "CONTAINERS")
    rows = [Cells(header, ("dim",) * len(header))]
    for node in nodes:
        amounts = (about_bytes_text(node.memory_bytes), *map(_amount, _promises(node)))
        rows.append(Cells((f"{node.node}", node.kind, *amounts, str(node.containers))))
    return layout(rows, column_widths(rows, [len(name) for name in header], flexible=0), colours=colours)


def _devices(types: Sequence[model.DeviceUseView], colours: bool, width: int) -> list[str]:
    """Return a line per type of devices, and one for each further container that holds some."""
    if not types:
        return []
    header = ("DEVICES", "LISTED", "HELD", "FREE", "HELD BY")
    rows = [Cells(header, ("dim",) * len(header))]
    for each in types:
        free = instances_text(each.kind, each.free) or "-"
        holders = [f"{holder.container}: {instances_text(each.kind, holder.devices)}" for holder in each.holders]
        gone = [f"no longer listed: {instances_text(each.kind, each.unlisted)}"] if each.unlisted else []
        first, *more = [*holders, *gone] or ["-"]
        rows.append(Cells((each.kind, str(each.present), str(each.held), free, first)))
        rows += [Cells(("", "", "", "", text)) for text in more]
    return layout(rows, column_widths(rows, _DEVICE_LIMITS, flexible=4, total=width), colours=colours)


def _refused(refused: Sequence[model.RefusedView], colours: bool, width: int) -> list[str]:
    """Return the containers that were refused last, a line each."""
    lines = [paint("RECENTLY REFUSED", "dim", colours=colours)] if refused else []
    for each in refused:
        text = f"{moment_text(each.at_seconds)}  {each}: {each.text}"
        lines += paragraph(text, "    ", first="", width=width)
    return lines


def _sentences(what: str, texts: Sequence[str], style: str, colours: bool, width: int) -> list[str]:
    lines = [line for text in texts for line in paragraph(f"{what}: {text}", "  ", first="", width=width)]
    return [paint(line, style, colours=colours) for line in lines]
