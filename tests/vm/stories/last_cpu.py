"""The only CPU of a container goes offline. Cgroup v1 then moves its processes out of its cgroup."""

from tests.vm.stories.hotplug import set_online
from tests.vm.stories.pods import alone
from tests.vm.stories.stage import Stage, has_cgroup_v1, patiently


async def last_cpu(stage: Stage) -> None:
    """On v2 it gets another CPU; on v1 an update cannot bring the processes back, and somebody has to be told."""
    await stage.run(alone("lone", 1000))
    before = stage.note("last CPU: before")["lone/c0"].cpus
    set_online(max(before), online=False)

    async def warnings() -> list[str]:
        # An emulated machine stands still at times, and the daemon notices.
        found = (await stage.daemon.admin.status()).warnings
        return [text for text in found if not text.startswith("the event loop was ")]

    async def is_told() -> bool:
        return any("lone/c0" in text for text in await warnings())

    async def is_content() -> bool:
        return not await warnings()

    if has_cgroup_v1():
        await patiently("somebody is told", is_told)
    await stage.settle(
        "last CPU: offline",
        lambda seen: has_cgroup_v1() or (len(seen["lone/c0"].cpus) == 1 and seen["lone/c0"].cpus != before),
    )
    if not has_cgroup_v1():
        await patiently("the daemon is content", is_content)
    stage.fact("last CPU: warnings", await warnings())
    set_online(max(before), online=True)
