"""DRAM and PMEM: who asks for which, who starts cold, and who is refused."""

import signal
import time

from cri_proxy.cri_client.pods import PodSpec
from cri_proxy.errors import CallFailed
from tests.vm.stories.pods import MIB, alone, holding
from tests.vm.stories.stage import Stage, held_bytes, patiently

HELD_MIB = 32
COLD_SECONDS = 90  # a restart of the daemon fits in, on a busy host too
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


async def kinds(stage: Stage) -> None:
    """The cold start goes on while the others come, and over a crash of the daemon."""
    cold = await stage.run(holder("cold", ("cri-proxy.io/cold-start", f"{{duration: {COLD_SECONDS}s}}")))
    # As the runtime dates it: whenever we come to look at a clock, the cold start has begun a while ago.
    started = (await stage.kubelet.status(cold.container_id("c0"))).status.started_at / 1e9
    await stage.daemon.restart(signal.SIGKILL)
    stage.note("kinds: cold")
    stage.fact("kinds: seconds until the restart was over", round(time.time() - started, 1))
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
    await stage.settle("kinds: warm", lambda seen: len(seen["cold/c0"].mems) > 1, seconds=2 * COLD_SECONDS)
    stage.fact("kinds: seconds until warm", time.time() - started)
