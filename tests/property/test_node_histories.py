"""Whole lives of a node: told twice, and to the end. ``test_lives`` looks at every moment of many more."""

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cri_proxy.cri_client.pods import ContainerSpec
from policies.device_grants import cost_names
from policies.hardware.reserve import choose_reserved
from policies.topology_aware import TopologyAwareOptions
from sysfs.model import Machine
from tests.fakes.histories import World
from tests.fakes.machines import machines, random_machine

STEPS = 100
NOT_LISTED = "the cost files do not list them any more"
HELD_THROUGH = {
    *("resize", "restart_container", "restart_proxy", "restart_runtime", "lose_the_store", "lose_answers", "burst"),
    *("reconfigure", "hotplug", "change_costs", "fail_a_create", "slow_check", "never_start", NOT_LISTED),
}
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
async def test_the_same_life_gives_the_same_pinnings_and_devices(machine: Machine, seed: int) -> None:
    one, other = await live(machine, seed, 750), await live(machine, seed, 750)
    assert sorted(one.recorded().values()) == sorted(other.recorded().values())
    assert one.devices.given == other.devices.given


@settings(max_examples=1, phases=PHASES)
@given(machines(max_cpus=24), st.integers(0, 2**32))
async def test_when_everybody_has_left_nothing_is_held(machine: Machine, seed: int) -> None:
    world = await live(machine, seed, 750)
    while world.pods:
        await world.remove_pod()
    await world.node.settle()
    assert list(world.node.context.ledger.rows()) == []
    assert world.store.load().rows == ()
    await asks_for_all_devices(world)


async def asks_for_all_devices(world: World) -> None:
    """None of them is held for somebody who has left."""
    every = {kind: len(names) for kind, names in world.inventory.devices.items()}
    asked = ",".join(f"{kind}={count}" for kind, count in every.items())
    annotations = {"cri-proxy.io/device-request": asked, "cri-proxy.io/topology-policy": "none"}
    pod = await world.run("last", ContainerSpec("c"), **annotations)
    assert {*cost_names(world.row(pod.container_id("c")).grant.devices)} == world.listed()


async def held_through(seed: int) -> set[str]:
    """What happened in this life while somebody had devices."""
    machine = random_machine(Random(seed), max_cpus=24, max_packages=4)
    world = World(machine, TopologyAwareOptions(machine.online, choose_reserved(machine, machine.online, 750)), seed)
    await world.open(world.check)
    met = set[str]()
    for _ in range(STEPS):
        before = world.devices.held()
        await world.step()
        met |= {world.doing} if before & world.devices.held() else set()
        met |= {NOT_LISTED} if world.devices.held() - world.listed() else set()
    return met


async def test_devices_are_held_through_whatever_happens_to_a_node() -> None:
    """Else what is checked of them could hold for want of cases."""
    left = HELD_THROUGH
    for seed in range(1, 13):
        left = left - await held_through(seed) if left else left
    assert left == set()


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
