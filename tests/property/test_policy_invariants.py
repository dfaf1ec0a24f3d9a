"""Whatever the machine and whatever happens on it: what must hold after every step (spec section 9).

What goes in: random machines and histories of 200 steps. What is observed: grants, pinnings, updates and pool views,
held against sums that are done here anew. Nothing is mocked.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.base import CpuKind, Grant, PoolView
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import machines
from tests.property.policy_history import Step, World, play, start

STEPS = 200
SEEDS = st.integers(0, 1 << 32)


def owned_by_all(grants: tuple[Grant, ...]) -> CpuSet:
    result = CpuSet()
    for grant in grants:
        assert result.isdisjoint(grant.owned), f"{grant.container} owns CPUs of another: {grant.owned & result}"
        result = result | grant.owned
    return result


def check_pinnings(world: World) -> None:
    """No empty set, nothing outside, reserved on reserved, and nobody on a CPU that another owns or is isolated."""
    pinnings = world.policy.pinnings(world.held)
    owned = owned_by_all(world.held.grants)
    assert list(pinnings) == [g.container for g in world.held.grants]
    for grant in world.held.grants:
        cpus = pinnings[grant.container].cpus
        if grant.kind is CpuKind.PRESERVE:
            assert cpus is None
            continue
        assert cpus, f"{grant.container} has no CPU"
        assert cpus <= world.options.available & world.policy.machine.online
        assert grant.owned <= cpus
        assert (cpus - grant.owned).isdisjoint(owned | world.policy.machine.isolated)
        assert grant.isolated <= world.policy.machine.isolated
        assert grant.owned.isdisjoint(world.options.reserved)
        if grant.kind is CpuKind.RESERVED and world.options.reserved:
            assert cpus == world.options.reserved


def check_reserved(world: World) -> None:
    """On the reserved CPUs are those who ask for it, else those whose namespace is reserved now, and nobody else."""
    for grant in world.held.grants:
        wishes, namespace = grant.request.wishes, grant.request.pod.namespace
        if not wishes.preserve_cpu:
            by_namespace = world.options.is_reserved_namespace(namespace)
            wanted = by_namespace if wishes.prefer_reserved is None else wishes.prefer_reserved
            assert (grant.kind is CpuKind.RESERVED) == wanted, grant.container


def subtree(views: tuple[PoolView, ...], top: str) -> set[str]:
    names = {top}
    for view in views:
        if view.parent in names:
            names.add(view.name)
    return names


def check_capacity(world: World) -> None:
    """In every pool, what is shared covers the shares that are granted in its subtree."""
    views = world.policy.pools(world.held)
    owned = owned_by_all(world.held.grants)
    for view in views:
        inside = subtree(views, view.name)
        granted = sum(g.shared_mcpu for g in world.held.grants if g.pool in inside)
        ordinary = view.cpus - world.policy.machine.isolated - world.options.reserved
        assert view.shared == ordinary - owned
        assert view.shared_granted_mcpu == granted
        assert 1000 * len(view.shared) >= granted, view.name


def check_size(step: Step) -> None:
    """A placed container has what it asked for, to the milli-CPU."""
    if step.placed is None or step.subject is None:
        return
    grant = step.placed.grant
    if grant.kind is CpuKind.PRESERVE:
        return
    asked = 0 if step.subject.pod.qos.value == "BestEffort" else step.subject.cpu_request_mcpu
    assert 1000 * len(grant.owned) + grant.shared_mcpu + grant.reserved_mcpu == asked
    assert step.after.policy.pinnings(step.after.held)[grant.container] == step.placed.pinning


def check_updates(step: Step) -> None:
    """The updates are the others whose pinning differs, no more and no less."""
    if step.kind == "reconfigure" or step.subject is None:
        return
    old = step.before.policy.pinnings(step.before.held)
    new = step.after.policy.pinnings(step.after.held)
    others = [k for k in new if k != step.subject.container]
    expected = [(k, new[k]) for k in sorted(others) if new[k] != old[k]]
    assert [(u.container, u.pinning) for u in step.updates] == expected


@settings(max_examples=settings().max_examples // 4)
@given(machines(), SEEDS)
def test_every_step_of_a_history_keeps_the_invariants(machine: Machine, seed: int) -> None:
    rng = random.Random(seed)
    for step in play(start(machine, rng), rng, STEPS):
        check_pinnings(step.after)
        check_reserved(step.after)
        check_capacity(step.after)
        check_updates(step)
        check_size(step)
