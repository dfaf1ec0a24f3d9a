"""The memory of a daemon and of its helper processes, each page counted once, from /proc.

Anonymous pages are shared only by processes that were forked from each other: their proportional set sizes add up.
Pages of files are counted as in the process that has most of a mapping. Their PSS would be no measure: other programs
of the machine that measures run Python as well, and on a node perhaps none does.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ ([0-9a-f]+) \S+ \d+ *(.*)")


@dataclass(frozen=True, slots=True)
class Memory:
    """In MB of 10^6 bytes: the resident set of the first process, and all of the processes together."""

    first_mb: float
    all_mb: float
    processes: int


def memory_of(pid: int) -> Memory:
    """The memory of this process and its descendants."""
    processes = family(pid)
    files_kb: dict[str, int] = {}
    for process in processes:
        for name, kilobytes in _file_mappings(process):
            files_kb[name] = max(kilobytes, files_kb.get(name, 0))
    all_kb = sum(_rollup(process)["Pss_Anon"] for process in processes) + sum(files_kb.values())
    return Memory(_rollup(pid)["Rss"] * 1024 / 1e6, all_kb * 1024 / 1e6, len(processes))


def family(pid: int) -> tuple[int, ...]:
    """A process and its descendants."""
    lists = (path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return (pid, *(each for words in lists for word in words for each in family(int(word))))


def _rollup(pid: int) -> Mapping[str, int]:
    """The process's counters by name, in kB (proc_pid_smaps(5))."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(words.split()[0]) for name, _, words in (line.partition(":") for line in lines)}


def _file_mappings(pid: int) -> Iterator[tuple[str, int]]:
    """The resident pages of each mapped part of a file, in kB; those that were written to are anonymous."""
    name, resident_kb = "", 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = _HEAD.fullmatch(line)
        if head is not None:
            name = f"{head[2]} at {head[1]}" if head[2].startswith("/") else ""
        elif line.startswith("Rss:"):
            resident_kb = int(line.split()[1])
        elif line.startswith("Anonymous:") and name:
            yield name, resident_kb - int(line.split()[1])


def cpu_seconds(*processes: int) -> float:
    """The CPU time of these processes so far, all threads; helpers that have ended since are left out."""
    return sum(map(_cpu_seconds, processes))


def _cpu_seconds(pid: int) -> float:
    # The clock of a process (clock_getcpuclockid(3)): nanoseconds, where stat has hundredths of a second.
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0
