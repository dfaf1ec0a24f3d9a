"""When containers no longer come and go, those that share soon are where a fresh decision places them, and stay."""

from collections.abc import Iterator

from hypothesis import given

from policies.base import Allocations
from policies.policy import BetterPlaces, Policy
from sysfs.model import Machine
from tests.fakes.machines import machines
from tests.property.test_policy_histories import FEW, SEEDS, history


def checks(policy: Policy, held: Allocations) -> Iterator[tuple[BetterPlaces, Allocations]]:
    """Slow checks until a whole round of them finds nothing: few for each container that shares."""
    after, is_fruitless = None, True
    for _ in range(3 * len(held.grants) + 3):
        while narrowed := policy.narrowed(held):
            held = held.with_grants(*narrowed)
        found = policy.better_places(held, after)
        held, after = held.with_grants(*found.grants), found.last
        is_fruitless &= not found.grants
        yield found, held
        if after is None and is_fruitless:
            return
        is_fruitless |= after is None
    raise AssertionError("still moving")


@FEW
@given(machines(), SEEDS)
def test_moves_end_soon_and_change_only_what_is_shared(machine: Machine, seed: int) -> None:
    world = history(machine, seed, reconfigure=False)
    owned = {g.container: g.owned for g in world.held.grants}
    for found, held in checks(world.policy, world.held):
        assert len(found.grants) <= world.options.moves_per_check
        assert {g.container: g.owned for g in held.grants} == owned
        assert world.policy.reinstate(held).allocations == held


@FEW
@given(machines(), SEEDS)
def test_a_restart_moves_no_container_that_has_come_home(machine: Machine, seed: int) -> None:
    world = history(machine, seed, reconfigure=False)
    *_, (_, held) = checks(world.policy, world.held)
    again = type(world.policy)(world.policy.machine, world.options)
    assert again.better_places(held) == again.better_places(held)
    assert again.better_places(held).grants == ()
