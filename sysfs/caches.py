"""Read the level 2 and 3 caches from ``cpuN/cache/indexM`` of sysfs, grouped by ``shared_cpu_list``.

Their ``id`` is not used: on some machines it repeats, or differs per CPU. Caches only refine a placement: one that
cannot be read is noted and left out. Source: Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from collections.abc import Iterable, Iterator

from sysfs.cpus import CPU
from sysfs.cpuset import CpuSet
from sysfs.errors import SysfsError
from sysfs.model import Cache
from sysfs.quantity import QuantityError, parse_bytes
from sysfs.reader import TreeReader

LEVELS = (2, 3)
MAX_SIZE_BYTES = 1 << 40  # a thousand times the largest known cache


def read_caches(reader: TreeReader, online: CpuSet) -> list[Cache]:
    """Return the data and unified caches of level 2 and 3."""
    found: dict[Cache, None] = {}  # ordered by lowest CPU
    done = CpuSet()
    for cpu in online:
        if cpu in done:
            continue
        for cache in _caches_of(reader, cpu, online):
            found.setdefault(cache)
            if cache.level == LEVELS[0]:
                done = done | cache.cpus  # CPUs that share an L2 share the larger caches, too
    return [cache for level in LEVELS for cache in _disjoint(reader, level, found)]


def _caches_of(reader: TreeReader, cpu: int, online: CpuSet) -> Iterator[Cache]:
    base = f"{CPU}/cpu{cpu}/cache"
    for index in reader.numbered(base, "index"):
        try:
            cache = _cache(reader, f"{base}/index{index}", cpu, online)
        except SysfsError as error:
            reader.note(f"{error}; this cache is left out")
        else:
            yield from [cache] if cache else []


def _cache(reader: TreeReader, base: str, cpu: int, online: CpuSet) -> Cache | None:
    """Return the cache of one directory; None for instruction caches and other levels. Raises SysfsError."""
    level = reader.integer(f"{base}/level")
    if level not in LEVELS or reader.text(f"{base}/type") == "Instruction":
        return None
    cpus = reader.cpus(f"{base}/shared_cpu_list") & online
    if cpu not in cpus:
        raise SysfsError(f"{base}/shared_cpu_list", f"a list with CPU {cpu} in it", repr(str(cpus)))
    return Cache(level, cpus, _size_bytes(reader, f"{base}/size"))


def _size_bytes(reader: TreeReader, path: str) -> int:
    """Return the size, which the kernel prints as ``16384K``; 0 without the file. Raises SysfsError."""
    text = reader.optional(reader.text, path, "0")
    try:
        # The kernel's K is 1024 bytes, which a quantity writes Ki.
        size_bytes = parse_bytes(f"{text}i" if text.endswith("K") else text)
    except QuantityError:
        size_bytes = -1
    if not 0 <= size_bytes <= MAX_SIZE_BYTES:
        raise SysfsError(path, "a size like 1024K", repr(text[:40]))
    return size_bytes


def _disjoint(reader: TreeReader, level: int, found: Iterable[Cache]) -> list[Cache]:
    """Return the caches of this level; none, with a note, when two different ones overlap."""
    seen = CpuSet()
    caches = [cache for cache in found if cache.level == level]
    for cache in caches:
        if cache.cpus & seen:
            # Either of the two may be the wrong one.
            reader.note(f"level {level} caches overlap at CPUs {cache.cpus & seen}: level {level} is left out")
            return []
        seen = seen | cache.cpus
    return caches
