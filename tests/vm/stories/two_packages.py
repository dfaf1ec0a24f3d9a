"""The stories of the machine with two packages of two NUMA nodes each, two threads to a core, isolated CPUs."""

import asyncio

from tests.vm.stories.drift import drift
from tests.vm.stories.hotplug import hotplug
from tests.vm.stories.hugepages import hugepages
from tests.vm.stories.last_cpu import last_cpu
from tests.vm.stories.memory import memory
from tests.vm.stories.placement import placement
from tests.vm.stories.stage import play
from tests.vm.stories.threads import threads
from tests.vm.stories.unlimited import unlimited

CONFIG = """\
reservedResources: {cpu: "cpuset:0"}
driftCheckSeconds: 3
"""

if __name__ == "__main__":
    asyncio.run(play(CONFIG, placement, threads, memory, drift, hotplug, last_cpu, hugepages, unlimited))
