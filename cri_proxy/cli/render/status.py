"""Format the daemon's status as text: warnings, the tree of pools with containers, memory use, refusals. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cri_proxy.cli.render.amounts import about_bytes_text, instances_text, moment_text
from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout, paint, paragraph, scaled
from cri_proxy.cli.render.inventory_table import inventory_table
from cri_proxy.cli.render.pool_tree import WHOLE, TreeLine, TreeShape, owner_of, tree_lines
from cri_proxy.node.status import model
from cri_proxy.node.status.inventory import state_of
from policies.alignment import TopologyOptions, TopologyPolicy
from policies.answers import LargestFit
from sysfs.cpuset import CpuSet
from sysfs.show.cpu_map import MANY, drawn, legend, lettered, owned_by_letter
from sysfs.text import plural

_DEVICE_LIMITS = (24, 6, 4, 16, 20)  # of the columns of devices
# States of a cost file that are worth a word.
_ODD_FILES = (("kept", "by its last good content"), ("rejected", "rejected"))


def render_status(
    view: model.StatusView, *, colours: bool = False, width: int = WIDTH, shown: TreeShape = WHOLE
) -> str:
    """Return the whole status; long names and CPU lists wrap in their column, nothing is cut off."""
    return "\n".join(line.text for line in status_lines(view, colours=colours, width=width, shown=shown))


def status_lines(
    view: model.StatusView, *, colours: bool = False, width: int = WIDTH, shown: TreeShape = WHOLE
) -> list[TreeLine]:
    """Return the same as lines, those of the tree with their containers."""
    ready = "ready" if view.is_ready else "not ready: its warnings tell why"
    count = len(view.containers)
    of = f"{count} of " if shown.left_out else ""
    title = f"{view.node}: {view.policy}, {ready}, {of}{plural(count + len(shown.left_out), 'container')}"
    letters = letters_of(view, shown.letters)
    above = (
        [paint(title, "bold" if view.is_ready else "yellow", colours=colours), *_head(view, colours, width)],
        _sentences("violation", view.violations, "red", colours, width),
        _sentences("warning", view.warnings, "yellow", colours, width),
        _refused(view, colours, width),
        _fits(view.fits, width),
        _map(view, letters, shown.left_out, width),
    )
    below = (
        _memory(view.memory, colours, width),
        _huge_pages(view.memory, colours, width),
        _devices(view.devices, colours, width),
        inventory_table(view.inventory, colours=colours, width=width),
    )
    tree = tree_lines(view, replace(shown, letters=letters), colours=colours, width=width)
    blocks = [*map(_plain_lines, above), tree, *map(_plain_lines, below)]
    filled = [block for block in blocks if block]
    return [line for i, block in enumerate(filled) for line in ([TreeLine("")] if i else []) + block]


def _plain_lines(texts: Sequence[str]) -> list[TreeLine]:
    return [TreeLine(text) for text in texts]


def letters_of(view: model.StatusView, known: Mapping[str, str]) -> dict[str, str]:
    """Return a letter for each container that owns CPUs, the known ones first; one for all that share their pod's."""
    return lettered(dict.fromkeys(owner_of(each) for each in view.containers if each.exclusive or each.isolated), known)


def _fits(fits: LargestFit | None, width: int) -> list[str]:
    """Return what is free, and the largest container that still fits, on the machine and on each node."""
    if fits is None:
        return []
    isolated = f", {fits.free_isolated} isolated" if fits.free_isolated else ""
    free = f"free to own: {plural(fits.free_cpus, 'CPU')}{isolated}"
    largest = f"largest Guaranteed container that fits: {_fit_text(fits.cpus, fits.cpus_with_moves)}"
    lines = paragraph(f"{free}; {largest}", "  ", first="", width=width)
    nodes = ", ".join(f"node {fit.node}: {_fit_text(fit.cpus, fit.cpus_with_moves)}" for fit in fits.nodes)
    return lines + (paragraph(f"  {nodes}", "  ", first="", width=width) if len(fits.nodes) > 1 else [])


def _fit_text(cpus: int, with_moves: int) -> str:
    more = f" ({with_moves} if sharers move)" if with_moves != cpus else ""
    return f"{plural(cpus, 'CPU')}{more}"


def _map(
    view: model.StatusView, letters: Mapping[str, str], left_out: Sequence[model.ContainerView], width: int
) -> list[str]:
    """Return the machine with a letter for each owner that is shown, and what the other marks mean."""
    if view.map is None:
        return []
    owners = [(owner_of(c), c.exclusive | c.isolated) for c in view.containers if c.exclusive or c.isolated]
    owned = owned_by_letter(owners, letters)
    hidden = CpuSet.of_masks((c.exclusive | c.isolated).mask for c in left_out)
    marks = {**owned, MANY: owned.get(MANY, CpuSet()) | hidden} if hidden else owned
    meanings = legend(view.map) + (f"   {MANY} owned by others, which are left out here" if hidden else "")
    return [*drawn(view.map, marks, width=width), *paragraph(meanings, "  ", width=width)]


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


def _huge_pages(nodes: Sequence[model.MemoryNodeView], colours: bool, width: int) -> list[str]:
    """Return a line per memory node and size of its huge pages; nothing on a machine without any."""
    header = ("MEMORY NODE", "HUGE PAGES", "CAPACITY", "PROMISED HERE", "HERE OR ELSEWHERE")
    rows = [
        Cells((f"{node.node}", pages.page_size, *map(_amount, (pages.capacity_bytes, *_promises(pages)))))
        for node in nodes
        for pages in node.huge_pages
    ]
    return _table(header, rows, colours, width)


def _promises(view: model.MemoryNodeView | model.HugePageView) -> tuple[int, int]:
    return view.promised_bytes, view.widely_promised_bytes


def _amount(count: int) -> str:
    return about_bytes_text(count) if count else "-"


def _memory(nodes: Sequence[model.MemoryNodeView], colours: bool, width: int) -> list[str]:
    """Return a line per memory node, once anything is promised."""
    if not any(node.containers for node in nodes):
        return []
    header = ("MEMORY NODE", "KIND", "CAPACITY", "PROMISED HERE", "HERE OR ELSEWHERE", "CONTAINERS")
    rows = []
    for node in nodes:
        amounts = (about_bytes_text(node.memory_bytes), *map(_amount, _promises(node)))
        rows.append(Cells((f"{node.node}", node.kind, *amounts, str(node.containers))))
    return _table(header, rows, colours, width)


def _table(header: tuple[str, ...], rows: Sequence[Cells], colours: bool, width: int) -> list[str]:
    """Return rows below a header that limits the columns, the first of which takes what is left; nothing for none."""
    if not rows:
        return []
    rows = [Cells(header, ("dim",) * len(header)), *rows]
    limits = scaled([len(name) for name in header], width)
    return layout(rows, column_widths(rows, limits, flexible=0, total=width), colours=colours)


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
    return layout(rows, column_widths(rows, scaled(_DEVICE_LIMITS, width), flexible=4, total=width), colours=colours)


def _refused(view: model.StatusView, colours: bool, width: int) -> list[str]:
    """Return the containers that were refused last, a line each, and the number of the others."""
    lines = [paint("RECENTLY REFUSED", "dim", colours=colours)] if view.refused else []
    for each in view.refused:
        text = f"{moment_text(each.at_seconds)}  {each}: {each.text}"
        lines += paragraph(text, "    ", first="", width=width)
    more = view.refused_count - len(view.refused)
    return [*lines, f"and {more} more"] if more > 0 else lines


def _sentences(what: str, texts: Sequence[str], style: str, colours: bool, width: int) -> list[str]:
    lines = [line for text in texts for line in paragraph(f"{what}: {text}", "  ", first="", width=width)]
    return [paint(line, style, colours=colours) for line in lines]
