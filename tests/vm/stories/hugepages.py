"""Two nodes have huge pages: who may use some is placed there, and the kernel takes them from there.

The container's image cannot map huge pages: a process of ours does, in the container's own cgroup.
"""

import subprocess
import sys
from pathlib import Path

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from tests.vm.stories.pods import MIB
from tests.vm.stories.stage import PATIENCE_SECONDS, Stage, cgroup_file, patiently

PAGE_BYTES = 2 * MIB
RESERVED = {2: 16, 1: 8}  # pages by node
MAPPING = """
import mmap, sys, time
open(sys.argv[1], "w").write("0")  # join the cgroup
size = int(sys.argv[2])
held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)  # MAP_HUGETLB
for start in range(0, size, 2 << 20):
    held[start] = 1
print("held", flush=True)
time.sleep(1000000)
"""


def with_pages(name: str, mib: int) -> PodSpec:
    """A Guaranteed pod that may use so many huge pages, and runs on a fraction of the shared CPUs too."""
    amounts = (1500, 1500, 32 * MIB, 32 * MIB)
    return PodSpec(name, (ContainerSpec("c0", *amounts, huge_pages=(("2MB", mib * MIB),)),))


async def hugepages(stage: Stage) -> None:
    """The larger one has all pages of one node, the next one those of the other."""
    await reserve(stage, RESERVED)
    await stage.run(with_pages("large", 32))
    await stage.run(with_pages("small", 16))
    await stage.note_at_rest("hugepages: placed")
    for name, mib in (("large", 32), ("small", 16)):
        stage.fact(f"hugepages: pages of {name}", mapped_bytes(stage, f"{name}/c0", mib * MIB))
    await stage.remove()
    await reserve(stage, dict.fromkeys(RESERVED, 0))


async def reserve(stage: Stage, pages: dict[int, int]) -> None:
    """Reserve pages and wait until the daemon knows."""
    for node, count in pages.items():
        Path(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages").write_text(str(count))

    async def is_known() -> bool:
        seen = {each.node: each.huge_pages for each in (await stage.daemon.admin.status()).memory}
        return all(
            sum(pool.capacity_bytes for pool in seen[node]) == count * PAGE_BYTES for node, count in pages.items()
        )

    await patiently("the daemon knows the huge pages", is_known)


def mapped_bytes(stage: Stage, name: str, size: int) -> dict[str, int]:
    """Map so much in the container's cgroup and return, by node, from where the kernel took it (numa(7), numa_maps)."""
    procs = cgroup_file(stage.pid(name), "cpuset", "cgroup.procs")
    child = subprocess.Popen((sys.executable, "-c", MAPPING, str(procs), str(size)), stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        if child.stdout.readline() != b"held\n":
            return {}
        lines = Path(f"/proc/{child.pid}/numa_maps").read_text().splitlines()
        words = [word.split("=") for line in lines if " huge " in line for word in line.split() if word.startswith("N")]
        return {node[1:]: int(count) * PAGE_BYTES for node, count in words}
    finally:
        child.kill()
        child.wait(PATIENCE_SECONDS)
