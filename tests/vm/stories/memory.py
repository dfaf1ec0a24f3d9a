"""A node's memory is promised twice: the lesser container gets another node as well, and comes home when there is room.

So that its pages can be seen to come home, the node is filled from outside while the container allocates.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from sysfs.cpuset import NodeSet
from tests.vm.stories.pods import MIB, alone, holding, near
from tests.vm.stories.stage import Stage, held_bytes, patiently

HELD_MIB = 48
LEFT_FREE_MIB = 24
HOG = Path("/run/hog")
LESSER = ContainerSpec(
    "c0",
    cpu_request_mcpu=500,
    cpu_limit_mcpu=500,
    memory_request_bytes=250 * MIB,
    memory_limit_bytes=250 * MIB + 1,  # not the request: Burstable
    command=("/bin/sh", "-c", f"until [ -e /go ]; do sleep 0.2; done; {holding(HELD_MIB)}"),
)


def free_mib(node: int) -> int:
    lines = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text().splitlines()
    return int(next(line for line in lines if "MemFree:" in line).split()[3]) >> 10


@contextmanager
def crowded(node: int) -> Iterator[None]:
    HOG.mkdir()
    options = f"size={free_mib(node)}m,mpol=bind:{node}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(HOG)], check=True)
    try:
        with (HOG / "filling").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (free_mib(node) - LEFT_FREE_MIB) * MIB)
        yield
    finally:
        subprocess.run(["umount", str(HOG)], check=True)


def release(pid: int) -> None:
    Path(f"/proc/{pid}/root/go").touch()


async def memory(stage: Stage) -> None:
    """The lesser one runs; a Guaranteed one comes, and goes again."""
    await stage.run(PodSpec("lesser", (LESSER,)))
    home = stage.note("memory: alone")["lesser/c0"].mems
    greater = await stage.run(alone("greater", 1500, near("lesser"), memory_mib=300))
    await stage.settle("memory: crowded", lambda seen: len(seen["lesser/c0"].mems) > 1)
    await allocate(stage, home)
    stage.fact("memory: pages while wide", held_bytes(stage.pid("lesser/c0")))
    await stage.remove(greater)
    await stage.settle("memory: home again", lambda seen: seen["lesser/c0"].mems == home)
    pid = stage.pid("lesser/c0")

    async def is_home() -> bool:
        return all(node in map(str, home) or held < MIB for node, held in held_bytes(pid).items())

    await patiently("the pages are home", is_home)
    stage.fact("memory: pages at home", held_bytes(pid))


async def allocate(stage: Stage, home: NodeSet) -> None:
    """Let the lesser one take its memory while there is too little at home."""
    pid = stage.pid("lesser/c0")

    async def holds_it() -> bool:
        return sum(held_bytes(pid).values()) >= HELD_MIB * MIB

    with crowded(next(iter(home))):
        release(pid)
        await patiently("the memory is allocated", holds_it)
