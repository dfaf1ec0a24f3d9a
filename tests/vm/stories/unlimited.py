"""A process without a memory limit needs more than its node has: ``spill`` gives it that, ``strict`` gets it killed.

What it needs lies beside an anchor in one node; without that best effort would get the nodes of a package.
"""

import signal

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from tests.vm.stories.pods import MIB, alone, holding, near
from tests.vm.stories.stage import OUT, Stage, cgroup_file, held_bytes, patiently

NEEDED_MIB = 620  # a node has 512, the machine 2048
CONFIG = OUT / "cri-proxy.yaml"


def hungry(name: str) -> PodSpec:
    """A best-effort pod: nothing is promised to it, and nothing bounds it."""
    container = ContainerSpec("c0", command=("/bin/sh", "-c", holding(NEEDED_MIB)))
    return PodSpec(name, (container,), annotations=(near("anchor"),))


async def unlimited(stage: Stage) -> None:
    """It comes once under either value of the option."""
    await comes(stage, "spill")
    await stage.remove()
    CONFIG.write_text(CONFIG.read_text() + "topologyAware: {UnlimitedMemory: strict}\n")
    stage.daemon.send(signal.SIGHUP)

    async def is_reloaded() -> bool:
        return "config_reloaded" in stage.daemon.log.read_text()

    await patiently("the configuration is reloaded", is_reloaded)
    await comes(stage, "strict")


async def comes(stage: Stage, rule: str) -> None:
    await stage.run(alone("anchor", 500))
    await stage.run(hungry(rule))
    pid = stage.pid(f"{rule}/c0")

    def kills() -> int:
        lines = cgroup_file(pid, "memory", "memory.events").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    async def is_decided() -> bool:
        return kills() > 0 or sum(held_bytes(pid).values()) >= NEEDED_MIB * MIB

    await patiently("it has the memory, or is killed", is_decided)
    stage.note(f"unlimited: {rule}")
    stage.fact(f"unlimited: pages with {rule}", held_bytes(pid))
    stage.fact(f"unlimited: killed with {rule}", kills())
