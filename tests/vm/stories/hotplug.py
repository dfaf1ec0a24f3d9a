"""A CPU that somebody owns goes offline and comes back."""

from pathlib import Path

from cri_proxy.cri_client.pods import PodSpec
from sysfs.cpuset import CpuSet
from tests.vm.stories.pods import alone, near, shared
from tests.vm.stories.stage import Stage, has_cgroup_v1, patiently

# The kubelet's cgroup of all pods where each controller is mounted on its own
PODS_V1 = Path("/sys/fs/cgroup/cpuset/kubepods")


def set_online(cpu: int, *, online: bool) -> None:
    """What an operator's echo does."""
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(f"{online:d}")


def give_back(cpu: int) -> None:
    """Cgroup v1 has taken the CPU out of every set for good: write it back to the pods' cgroup and to each pod's.

    From the top: no cgroup can have what its parent lacks.
    """
    folders = [PODS_V1, *sorted(path for path in PODS_V1.rglob("*") if path.is_dir())]
    for folder in (f for f in folders if any(path.is_dir() for path in f.iterdir())):
        file = folder / "cpuset.cpus"
        file.write_text(f"{CpuSet.parse(file.read_text().strip()) | CpuSet.of([cpu])}\n")


async def hotplug(stage: Stage) -> None:
    """One owner loses a CPU, another one does not, a third container shares what is left."""
    await stage.run(alone("owner", 2000))
    await stage.run(PodSpec("sharer", (shared("c0"),), annotations=(near("owner"),)))
    await stage.run(alone("bystander", 2000))
    before = stage.note("hotplug: before")
    lost = max(before["owner/c0"].cpus)
    stage.fact("hotplug: lost", lost)
    set_online(lost, online=False)
    await stage.settle(
        "hotplug: offline",
        lambda seen: len(seen["owner/c0"].cpus) == 2 and seen["sharer/c0"].cpus.isdisjoint(seen["owner/c0"].cpus),
    )
    set_online(lost, online=True)
    if has_cgroup_v1():
        await the_pods_lack(stage, lost)
    await stage.settle("hotplug: online", lambda seen: CpuSet.of([lost]) <= seen["sharer/c0"].cpus)


async def the_pods_lack(stage: Stage, cpu: int) -> None:
    """What an operator sees on cgroup v1, and then does about it."""

    async def is_told() -> bool:
        return any(f"CPU {cpu} is online, but the pods' cgroup" in text for text in await warnings())

    async def warnings() -> tuple[str, ...]:
        return (await stage.daemon.admin.status()).warnings

    await patiently("the operator is told", is_told)
    stage.fact("hotplug: warnings", await warnings())
    stage.note("hotplug: lacking")
    # All at once: the daemon looks at the pods' cgroup, and would give out what a pod's own still lacks.
    with stage.daemon_stopped():
        give_back(cpu)
