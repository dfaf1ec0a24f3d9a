"""How long it takes to read a machine of 1792 CPUs from sysfs. Run: python benchmarks/discovery.py [RUNS].

Prints medians of wall and CPU time, and their ratio to a fixed pure-Python loop of the same process, by which
machines of different speed can be compared. The tree is written to disk first and read through the page cache, as
sysfs itself is never on a disk.
"""

import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sysfs.descriptions.machine import describe
from sysfs.discover import discover
from tests.fakes.sysfs_tree import write_tree

LARGE = {"packages": 8, "dies": 1, "nodes": 4, "cores": 28, "threads": 2, "numbering": "split", "memory": "64Gi"}
REFERENCE_STEPS = 1_000_000
BAR_SECONDS = 1.0


def reference_seconds() -> float:
    """The time of a fixed loop of integer arithmetic."""
    start = time.process_time()
    total = 0
    for i in range(REFERENCE_STEPS):
        total = (total + i * i) & 0xFFFF
    return time.process_time() - start


def main(runs: int) -> int:
    """Print the figures; 1 when the median misses the bar."""
    machine = describe(LARGE)
    with TemporaryDirectory() as directory:
        root = write_tree(Path(directory), machine)
        if discover(root) != machine:
            print("the tree does not read back as the machine that it was written from")
            return 1
        wall, cpu, reference = [], [], []
        for _ in range(runs):
            start, start_cpu = time.perf_counter(), time.process_time()
            discover(root)
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - start_cpu)
            reference.append(reference_seconds())
    print(f"discovery of {len(machine.cpus)} CPUs, {len(machine.nodes)} nodes, {runs} runs")
    print(f"  wall  median {median(wall):.3f} s   (bar {BAR_SECONDS} s)")
    print(f"  CPU   median {median(cpu):.3f} s")
    print(f"  ratio {median(cpu) / median(reference):.2f} of a loop of {REFERENCE_STEPS} additions")
    return int(median(wall) >= BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
