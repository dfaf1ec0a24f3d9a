"""Read the memory-only nodes and the huge pages of a machine description; compute distances to all nodes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysfs.documents.forms import TRUTH, by_key, each, form, integer, one_of, scalar, whole
from sysfs.documents.table import KeyRow, Table
from sysfs.documents.value import DocumentValue
from sysfs.memory_kind import MemoryFacts
from sysfs.model import HugePages, MemoryKind
from sysfs.quantity import bytes_text, parse_bytes

MAX_MEMORY_BYTES = 1 << 60  # far above any machine: larger values are typing errors
MAX_PAGE_BYTES = 16 << 30  # the largest that a kernel has (powerpc)
LOCAL, FARTHEST = 10, 254  # the largest distance that still means reachable


@dataclass(frozen=True, slots=True)
class FarMemory:
    """A node without CPUs; ``near`` holds its distances to the nodes it is attached to."""

    memory: MemoryFacts
    near: Mapping[int, int]


def quantity(value: DocumentValue, what: str) -> int:
    """Return the bytes of a quantity: ``2Gi`` or a number."""
    memory_bytes = value.parsed(what, parse_bytes)
    if memory_bytes > MAX_MEMORY_BYTES:
        raise value.refuse(f"{what}: {value.shown()} is more than an exbibyte")
    return memory_bytes


def _near(value: DocumentValue, what: str) -> dict[int, int]:
    """Return the distances to nodes, by node."""
    found = by_key(value, what, whole)
    if not found:
        raise value.refuse(f"{what}: give a mapping of nodes to distances, like {{0: 17}}")
    return {node: _DISTANCE.read(distance, f"{what}.{node}", None) for node, distance in found.items()}


_DISTANCE = integer(LOCAL + 1, FARTHEST)
MEMORY_NODE = Table(
    lambda memory, kind=None, near={}, movable=False: FarMemory(
        MemoryFacts(memory, is_normal=not movable, kind=kind), near
    ),
    KeyRow("memory", form(quantity), "how much", "memory is missing; give a quantity like 2Gi or 512M"),
    KeyRow("kind", scalar(one_of(MemoryKind)), "dram, pmem or hbm"),
    KeyRow("near", form(_near), "distances to the nodes that it is attached to: `{0: 17}`"),
    KeyRow("movable", TRUTH, "true: the kernel cannot use it for itself"),
)


def page_counts(value: DocumentValue, what: str) -> dict[int, int | tuple[int, ...]]:
    """Return numbers of huge pages by their size: of every node with CPUs, or one for each node."""
    found: dict[int, int | tuple[int, ...]] = {}
    for size, given in by_key(value, what, parse_bytes).items():
        if size & (size - 1) or not 1 << 12 < size <= MAX_PAGE_BYTES:
            raise given.refuse(f"{what}: give page sizes like 2Mi or 1Gi: a power of two, at most 16Gi")
        found[size] = (each(_PAGES) if given.is_list else _PAGES).read(given, f"{what}.{bytes_text(size)}", None)
    return found


_PAGES = integer(0, MAX_MEMORY_BYTES)


def huge_pages(
    described: Mapping[int, int | Sequence[int]], near: int, memory_bytes: Sequence[int]
) -> list[tuple[HugePages, ...]]:
    """Return the huge pages of every node. Raises ValueError.

    One number is that of each of the first ``near`` nodes, those with CPUs; a list has one for each of these or for
    all nodes.
    """
    found = [list[HugePages]() for _ in memory_bytes]
    for page_bytes, given in described.items():
        counts = [given] * near if isinstance(given, int) else given
        if len(counts) not in {near, len(found)}:
            raise ValueError(f"hugepages: give one number of pages, or a list of {near}: one per node")
        for pools, count, most in zip(found, counts, memory_bytes, strict=False):
            if count * page_bytes > most:
                raise ValueError("hugepages: give numbers of pages that fit in the node's memory")
            if count:
                pools.append(HugePages(page_bytes, count))
    return [tuple(pools) for pools in found]


def far_distances(matrix: Sequence[Sequence[int]], near: Sequence[Mapping[int, int]]) -> list[list[int]]:
    """Return the matrix with a row and a column added per memory node.

    A distance that is not given is that of the shortest path through the nodes it is attached to, as firmware tends to
    count: 17 to node 0, which is 21 from node 1, makes 28 to node 1. Raises ValueError.
    """
    size = len(matrix)
    rows = [list(row) for row in matrix]
    for i, given in enumerate(near):
        if not given:
            raise ValueError(f"memory_nodes: give memory_nodes[{i}] a near, or list all nodes in distances")
        if max(given) >= size:
            raise ValueError(f"memory_nodes[{i}].near: give nodes from 0 to {size - 1}")
        to_nodes = [given.get(n, min(d + rows[m][n] - LOCAL for m, d in given.items())) for n in range(size)]
        to_memory = [
            min(to_nodes[m] + distance - LOCAL for m, distance in near[j].items()) for j in range(i)
        ]  # rows of earlier memory nodes exist already
        row = [min(distance, FARTHEST) for distance in [*to_nodes, *to_memory]]
        for other, distance in zip(rows, row, strict=True):
            other.append(distance)
        rows.append([*row, LOCAL])
    return rows
