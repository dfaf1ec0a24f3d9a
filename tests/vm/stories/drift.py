"""Somebody writes a container's cgroup by hand.

The daemon stands still from the write to the look at it: it would put the set back before it is seen.
"""

from pathlib import Path

from tests.vm.stories.pods import alone
from tests.vm.stories.stage import Stage, cgroup_file, has_cgroup_v1

ONLINE_CPUS = Path("/sys/devices/system/cpu/online")
ONLINE_NODES = Path("/sys/devices/system/node/online")


async def drift(stage: Stage) -> None:
    """First its CPUs, then its memory nodes."""
    await stage.run(alone("victim", 2000))
    own = stage.note("drift: before")["victim/c0"]
    for name, everything in (("cpus", ONLINE_CPUS), ("mems", ONLINE_NODES)):
        file = cgroup_file(stage.pid("victim/c0"), "cpuset", f"cpuset.{name}")
        with stage.daemon_stopped():
            file.write_text(everything.read_text())
            stage.note(f"drift: {name} widened")
        await stage.settle(f"drift: {name} put back", lambda seen: seen["victim/c0"] == own)
    stage.fact("drift: is v2", not has_cgroup_v1())
