"""The stories of the machine with a DRAM node and a memory-only node to each package, on cgroup v1."""

import asyncio

from tests.vm.stories.drift import drift
from tests.vm.stories.hotplug import hotplug
from tests.vm.stories.kinds import kinds
from tests.vm.stories.last_cpu import last_cpu
from tests.vm.stories.stage import play

CONFIG = """\
reservedResources: {cpu: "cpuset:0"}
driftCheckSeconds: 3
memoryKinds: {2-3: pmem}
"""

if __name__ == "__main__":
    asyncio.run(play(CONFIG, kinds, drift, hotplug, last_cpu))
