"""Caches of level 2 and 3 from ``cpuN/cache/indexM``, grouped by ``shared_cpu_list``.

Their ``id`` is not used: it repeats, or differs per CPU, on some machines. Caches are a refinement only, so whatever
is wrong with them is noted, and the cache left out. Source: Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from collections.abc import Iterable

from sysfs.assemble import CacheFacts
from sysfs.cpus import CPU
from sysfs.cpuset import CpuSet
from sysfs.errors import FileMissing, SysfsError
from sysfs.quantity import QuantityError, parse_bytes
from sysfs.reader import Reader

LEVELS = (2, 3)
MAX_SIZE_BYTES = 1 << 40  # a thousand times the largest cache there is


def read_caches(reader: Reader, online: CpuSet) -> list[CacheFacts]:
    """The data and unified caches of level 2 and 3. CPUs that share a read L2 share what lies beyond it too."""
    found: dict[CacheFacts, None] = {}  # in order of their lowest CPU
    done = CpuSet()
    for cpu in online:
        if cpu in done:
            continue
        for cache in _caches_of(reader, cpu, online):
            found.setdefault(cache)
            if cache.level == LEVELS[0]:
                done = done | cache.cpus
    return [cache for level in LEVELS for cache in _disjoint(reader, level, found)]


def _caches_of(reader: Reader, cpu: int, online: CpuSet) -> list[CacheFacts]:
    found = []
    base = f"{CPU}/cpu{cpu}/cache"
    for index in reader.numbered(base, "index"):
        try:
            cache = _cache(reader, f"{base}/index{index}", cpu, online)
        except SysfsError as error:
            reader.note(f"{error}; this cache is left out")
            continue
        if cache is not None:
            found.append(cache)
    return found


def _cache(reader: Reader, base: str, cpu: int, online: CpuSet) -> CacheFacts | None:
    """One cache directory; None for level 1, instruction caches, and levels beyond 3."""
    level = reader.integer(f"{base}/level")
    if level not in LEVELS or reader.text(f"{base}/type") == "Instruction":
        return None
    cpus = reader.cpus(f"{base}/shared_cpu_list") & online
    if cpu not in cpus:
        raise SysfsError(f"{base}/shared_cpu_list", f"a list with CPU {cpu} in it", repr(str(cpus)))
    return CacheFacts(level, cpus, _size_bytes(reader, f"{base}/size"))


def _size_bytes(reader: Reader, path: str) -> int:
    """The size, which the kernel prints as ``16384K``; 0 where it is not told."""
    try:
        text = reader.text(path)
    except FileMissing:
        return 0
    try:
        size_bytes = parse_bytes(f"{text}i" if text.endswith("K") else text)
    except QuantityError:
        raise SysfsError(path, "a size like 1024K", repr(text[:40])) from None
    if size_bytes > MAX_SIZE_BYTES:
        raise SysfsError(path, "a size like 1024K", repr(text[:40]))
    return size_bytes


def _disjoint(reader: Reader, level: int, found: Iterable[CacheFacts]) -> list[CacheFacts]:
    """The caches of this level, or none (with a note) when two of them overlap without being the same."""
    seen = CpuSet()
    caches = [cache for cache in found if cache.level == level]
    for cache in caches:
        if cache.cpus & seen:
            reader.note(f"level {level} caches overlap at CPUs {cache.cpus & seen}: level {level} is left out")
            return []
        seen = seen | cache.cpus
    return caches
