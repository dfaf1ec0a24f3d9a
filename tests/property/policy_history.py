"""Random histories on a policy: creations, resizes, ends and returns, reconfigurations, hotplug, restarts."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from policies.base import QosClass
from policies.hardware.reserve import choose_reserved
from policies.preferences import BurstLevel, CpuPriority, Threads
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import unplugged
from tests.property.policy_events import (
    Create,
    Event,
    Narrow,
    Reconfigure,
    Release,
    Resize,
    Restart,
    Return,
    Step,
    Warm,
    Withhold,
    World,
    on,
)
from tests.property.random_requests import SIZES_MCPU, random_memory, random_request


def start(machine: Machine, rng: random.Random) -> World:
    """Nothing granted, every online CPU available."""
    return on(machine, random_options(machine, rng, machine.online))


def play(world: World, rng: random.Random, steps: int, *, reconfigure: bool = True) -> Iterator[Step]:
    """So many random steps, each from where the one before ended. The policy stays as it is without ``reconfigure``."""
    for number in range(steps):
        step = random_event(world, rng, number, reconfigure=reconfigure).happen(world)
        yield step
        world = step.after


def random_event(world: World, rng: random.Random, number: int, *, reconfigure: bool = True) -> Event:
    """Something that can happen here."""
    held, gone = world.held.grants, world.gone
    choices: list[tuple[int, Callable[[], Event]]] = [
        (38, lambda: Create(random_request(world.whole, rng, number))),
        (4, Narrow),
        (1, lambda: Withhold(rng.choice((CpuSet(), _some(world.whole.online, rng, 0.1))))),
    ]
    if held:
        choices.append((30, lambda: Release(rng.choice(held).container)))
        choices.append((8, lambda: _random_resize(world, rng)))
        choices.append((2, lambda: Warm(rng.choice([g for g in held if g.is_cold] or held).container)))
    if gone:
        choices.append((5, lambda: Return(rng.choice(gone).container)))
    if reconfigure:
        choices.append((2, Restart))
        choices.append((2, lambda: _random_options(world, rng, number)))
        choices.append((2, lambda: _random_hotplug(world, rng)))
    return rng.choices([make for _, make in choices], [weight for weight, _ in choices])[0]()


def _random_resize(world: World, rng: random.Random) -> Event:
    grant = rng.choice(world.held.grants)
    qos = grant.request.pod.qos
    mcpu = 0 if qos is QosClass.BEST_EFFORT else rng.choice(SIZES_MCPU)
    return Resize(grant.container, mcpu, *random_memory(rng, qos))


def _random_options(world: World, rng: random.Random, number: int) -> Event:
    """Other options on the machine as it is, and some containers that nobody had decided on."""
    machine = world.policy.machine
    available = random_available(machine, rng)
    newcomers = tuple(random_request(machine, rng, number * 10 + 100_000 + i) for i in range(rng.randrange(3)))
    gone = world.whole.online - machine.online
    emptied = world.whole.memory_nodes - machine.memory_nodes
    return Reconfigure(random_options(machine, rng, available), gone, emptied, newcomers)


def _random_hotplug(world: World, rng: random.Random) -> Event:
    """CPUs and memory go or come back; the options stay, but for what they must not lack."""
    whole = world.whole
    gone, emptied = random_gone(whole, rng)
    machine = unplugged(whole, gone, emptied)
    options = world.options
    if not options.available & machine.online:
        options = replace(options, available=machine.online)
    return Reconfigure(options, gone, emptied)


def random_available(machine: Machine, rng: random.Random) -> CpuSet:
    """All online CPUs, or most of them."""
    return rng.choice((machine.online, _with_a_sharable(machine, _some(machine.online, rng, 0.8))))


def random_gone(whole: Machine, rng: random.Random) -> tuple[CpuSet, NodeSet]:
    """CPUs that go offline, and nodes whose memory is taken out: most often none."""
    gone = _some(whole.online, rng, rng.choice((0.0, 0.1, 0.4)))
    gone = gone - _with_a_sharable(whole, whole.online - gone)
    if len(whole.memory_nodes) > 1 and rng.randrange(4) == 0:
        return gone, NodeSet.of([rng.choice(list(whole.memory_nodes))])
    return gone, NodeSet()


def _with_a_sharable(machine: Machine, cpus: CpuSet) -> CpuSet:
    """These CPUs, and an ordinary one if there is none among them: every kernel has a housekeeping CPU."""
    ordinary = machine.online - machine.isolated
    return cpus if cpus & ordinary else cpus | CpuSet.of(list(ordinary)[:1])


def _some(cpus: CpuSet, rng: random.Random, part: float) -> CpuSet:
    return CpuSet.of(cpu for cpu in cpus if rng.random() < part)


def random_options(machine: Machine, rng: random.Random, available: CpuSet) -> TopologyAwareOptions:
    """Options with some CPUs reserved, or none."""
    most = 1000 * (len(available) // 2)
    return TopologyAwareOptions(
        available,
        choose_reserved(machine, available, min(most, rng.choice((0, 0, 750, 1000, 2000)))),
        pin_cpu=rng.random() < 0.95,
        pin_memory=rng.random() < 0.9,
        prefer_isolated=rng.random() < 0.8,
        prefer_shared=rng.random() < 0.1,
        colocate_pods=rng.random() < 0.2,
        colocate_namespaces=rng.random() < 0.1,
        l3_pools=rng.choice(("auto", "auto", "true", "false")),
        reserved_namespaces=rng.choice(((), (), ("batch",))),
        unlimited_burst=rng.choice(list(BurstLevel)),
        threads=rng.choice((Threads.ANY, Threads.ANY, *Threads)),
        cpu_priority=rng.choice((CpuPriority.NONE, CpuPriority.NONE, *CpuPriority)),
    )
