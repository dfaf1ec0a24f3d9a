"""DRAM and PMEM: who asks for which, who starts cold, and who is refused."""

import signal
import time

from cri_proxy.cri_client.pods import PodSpec
from cri_proxy.errors import CallFailed
from tests.vm.stories.pods import MIB, alone, holding
from tests.vm.stories.stage import Stage, held_bytes, patiently

HELD_MIB = 32
LONG_SECONDS = 3600  # a restart of the daemon fits in, however busy the host is
BRIEF_SECONDS = 60
TYPE = "cri-proxy.io/memory-type"
STRICT = ("cri-proxy.io/strict.memory-type", "true")


def holder(name: str, *annotations: tuple[str, str]) -> PodSpec:
    """A pod that allocates as soon as it runs."""
    return alone(name, 1000, *annotations, command=holding(HELD_MIB), memory_mib=2 * HELD_MIB)


async def note_pages(stage: Stage, pod: str) -> None:
    """Report where the memory of a holder is, once it has all of it."""
    pid = stage.pid(f"{pod}/c0")

    async def holds_it() -> bool:
        return sum(held_bytes(pid).values()) >= HELD_MIB * MIB

    await patiently(f"{pod} holds its memory", holds_it)
    stage.fact(f"kinds: pages of {pod}", held_bytes(pid))


def cold_start(seconds: int) -> tuple[str, str]:
    return ("cri-proxy.io/cold-start", f"{{duration: {seconds}s}}")


async def kinds(stage: Stage) -> None:
    """Two cold starts go on over a crash of the daemon; one ends, the other one goes on to the end of the story."""
    await stage.run(holder("cold", cold_start(LONG_SECONDS)))
    brief = await stage.run(alone("brief", 1000, cold_start(BRIEF_SECONDS)))
    # As the runtime dates it: whenever we come to look at a clock, the cold start has begun a while ago.
    started = (await stage.kubelet.status(brief.container_id("c0"))).status.started_at / 1e9
    await stage.daemon.restart(signal.SIGKILL)
    stage.note("kinds: cold")
    await note_pages(stage, "cold")
    await stage.run(holder("slow", (TYPE, "pmem")))
    await note_pages(stage, "slow")
    await stage.run(alone("plain", 1000))
    await stage.run(alone("fast", 1000, (TYPE, "dram")))
    await stage.note_at_rest("kinds: all")
    try:
        await stage.run(alone("never", 1000, (TYPE, "hbm"), STRICT))
    except CallFailed as failure:
        stage.fact("kinds: refused", failure.message)
    await stage.settle("kinds: warm", lambda seen: len(seen["brief/c0"].mems) > 1)
    stage.fact("kinds: seconds until warm", time.time() - started)
