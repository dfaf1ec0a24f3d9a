"""A node's memory is promised twice: the lesser container gets another node as well, and comes home when there is room.

So that its pages can be seen to come home, they are moved to the other node while the container may use both.
"""

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from sysfs.cpuset import NodeSet
from tests.vm.stories.pods import MIB, alone, holding, near
from tests.vm.stories.stage import Stage, cgroup_file, held_bytes, patiently

HELD_MIB = 48
LESSER = ContainerSpec(
    "c0",
    cpu_request_mcpu=500,
    cpu_limit_mcpu=500,
    memory_request_bytes=250 * MIB,
    memory_limit_bytes=250 * MIB + 1,  # not the request: Burstable
    command=("/bin/sh", "-c", holding(HELD_MIB)),
)


async def memory(stage: Stage) -> None:
    """The lesser one runs; a Guaranteed one comes, and goes again."""
    await stage.run(PodSpec("lesser", (LESSER,)))
    home = stage.note("memory: alone")["lesser/c0"].mems
    pid = stage.pid("lesser/c0")

    async def is_allocated() -> bool:
        return sum(held_bytes(pid).values()) >= HELD_MIB * MIB

    await patiently("the memory is allocated", is_allocated)
    greater = await stage.run(alone("greater", 1500, near("lesser"), memory_mib=300))
    await stage.settle("memory: crowded", lambda seen: len(seen["lesser/c0"].mems) > 1)
    await send_away(stage, home)
    stage.fact("memory: pages while wide", held_bytes(pid))
    await stage.remove(greater)
    await stage.settle("memory: home again", lambda seen: seen["lesser/c0"].mems == home)
    await all_pages_on("home", pid, home)
    stage.fact("memory: pages at home", held_bytes(pid))


async def send_away(stage: Stage, home: NodeSet) -> None:
    """Move the lesser one's pages off its home, and leave it both nodes again.

    From which of its nodes a container's page comes is the kernel's choice, but a page goes where cpuset.mems says
    (cgroup-v2, "cpuset.mems": memory in use is migrated to the nodes written). The daemon stands still: it would put
    the set back.
    """
    pid = stage.pid("lesser/c0")
    file = cgroup_file(pid, "cpuset", "cpuset.mems")
    wide = NodeSet.parse(file.read_text().strip())
    with stage.daemon_stopped():
        file.write_text(str(wide - home))
        await all_pages_on("the other node", pid, wide - home)
        file.write_text(str(wide))


async def all_pages_on(where: str, pid: int, nodes: NodeSet) -> None:
    """Wait until less than a MiB is elsewhere: the kernel migrates after the write, and counts later still."""

    async def is_so() -> bool:
        return all(node in map(str, nodes) or held < MIB for node, held in held_bytes(pid).items())

    await patiently(f"the pages are on {where}", is_so)
