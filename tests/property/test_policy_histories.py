"""Whole histories on random machines: undone, replayed, saved and restored, renumbered, under other hash seeds."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from policies.base import Allocations, DeviceLocality, Grant, Request
from policies.builder import build_policy
from policies.preferences import Preferences
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import machines, renumber
from tests.property import transcript
from tests.property.policy_events import Create, Event, Release, Resize, Step, Withhold, World, decided
from tests.property.policy_history import play, start
from tests.property.random_requests import random_request

STEPS = 100
SEEDS = st.integers(0, 1 << 32)
# A seed tells a whole history: shrinking it would only find another.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
FEW = settings(max_examples=settings().max_examples // 6, phases=PHASES)
ROOT = Path(__file__).resolve().parent.parent.parent


def last(steps: Iterator[Step]) -> World:
    world = None
    for step in steps:
        world = step.after
    assert world is not None
    return world


def history(machine: Machine, seed: int, *, reconfigure: bool = True) -> World:
    rng = random.Random(seed)
    return last(play(start(machine, rng), rng, STEPS, reconfigure=reconfigure))


@FEW
@given(machines(), SEEDS)
def test_releasing_everything_gives_the_first_state_back(machine: Machine, seed: int) -> None:
    world = history(machine, seed)
    held = world.held
    for grant in random.Random(seed).sample(world.held.grants, len(world.held.grants)):
        held = held.without(grant.container)
        world.policy.pools(held)
    fresh = build_policy("topology-aware", world.policy.machine, world.options)
    nothing = Allocations(withheld=held.withheld)
    assert world.policy.pools(held) == fresh.pools(nothing)
    assert world.policy.fallback(held) == fresh.fallback(nothing)


@FEW
@given(machines(), SEEDS)
def test_replaying_a_history_gives_the_same_state(machine: Machine, seed: int) -> None:
    assert history(machine, seed).held == history(machine, seed).held


@FEW
@given(machines(), SEEDS)
def test_saved_grants_are_restored_as_they_were(machine: Machine, seed: int) -> None:
    world = history(machine, seed)
    fresh = build_policy("topology-aware", world.policy.machine, world.options)
    restored = fresh.reinstate(world.held)
    assert restored.allocations == world.held
    assert restored.kept == tuple(g.container for g in world.held.grants)
    assert not restored.replaced
    assert not restored.unplaced


@FEW
@given(machines(), SEEDS)
def test_a_decision_depends_on_the_grants_and_not_on_how_they_came(machine: Machine, seed: int) -> None:
    world = history(machine, seed)
    fresh = build_policy("topology-aware", world.policy.machine, world.options)
    rng = random.Random(seed)
    for number in range(5):
        request = random_request(machine, rng, number)
        assert world.policy.decide(world.held, request) == fresh.decide(world.held, request)


@FEW
@given(machines(), SEEDS)
def test_a_container_that_restarts_at_once_gets_its_place_back(machine: Machine, seed: int) -> None:
    rng = random.Random(seed)
    for step in play(start(machine, rng), rng, STEPS, reconfigure=False):
        if not isinstance(step.event, Release):
            continue
        old = step.before.held.get(step.event.container)
        # What others were promised in the meantime may stand against a strict wish.
        if old is None or old.owned & step.after.held.withheld or old.request.preferences.strict_memory:
            continue
        again = replace(old.request, previous=old.as_previous)
        placed = decided(Create(again), step.after, again).placed
        assert placed is not None
        grant = placed.grant
        assert (grant.pool, grant.kind, grant.owned) == (old.pool, old.kind, old.owned)


@FEW
@given(machines(), SEEDS)
def test_a_resize_keeps_the_cpus_that_it_can(machine: Machine, seed: int) -> None:
    """More CPUs: a superset. Fewer: a subset. Unless the wish for isolated ones is strict."""
    rng = random.Random(seed)
    for step in play(start(machine, rng), rng, STEPS):
        if not isinstance(step.event, Resize) or step.placed is None or step.subject is None:
            continue
        if step.subject.preferences.require_isolated:
            continue
        old = step.before.held.get(step.subject.container)
        assert old is not None
        was, now = old.owned, step.placed.grant.owned
        assert not was or not now or was <= now or now <= was


@FEW
@given(machines(), SEEDS)
def test_shrinking_gives_back_what_was_added_last(machine: Machine, seed: int) -> None:
    """Nothing given back is older than anything kept, whatever sizes a container went through beside others."""
    rng = random.Random(seed)
    world = last(play(start(machine, rng), rng, STEPS // 8))
    own = replace(random_request(machine, rng, 0), preferences=Preferences(prefer_shared=False), cpu_limit_mcpu=None)
    came: dict[int, int] = {}
    for number in range(STEPS // 8):
        grant = world.held.get(own.container)
        wanted = replace(
            own, cpu_request_mcpu=1000 * rng.randrange(1, 7), previous=grant.as_previous if grant else None
        )
        step = decided(Create(wanted), world, wanted)
        if step.placed is not None:
            world, now = step.after, step.placed.grant.owned
            kept = [came[cpu] for cpu in came if cpu in now]
            given_back = [came[cpu] for cpu in came if cpu not in now]
            assert not kept or not given_back or max(kept) <= min(given_back)
            came = {cpu: came.get(cpu, number) for cpu in now}


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Old to new numbers and pool names."""

    cpus: dict[int, int]
    nodes: dict[int, int]
    pools: dict[str, str]

    def cpu_set(self, old: CpuSet) -> CpuSet:
        return CpuSet.of(self.cpus[c] for c in old)

    def cpu_sets(self, old: tuple[CpuSet, ...]) -> tuple[CpuSet, ...]:
        return tuple(self.cpu_set(one) for one in old)

    def node_set(self, old: NodeSet) -> NodeSet:
        return NodeSet.of(self.nodes[n] for n in old)

    def request(self, old: Request) -> Request:
        previous = old.previous
        if previous is not None:
            previous = replace(
                previous,
                pool=self.pools[previous.pool] if previous.pool else "",
                owned=self.cpu_set(previous.owned),
                added=self.cpu_sets(previous.added),
                near=self.localities(previous.near) if previous.near is not None else None,
            )
        return replace(old, localities=self.localities(old.localities), previous=previous)

    def localities(self, old: tuple[DeviceLocality, ...]) -> tuple[DeviceLocality, ...]:
        return tuple(DeviceLocality(each.source, self.cpu_set(each.cpus), self.node_set(each.nodes)) for each in old)

    def grant(self, old: Grant) -> Grant:
        return replace(
            old,
            request=self.request(old.request),
            pool=self.pools[old.pool] if old.pool else "",
            exclusive=self.cpu_set(old.exclusive),
            isolated=self.cpu_set(old.isolated),
            mems=self.node_set(old.mems),
            added=self.cpu_sets(old.added),
            spill=self.node_set(old.spill),
        )

    def world(self, old: World, machine: Machine) -> World:
        options = replace(
            old.options, available=self.cpu_set(old.options.available), reserved=self.cpu_set(old.options.reserved)
        )
        return World(build_policy("topology-aware", machine, options), options, old.held, machine)

    def event(self, old: Event) -> Event:
        match old:
            case Create(request):
                return Create(self.request(request))
            case Withhold(cpus):
                return Withhold(self.cpu_set(cpus))
            case _:
                return old


@FEW
@given(machines(), SEEDS, st.integers(1, 3), st.integers(0, 70))
def test_renumbering_the_machine_renumbers_the_answers(machine: Machine, seed: int, factor: int, shift: int) -> None:
    """Numbers may grow and spread as long as their order stays: ties are broken by the lowest."""
    cpus = {c: factor * c + shift for c in (*machine.online, *machine.offline)}
    nodes = {n.id: factor * n.id + shift for n in machine.nodes}
    rng = random.Random(seed)
    world = start(machine, rng)
    twin = Renumbering(cpus, nodes, {}).world(world, renumber(machine, cpus, nodes))
    pools = zip(world.policy.pools(world.held), twin.policy.pools(world.held), strict=True)
    change = Renumbering(cpus, nodes, {a.name: b.name for a, b in pools})
    for step in play(world, rng, STEPS // 2, reconfigure=False):
        twin = change.event(step.event).happen(twin).after
        assert twin.held.grants == tuple(change.grant(g) for g in step.after.held.grants)


def told_under(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.property.transcript"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_another_hash_seed_gives_the_same_answers_to_the_last_word() -> None:
    told = told_under("1")
    assert told.count("\n") == 2 * transcript.STEPS + transcript.NODE_STEPS
    assert told == told_under("2")
