"""When containers no longer come and go, those that share soon are where a fresh decision places them, and stay."""

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given

from benchmarks.placement_machines import SHAPES
from benchmarks.placement_node import Node
from benchmarks.placement_node import history as of_node
from policies.base import Allocations, CpuKind, Grant, Placed
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


def key_of(node: Node, grant: Grant) -> dict[str, int | float | str]:
    """The key of its pool, as if it came now."""
    decision = node.policy.decide(node.held, replace(grant.request, previous=None))
    assert isinstance(decision, Placed)
    return next(dict(ranked.key) for ranked in decision.ranking if ranked.pool == grant.pool)


def unevenness(node: Node, sharers: list[Grant]) -> Fraction:
    """The squared load of each CPU, and the squared request of each sharer for each CPU that it has."""
    load, own = dict.fromkeys(node.machine.online, Fraction(0)), Fraction(0)
    for grant in node.held.grants:
        is_counted = any(grant is sharer for sharer in sharers)
        if is_counted or (grant.owned and grant.shared_mcpu):
            cpus = node.cpus_of(grant) - grant.owned
            asked = Fraction(grant.shared_mcpu or 100)
            own += asked**2 / len(cpus) if is_counted else 0
            for cpu in cpus:
                load[cpu] += asked / len(cpus)
    return sum((x**2 for x in load.values()), own)


SOME = ("2 sockets, 4 nodes each", "4 sockets in a row", "8 sockets in a row", "1 socket, 8 caches")
BEFORE = ("fits", "memory", "memory_suits", "width")
FROM_CROWDED = ("crowded", "near_memory", "depth")


def measure(node: Node) -> list[object]:
    """What is to grow with each move: the list in ``policies.topology_aware.rebalance``."""
    sharers = [grant for grant in node.held.grants if grant.kind is CpuKind.SHARED and not grant.is_overcommitted]
    sharers.sort(key=lambda grant: (-grant.shared_mcpu, grant.container))
    keys = [key_of(node, grant) for grant in sharers]
    places = [tuple(key[name] for name in FROM_CROWDED) for key in keys]
    large = [grant for grant in sharers if grant.shared_mcpu >= 1000]
    sums = [sum(float(key[name]) for key in keys) for name in BEFORE]
    first, rest = places[: len(large)], places[len(large) :]
    return [*sums, *first, -unevenness(node, large), *rest, -unevenness(node, sharers)]


@pytest.mark.parametrize("shape", SOME)
def test_each_move_betters_a_measure_of_all_sharers(shape: str) -> None:
    node, moves = Node(SHAPES[shape]), 0
    for number, _ in enumerate(of_node(node, random.Random(f"measure {shape}"))):
        if number < 100 or number % 20:
            continue
        for grant in node.policy.better_places(node.held).grants:
            before = measure(node)
            node.held = node.held.with_grants(grant)
            assert measure(node) > before, f"{number}: {grant.container} to {grant.pool}"
            moves += 1
    assert moves >= 3


@pytest.mark.parametrize("shape", SOME)
def test_no_more_containers_are_updated_where_some_move_with_a_placement(shape: str) -> None:
    node, still = Node(SHAPES[shape]), Node(SHAPES[shape], moves_per_check=0)
    before, moves = node.held, 0
    for grant, *_ in of_node(node, random.Random(f"rebalanced {shape}")):
        now, then = (each.policy.decide(before, grant.request) for each in (node, still))
        before = node.held
        if not isinstance(now, Placed) or not isinstance(then, Placed):
            assert now == then  # there was no room before others had gone
            continue
        assert (now.grant, now.pinning) == (then.grant, then.pinning)
        assert [update.container for update in now.updates] == [update.container for update in then.updates]
        moves += len(now.moved) - len(then.moved)
    assert moves >= 3
