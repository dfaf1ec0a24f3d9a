"""Whole lives of a node: told twice, and to the end. ``test_lives`` looks at every moment of many more."""

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from policies.hardware.reserve import choose_reserved
from policies.topology_aware.options import TopologyAwareOptions
from sysfs.model import Machine
from tests.fakes.histories import World
from tests.fakes.machines import machines, random_machine

STEPS = 100
# Shrinking a life would take half an hour, and its seed tells all there is to tell.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


async def live(machine: Machine, seed: int, reserved_mcpu: int) -> World:
    reserved = choose_reserved(machine, machine.online, reserved_mcpu)
    world = World(machine, TopologyAwareOptions(machine.online, reserved), seed)
    await world.open(world.check)
    for _ in range(STEPS):
        await world.step()
    return world


@settings(max_examples=1, phases=PHASES)
@given(machines(max_cpus=24), st.integers(0, 2**32))
async def test_the_same_life_gives_the_same_pinnings(machine: Machine, seed: int) -> None:
    one, other = await live(machine, seed, 750), await live(machine, seed, 750)
    assert sorted(one.recorded().values()) == sorted(other.recorded().values())


@settings(max_examples=1, phases=PHASES)
@given(machines(max_cpus=24), st.integers(0, 2**32))
async def test_when_everybody_has_left_nothing_is_held(machine: Machine, seed: int) -> None:
    world = await live(machine, seed, 750)
    while world.pods:
        await world.remove_pod()
    await world.node.settle()
    assert list(world.node.context.ledger.rows()) == []
    assert world.store.load().rows == ()


@pytest.mark.parametrize("seed", range(1, 12, 2))
async def test_no_container_changes_when_the_state_is_kept_or_lost_after_moves(seed: int) -> None:
    """Resizes and shortages are left out: annotations do not follow these, and cpusets do not tell all of them."""
    machine = random_machine(Random(seed), max_cpus=24, max_packages=4)
    world = World(machine, TopologyAwareOptions(machine.online, choose_reserved(machine, machine.online, 750)), seed)
    await world.open(world.check)
    for _ in range(STEPS // 2):
        await world.random.choice((world.run_pod, world.remove_pod, world.exit_container, world.slow_check))()
        await world.node.settle()
        before = world.recorded()
        await world.restart_proxy()
        await world.lose_the_store()
        await world.node.settle()
        assert world.recorded() == before
