"""Read the pools of huge pages of a NUMA node, or of a kernel without NUMA.

Source: Documentation/admin-guide/mm/hugetlbpage.rst of the kernel.
"""

import re
from collections.abc import Iterator

from sysfs.model import HugePages
from sysfs.reader import TreeReader

OF_NODE = "hugepages"  # in the node's directory
OF_MACHINE = "sys/kernel/mm/hugepages"

# A kernel has at most four sizes (HUGE_MAX_HSTATE), the largest of 16 GiB: eight digits of KiB.
_SIZE = re.compile(r"hugepages-([1-9]\d{0,7})kB")


def read_huge_pages(reader: TreeReader, directory: str, memory_bytes: int) -> tuple[HugePages, ...]:
    """Return the pools that have pages, by ascending size; a note stands for each that cannot be believed."""
    found = []
    for page_bytes, path in sorted(_pools(reader, directory)):
        pages = HugePages(page_bytes, max(reader.lenient(reader.integer, path, 0), 0))
        if pages.total_bytes > memory_bytes:
            reader.note(f"{path}: {pages.count} pages are more than the node's memory; ignored")
        elif pages.count:
            found.append(pages)
    return tuple(found)


def count_paths(reader: TreeReader, directory: str) -> list[str]:
    """Return the files with the number of pages, one for each size."""
    return [path for _, path in sorted(_pools(reader, directory))]


def _pools(reader: TreeReader, directory: str) -> Iterator[tuple[int, str]]:
    """Yield each size in bytes with the file that has the number of its pages."""
    names: list[str] = []
    for name in reader.lenient(reader.names, directory, names):
        match = _SIZE.fullmatch(name)
        if match is not None:
            yield int(match[1]) << 10, f"{directory}/{name}/nr_hugepages"
