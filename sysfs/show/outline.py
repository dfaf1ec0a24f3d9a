"""Build a machine's containment tree and its irregularities; format them as text with distances and devices. Pure."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Core, CoreKind, Machine, NumaNode
from sysfs.quantity import bytes_text
from sysfs.show.pci_class import class_words
from sysfs.text import plural

WIDTH = 110
_ORDER = ("package", "die", "NUMA", "L3")  # of the names of one branch
_BRANCH, _LAST_BRANCH, _ALONG, _NO_BRANCH = "├─ ", "└─ ", "│  ", "   "
_SHORTEST_LIST = 48
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Branch:
    """A set of CPUs, or a memory-only node; it has several names where, say, a package is a NUMA node as well.

    ``cores`` are those that are in no child.
    """

    names: tuple[str, ...]
    cpus: CpuSet
    facts: tuple[str, ...]
    children: tuple["Branch", ...] = ()
    cores: tuple[Core, ...] = ()


def shown_bytes(count: int) -> str:
    """Return a size with about three digits: ``470 MiB``, ``31.5 GiB``.

    >>> shown_bytes(33822867456)
    '31.5 GiB'
    """
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    text = f"{amount:.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}"
    return f"{text} {_UNITS[unit]}"


def branches(machine: Machine) -> tuple[Branch, ...]:
    """Return the tree by containment: whichever of node, die and L3 is larger on this machine is the parent.

    A set that overlaps another without containment is left out; ``irregularities`` reports it.
    """
    merged: dict[int, Branch] = {}
    for nested in sorted(_nesting(machine)[0], key=lambda b: _ORDER.index(b.names[0].split()[0])):
        branch, same = nested, merged.get(nested.cpus.mask)
        if same is not None:
            branch = replace(same, names=same.names + branch.names, facts=same.facts + branch.facts)
        merged[branch.cpus.mask] = branch
    largest_first = sorted(merged.values(), key=lambda b: (-len(b.cpus), _lowest(b)))
    parents = [_parent(largest_first[:i], branch.cpus) for i, branch in enumerate(largest_first)]
    tops = [_with_children(machine, largest_first, parents, i) for i, parent in enumerate(parents) if parent < 0]
    return tuple(sorted(tops, key=_lowest))


def _lowest(branch: Branch) -> int:
    return min(branch.cpus, default=0)


def _nesting(machine: Machine) -> tuple[list[Branch], list[str]]:
    """Return the sets that nest, nodes first, and a sentence for each set that crosses one taken before."""
    several = {p.id for p in machine.packages if sum(d.package == p.id for d in machine.dies) > 1}
    things = [Branch((f"NUMA node {n.id}",), n.cpus, (_memory(n),)) for n in machine.nodes if n.cpus]
    things += [Branch((f"package {p.id}",), p.cpus, ()) for p in machine.packages]
    dies = [d for d in machine.dies if d.package in several]
    things += [Branch((f"die {d.id} of package {d.package}",), d.cpus, ()) for d in dies]
    for cache in (c for c in machine.caches if c.level == 3):
        facts = (f"{shown_bytes(cache.size_bytes)} cache",) if cache.size_bytes else ()
        things.append(Branch((f"L3 #{cache.index}",), cache.cpus, facts))
    taken: list[Branch] = []
    crossing = []
    for thing in things:
        crossed = next((other for other in taken if _cross(thing.cpus, other.cpus)), None)
        if crossed is None:
            taken.append(thing)
        else:
            crossing.append(f"{thing.names[0]} crosses the border of {crossed.names[0]}: it is no level of the tree")
    return [replace(b, names=(b.names[0].partition(" of ")[0],)) for b in taken], crossing


def _cross(a: CpuSet, b: CpuSet) -> bool:
    """Return True when the sets share CPUs and neither contains the other."""
    return not (a.isdisjoint(b) or a <= b or b <= a)


def _memory(node: NumaNode) -> str:
    if not node.memory_bytes:
        return "no memory"
    movable = "" if node.is_normal_memory else ", movable"
    huge = "".join(f", {bytes_text(pages.page_bytes)} huge pages: {pages.count}" for pages in node.huge_pages)
    return f"{shown_bytes(node.memory_bytes)} {node.kind.upper()}{movable}{huge}"


def _parent(larger: Sequence[Branch], cpus: CpuSet) -> int:
    """Return the index of the smallest branch that contains these CPUs; -1 for none."""
    return max((i for i, other in enumerate(larger) if cpus <= other.cpus), default=-1)


def _with_children(machine: Machine, flat: Sequence[Branch], parents: Sequence[int], index: int) -> Branch:
    """Return the branch with its children, its memory-only nodes and its own cores."""
    branch = flat[index]
    held = [_with_children(machine, flat, parents, i) for i, parent in enumerate(parents) if parent == index]
    covered = CpuSet.of_masks(child.cpus.mask for child in held)
    far = [_far(machine, n) for n in machine.nodes if not n.cpus and _home(machine, flat, n) == index]
    cores = tuple(c for c in machine.cores if c.cpus & (branch.cpus - covered))
    return replace(branch, children=(*sorted(held, key=_lowest), *far), cores=cores)


def _home(machine: Machine, flat: Sequence[Branch], node: NumaNode) -> int:
    """Return the index of a memory-only node's parent: the smallest branch with all CPUs of its closest nodes."""
    return max(_parent(flat, CpuSet.of_masks(n.cpus.mask for n in machine.nodes if n.id in node.near)), 0)


def _far(machine: Machine, node: NumaNode) -> Branch:
    near = ", ".join(f"{node.distance_to(n)} from node {n}" for n in node.near)
    return Branch((f"NUMA node {node.id}",), CpuSet(), (_memory(node), near) if near else (_memory(node),))


def irregularities(machine: Machine) -> tuple[str, ...]:
    """Return one sentence for every NUMA node and L3 that spans packages or dies, and for every set that does not nest.

    The pool tree has no such level in the packages concerned.
    """
    found = _nesting(machine)[1]
    things = [(f"NUMA node {n.id}", n.cpus) for n in machine.nodes]
    things += [(f"L3 #{c.index}", c.cpus) for c in machine.caches if c.level == 3]
    for name, cpus in things:
        packages = [p.id for p in machine.packages if p.cpus & cpus]
        if len(packages) > 1:
            found.append(f"{name} spans packages {NodeSet.of(packages)}")
        for package in packages:
            dies = [d for d in machine.dies if d.package == package and d.cpus & cpus]
            if len(dies) > 1:
                found.append(f"{name} spans dies {NodeSet.of(d.id for d in dies)} of package {package}")
    return tuple(found)


def outline(machine: Machine, width: int = WIDTH) -> str:
    """Return the machine as text: tree, distances, devices and notes, in lines of at most this width where possible.

    Lines break between words; a word, and a row of the table of distances, may be wider.
    """
    memory = sum(n.memory_bytes for n in machine.nodes)
    head = [
        f"{plural(len(machine.packages), 'package')}, {plural(len(machine.nodes), 'NUMA node')}, "
        f"{plural(len(machine.cores), 'core')}, {plural(len(machine.cpus), 'CPU')}, {shown_bytes(memory)} of memory",
        f"online {machine.online}, offline {machine.offline or 'none'}, "
        f"isolated {machine.isolated or 'none'}{' (in brackets below)' * bool(machine.isolated)}",
    ]
    lines = [line for text in head for line in _wrapped(text, width)]
    lines.append("")
    for branch in branches(machine):
        lines += _lines(machine, branch, width)
    lines += ["", *_distances(machine)]
    lines += _devices(machine, width)
    remarks = (*irregularities(machine), *machine.notes)
    lines += ["", "notes"] if remarks else []
    lines += [line for remark in remarks for line in _wrapped(f"  {remark}", width)]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int, indent: str = "    ") -> list[str]:
    """Return a text in lines that break between words, further lines behind ``indent``."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _lines(machine: Machine, branch: Branch, width: int) -> list[str]:
    """Return the lines of a branch and everything below it."""
    cpus = (f"CPUs {_shortened(branch.cpus, width)}",) if branch.cpus else ()
    lines = _wrapped("  ".join([" = ".join(branch.names), *cpus, *branch.facts]), width)
    inside = width - len(_BRANCH)
    blocks = [_cores(machine, branch.cores, inside)] if branch.cores else []
    blocks += [_lines(machine, child, inside) for child in branch.children]
    for block in blocks:
        is_last = block is blocks[-1]
        lines.append((_LAST_BRANCH if is_last else _BRANCH) + block[0])
        lines += [(_NO_BRANCH if is_last else _ALONG) + line for line in block[1:]]
    return lines


def _cores(machine: Machine, cores: Sequence[Core], width: int) -> list[str]:
    """Return the thread siblings of each core; e marks efficiency cores, brackets isolated CPUs."""
    kinds = {cpu.id: cpu.kind for cpu in machine.cpus}
    words = []
    for core in cores:
        mark = "e" if kinds[min(core.cpus)] is CoreKind.EFFICIENCY else ""
        words.append(mark + ",".join(f"[{cpu}]" if cpu in machine.isolated else str(cpu) for cpu in core.cpus))
    head = f"{plural(len(cores), 'core')}: "
    return _wrapped(head + " ".join(words), width, " " * len(head))


def _distances(machine: Machine) -> list[str]:
    ids = [n.id for n in machine.nodes]
    width = max(len(str(i)) for i in [*ids, 255])
    head = "distance " + " ".join(f"{i:>{width}}" for i in ids)
    rows = [f"{n.id:>8} " + " ".join(f"{n.distance_to(i):>{width}}" for i in ids) for n in machine.nodes]
    return [head, *rows]


def _devices(machine: Machine, width: int) -> list[str]:
    """Return a line per device that is no bridge (class 06), with its path from the host bridge."""
    devices = [d for d in machine.devices if d.class_code >> 16 != 6]
    if not devices:
        return []
    lines = ["", f"PCI devices ({plural(len(machine.devices) - len(devices), 'bridge')} not shown)"]
    for d in devices:
        node = f"node {d.node}" if d.node >= 0 else "no node"
        virtual = f"  (virtual function of {d.physical_function})" if d.physical_function else ""
        kind = f"{class_words(d.class_code)} ({d.class_code:06x})"
        lines += _wrapped(f"  {d.address}  {kind}  {node}  {' > '.join(d.bridges)}{virtual}", width, " " * 16)
    return lines


def _shortened(cpus: CpuSet, width: int) -> str:
    """Return a CPU list that fits in half a line; the lines of the cores name every CPU."""
    text, most = str(cpus), max(_SHORTEST_LIST, width // 2)
    if len(text) <= most:
        return text
    return f"{text[: text.rindex(',', 0, most - 8)]},... ({len(cpus)} CPUs)"
