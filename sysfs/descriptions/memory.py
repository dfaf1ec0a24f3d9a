"""Read the memory-only nodes and the huge pages of a machine description; compute distances to all nodes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysfs.fields import Fields
from sysfs.memory_kind import MemoryFacts
from sysfs.model import HugePages, MemoryKind

MAX_PAGE_BYTES = 16 << 30  # the largest that a kernel has (powerpc)
LOCAL, FARTHEST = 10, 254  # the largest distance that still means reachable


@dataclass(frozen=True, slots=True)
class FarMemory:
    """A node without CPUs; ``near`` holds its distances to the nodes it is attached to."""

    memory: MemoryFacts
    near: Mapping[int, int]


def memory_nodes(fields: Fields, nodes: int) -> list[FarMemory]:
    """Return the described memory nodes, in order; ``nodes`` counts those with CPUs. Raises MachineSourceError."""
    found = []
    for item in fields.mappings("memory_nodes", ("memory", "kind", "near", "movable")):
        if "memory" not in item:
            raise item.refuse("memory", "give a quantity like 2Gi or 512M")
        kind = item.word("kind", "", tuple(MemoryKind)) if "kind" in item else ""
        movable = item.raw("movable")
        if not isinstance(movable, bool | None):
            raise item.refuse("movable", "give true or false")
        memory_bytes = item.quantity("memory", item.raw("memory"))
        memory = MemoryFacts(memory_bytes, is_normal=not movable, kind=MemoryKind(kind) if kind else None)
        found.append(FarMemory(memory, _near(item, nodes)))
    return found


def _near(item: Fields, nodes: int) -> dict[int, int]:
    """Return node to distance; empty when not given, which requires this node in ``distances``."""
    value = item.raw("near")
    remedy = f"give a mapping of nodes 0 to {nodes - 1} to distances from 11 to {FARTHEST}, like {{0: 17}}"
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not value:
        raise item.refuse("near", remedy)
    found = {}
    for node, distance in value.items():
        key = int(node) if isinstance(node, str) and node.isascii() and node.isdigit() and len(node) < 6 else node
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < nodes:
            raise item.refuse("near", remedy)
        if isinstance(distance, bool) or not isinstance(distance, int) or not LOCAL < distance <= FARTHEST:
            raise item.refuse("near", remedy)
        found[key] = distance
    return found


def huge_pages(fields: Fields, near: int, memory_bytes: Sequence[int]) -> list[tuple[HugePages, ...]]:
    """Return the huge pages of every node: ``{2Mi: 512, 1Gi: [4, 0]}`` are numbers of pages by size.

    One number is that of each of the first ``near`` nodes, those with CPUs; a list has one for each of these or for
    all nodes. Raises MachineSourceError.
    """
    value, found = fields.raw("hugepages"), [list[HugePages]() for _ in memory_bytes]
    if value is None:
        return [() for _ in found]
    if not isinstance(value, Mapping):
        raise fields.refuse("hugepages", "give a mapping of page sizes to numbers of pages, like {2Mi: 512}")
    for size, given in value.items():
        page_bytes = fields.quantity("hugepages", size)
        if page_bytes & (page_bytes - 1) or not 1 << 12 < page_bytes <= MAX_PAGE_BYTES:
            raise fields.refuse("hugepages", "give page sizes like 2Mi or 1Gi: a power of two, at most 16Gi")
        counts = list(given) if isinstance(given, list | tuple) else [given] * near
        if len(counts) not in {near, len(found)}:
            raise fields.refuse("hugepages", f"give one number of pages, or a list of {near}: one per node")
        for pools, count, most in zip(found, counts, memory_bytes, strict=False):
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count * page_bytes <= most:
                raise fields.refuse("hugepages", "give whole numbers of pages that fit in the node's memory")
            if count:
                pools.append(HugePages(page_bytes, count))
    return [tuple(pools) for pools in found]


def far_distances(
    fields: Fields, matrix: Sequence[Sequence[int]], near: Sequence[Mapping[int, int]]
) -> list[list[int]]:
    """Return the matrix with a row and a column added per memory node.

    A distance that is not given is that of the shortest path through the nodes it is attached to, as firmware tends to
    count: 17 to node 0, which is 21 from node 1, makes 28 to node 1. Raises MachineSourceError.
    """
    size = len(matrix)
    rows = [list(row) for row in matrix]
    for i, given in enumerate(near):
        if not given:
            raise fields.refuse("memory_nodes", f"give memory_nodes[{i}] a near, or list all nodes in distances")
        to_nodes = [given.get(n, min(d + rows[m][n] - LOCAL for m, d in given.items())) for n in range(size)]
        to_memory = [
            min(to_nodes[m] + distance - LOCAL for m, distance in near[j].items()) for j in range(i)
        ]  # rows of earlier memory nodes exist already
        row = [min(distance, FARTHEST) for distance in [*to_nodes, *to_memory]]
        for other, distance in zip(rows, row, strict=True):
            other.append(distance)
        rows.append([*row, LOCAL])
    return rows
