"""Prints what a policy and a node do in a life each, to the last word: run under two hash seeds it must be the same.

``python -m tests.property.transcript``
"""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import ParamSpec, TypeVar

from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from tests.fakes.histories import World
from tests.fakes.machines import random_machine, small_machine
from tests.property.policy_history import play, start

P = ParamSpec("P")
T = TypeVar("T")
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


class AtOnce(ThreadPoolExecutor):
    """Run the work where it is handed over: an update that waits is merged with the next one, if a thread is quick."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


async def tell_node() -> None:
    """Every call that the runtime accepted, in order for each container, and what it then has on record.

    Calls for different containers overlap: a change of the machine is planned while memory is narrowed.
    """
    asyncio.get_running_loop().set_default_executor(AtOnce())
    machine = small_machine(packages=2, nodes=2, cores=4, isolated="3,9")
    world = World(machine, TopologyAwareOptions(machine.online, CpuSet.parse("0")), SEED)
    await world.open(world.check)
    while world.steps < NODE_STEPS:
        await world.step()
        print(world.doing, sorted(world.runtime.updates, key=attrgetter("container_id")), world.recorded())


if __name__ == "__main__":
    tell_policies()
    asyncio.run(tell_node())
