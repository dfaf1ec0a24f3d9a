"""Prints what a policy and a node do in a life each, to the last word: run under two hash seeds it must be the same.

``python -m tests.property.transcript``
"""

import asyncio
import random
from operator import attrgetter

from policies.topology_aware.options import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from tests.fakes.histories import World
from tests.fakes.machines import random_machine, small_machine
from tests.property.policy_history import play, start

STEPS = 200
NODE_STEPS = 60
SEED = 7


def tell_policies() -> None:
    """Every decision with its reasons and ranking, every update and grant, on an orderly machine and an odd one."""
    orderly = small_machine(
        packages=2, nodes=2, cores=4, isolated="3,9", memory_nodes=[{"memory": "4Gi", "near": {1: 17}}]
    )
    for machine in (orderly, random_machine(random.Random(SEED), max_cpus=32)):
        rng = random.Random(SEED)
        for step in play(start(machine, rng), rng, STEPS):
            print(step.event, step.decision, step.updates, step.after.held)


async def tell_node() -> None:
    """Every call that the runtime accepted, in order for each container, and what it then has on record.

    Calls for different containers overlap: a change of the machine is planned in a thread, while memory is narrowed.
    """
    machine = small_machine(packages=2, nodes=2, cores=4, isolated="3,9")
    world = World(machine, TopologyAwareOptions(machine.online, CpuSet.parse("0")), SEED)
    await world.open(world.check)
    while world.steps < NODE_STEPS:
        await world.step()
        print(world.doing, sorted(world.runtime.updates, key=attrgetter("container_id")), world.recorded())


if __name__ == "__main__":
    tell_policies()
    asyncio.run(tell_node())
