"""What must hold after every step, whatever the machine and whatever happened (docs/placement.md).

Observed are grants, pinnings, updates and pool views; they are held against sums that are done here anew.
"""

from dataclasses import replace
from weakref import WeakKeyDictionary

from policies.base import CpuKind, Grant, QosClass
from policies.policy import Policy
from policies.topology_aware import ReasonCode
from policies.topology_aware.supply.demand import has_overflowed
from sysfs.cpuset import CpuSet
from tests.property.model import Model, Scene, pinned
from tests.property.model_memory import allowed_nodes, zones_could_hold, zones_hold
from tests.property.policy_events import Narrow, Reconfigure, Restart, Step, Withhold, World

MOST_NODES = 6  # every set of them is looked at
_MODELS: WeakKeyDictionary[Policy, Model] = WeakKeyDictionary()


def check(step: Step) -> None:
    """Every invariant. Raises AssertionError that names the container or pool."""
    check_world(step.after)
    check_memory(step)
    check_zones(step)
    check_updates(step)
    check_size(step)
    check_cores(step)
    check_restart(step)
    check_moved(step)


def check_world(world: World) -> None:
    """What holds at any moment, whatever came before."""
    scene = scene_of(world)
    check_owners(world, scene)
    check_pinnings(world, scene)
    check_reserved(world)
    check_capacity(world, scene)


def model_of(world: World) -> Model:
    """The rules on this machine under these options; made once per policy."""
    if world.policy not in _MODELS:
        _MODELS[world.policy] = Model(world.policy.machine, world.options)
    return _MODELS[world.policy]


def scene_of(world: World) -> Scene:
    return Scene(model_of(world), world.held)


def check_owners(world: World, scene: Scene) -> None:
    """Nobody owns what another owns, and what is owned is there to be owned, of its kind and inside its pool."""
    owned, sharing = CpuSet(), list[Grant]()
    for grant in world.held.grants:
        # The containers of a pod that share its CPUs, or those of a claim, are one owner.
        sharer = next((other for other in sharing if grant.shares_cpus_with(other)), None)
        if sharer is not None:
            assert (grant.owned, grant.pool, grant.mems) == (sharer.owned, sharer.pool, sharer.mems), grant.container
        else:
            assert owned.isdisjoint(grant.owned), f"{grant.container} owns CPUs of another: {grant.owned & owned}"
        sharing += [grant] if grant.shares_cpus else []
        owned = owned | grant.owned
        assert frozenset(grant.exclusive) <= scene.kinds.sharable, grant.container
        assert frozenset(grant.isolated) <= scene.kinds.isolated, grant.container
        if grant.owned:
            assert frozenset(grant.owned) <= scene.pools[grant.pool].cpus, grant.container


def check_pinnings(world: World, scene: Scene) -> None:
    """No empty set, nothing outside, nobody on a CPU that another owns, reserved on reserved; and as the rules say."""
    pinnings = world.policy.pinnings(world.held)
    assert sorted(pinnings) == [g.container for g in world.held.grants]
    for grant in world.held.grants:
        cpus = pinnings[grant.container].cpus
        if grant.kind is CpuKind.PRESERVE or not world.options.pin_cpu:
            assert cpus is None
            continue
        assert cpus, f"{grant.container} has no CPU"
        there = frozenset(cpus)
        assert there <= scene.kinds.available
        assert not there & (scene.owned - frozenset(grant.owned)), f"{grant.container} is on {cpus}"
        assert not there & (scene.kinds.isolated - frozenset(grant.isolated)), f"{grant.container} is on {cpus}"
        if grant.kind is CpuKind.RESERVED and scene.kinds.reserved:
            assert there <= scene.kinds.reserved
    told = {key: None if p.cpus is None else frozenset(p.cpus) for key, p in pinnings.items()}
    assert told == pinned(scene)


def check_reserved(world: World) -> None:
    """On the reserved CPUs are those who ask for it, else those whose namespace is reserved now, and nobody else.

    Some of them have overflowed to shared CPUs.
    """
    for grant in world.held.grants:
        preferences, namespace = grant.request.preferences, grant.request.pod.namespace
        if not preferences.preserve_cpu:
            by_namespace = world.options.is_reserved_namespace(namespace)
            wanted = by_namespace if preferences.prefer_reserved is None else preferences.prefer_reserved
            assert (grant.kind is CpuKind.RESERVED or has_overflowed(grant)) == wanted, grant.container


def check_capacity(world: World, scene: Scene) -> None:
    """In every pool, what is shared covers the shares that are granted in its subtree; and ``status`` says so."""
    for view in world.policy.pools(world.held):
        granted = scene.granted_mcpu(view.name)
        assert frozenset(view.shared) == scene.shared(view.name)
        assert view.shared_granted_mcpu == granted
        assert 1000 * len(view.shared) >= granted, view.name


def check_size(step: Step) -> None:
    """A placed container has what it asked for, to the milli-CPU; but what a shortage let in has no share booked."""
    if step.placed is None or step.subject is None:
        return
    grant, model = step.placed.grant, model_of(step.after)
    need = model.need(step.subject)
    if grant.is_overcommitted:
        assert step.after.admits
        assert ReasonCode.OVERCOMMITTED in {reason.code for reason in step.placed.reasons}
        assert (grant.kind, need.own) == (CpuKind.SHARED, 0)
        return
    if has_overflowed(grant):
        assert (grant.shared_mcpu, grant.reserved_mcpu) == (need.reserved_mcpu, need.reserved_mcpu)
        need = replace(need, shared_mcpu=need.reserved_mcpu)
    assert len(grant.owned) in (need.own, model.without_whole_cores(need, step.subject).own)
    assert (grant.shared_mcpu, grant.reserved_mcpu) == (need.shared_mcpu, need.reserved_mcpu)
    if step.subject.pod.qos is QosClass.BEST_EFFORT:
        assert need.is_nothing
    assert step.after.policy.pinnings(step.after.held)[grant.container] == step.placed.pinning


def check_cores(step: Step) -> None:
    """Who preferences for whole cores and has so many CPUs owns them whole: nobody else is on a sibling."""
    if step.placed is None or step.subject is None or step.subject.previous is not None:
        return
    machine, owned = step.after.policy.machine, step.placed.grant.owned
    need = model_of(step.after).need(step.subject)
    if (
        need.whole_cores
        and len(owned) == need.own
        and ReasonCode.NO_WHOLE_CORES not in {r.code for r in step.placed.reasons}
    ):
        assert all(core.cpus <= owned for core in machine.cores if core.cpus & owned), f"parts of cores: {owned}"


def check_memory(step: Step) -> None:
    """No set of nodes has more promised inside it than it holds, unless the machine has too little memory as it is.

    A decision breaks no promise that could be kept. Where room has returned, whoever looks after it restores them.
    """
    machine, before, held = step.after.policy.machine, step.before.held, step.after.held
    if len(machine.memory_nodes) > MOST_NODES or not zones_could_hold(machine, held):
        return
    if step.placed is not None:
        before = before.without(step.placed.grant.container)
    if isinstance(step.event, Narrow) or (step.placed is not None and zones_hold(machine, before)):
        assert zones_hold(machine, held), "more memory is promised in some nodes than they have, and others have room"


def check_zones(step: Step) -> None:
    """Zones are of nodes that are there, of the kinds of a strict wish, and lose a node only when they narrow."""
    machine = step.after.policy.machine
    for grant in step.after.held.grants:
        request, zone = grant.request, frozenset(grant.mems)
        if grant.kind is CpuKind.PRESERVE or request.preferences.preserve_memory:
            assert not zone, f"{grant.container} has nodes {grant.mems} that are not ours to write"
            continue
        assert zone or not machine.memory_nodes, f"{grant.container} has no memory"
        assert zone <= frozenset(machine.memory_nodes), f"{grant.container} has nodes {grant.mems}"
        before = step.before.held.get(grant.container)
        if before is not None and not isinstance(step.event, Narrow | Reconfigure):
            assert before.mems <= grant.mems, f"{grant.container} moves from nodes {before.mems} to {grant.mems}"
    if step.placed is not None and step.placed.grant.request.preferences.strict_memory and step.placed.grant.mems:
        grant = step.placed.grant
        held = step.before.held.get(grant.container)
        allowed = allowed_nodes(machine, grant.request) | frozenset(held.mems if held else ())
        assert frozenset(grant.mems) <= allowed, f"{grant.container} has nodes {grant.mems}"


def check_updates(step: Step) -> None:
    """The updates of a decision or release are the others whose pinning differs, no more and no less."""
    if step.before.policy is not step.after.policy or not (step.updates or step.decision):
        return
    old = step.before.policy.pinnings(step.before.held)
    new = step.after.policy.pinnings(step.after.held)
    own = step.subject.container if step.subject else None
    expected = [(k, new[k]) for k in sorted(new) if k != own and k in old and new[k] != old[k]]
    assert [(u.container, u.pinning) for u in step.updates] == expected


def check_restart(step: Step) -> None:
    """A new start changes nothing at all; neither do CPUs that somebody else brings."""
    if isinstance(step.event, Restart):
        assert step.after.held == step.before.held
    if isinstance(step.event, Restart | Withhold):
        assert step.after.policy.pinnings(step.after.held) == step.before.policy.pinnings(step.before.held)


def check_moved(step: Step) -> None:
    """Only a change of options or hardware moves the own CPUs of containers that the step is not about."""
    subject = step.subject.container if step.subject else None
    for new in () if isinstance(step.event, Reconfigure) else step.after.held.grants:
        old = step.before.held.get(new.container)
        assert old is None or old.owned == new.owned or new.container == subject, f"{new.container} was moved"
