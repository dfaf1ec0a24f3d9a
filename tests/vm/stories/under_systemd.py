"""The stories of the machine on which systemd is process 1 and containerd uses the systemd cgroup driver."""

import asyncio

from tests.vm.stories.reload import reload, reset
from tests.vm.stories.stage import Stage, play

# The regular look at cpusets is a day away: what is found was noticed when it was written
CONFIG = """\
reservedResources: {cpu: "cpuset:0"}
driftCheckSeconds: 86400
"""


async def reload_and_reset(stage: Stage) -> None:
    await reload(stage)
    await reset(stage)


if __name__ == "__main__":
    asyncio.run(play(CONFIG, reload_and_reset))
