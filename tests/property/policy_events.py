"""What happens to a node under a policy, as values, and what comes of each.

There is no chance in an event, so a history can be replayed, played on a renumbered twin, cut down to what makes it
fail, and printed.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from cri_proxy.codec import decode, encode
from policies.base import Allocations, ContainerKey, Decision, Grant, Placed, Rejected, Request, Update
from policies.builder import build_policy
from policies.devices import EMPTY_INVENTORY, DeviceInventory
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import unplugged

REMEMBERED = 6  # containers that ended and may come back


@dataclass(frozen=True, slots=True)
class World:
    """A policy with its options and what is granted on it. ``whole`` is the machine with everything plugged in.

    ``admits``: who only shares is let in where there is no room, as with ``onShortage: admit``.
    """

    policy: Policy
    options: TopologyAwareOptions
    held: Allocations
    whole: Machine
    gone: tuple[Grant, ...] = ()
    admits: bool = False


def on(machine: Machine, options: TopologyAwareOptions, devices: DeviceInventory = EMPTY_INVENTORY) -> World:
    return World(build_policy("topology-aware", machine, options, devices), options, Allocations(), machine)


class Event(Protocol):
    """Something that happens. About a container that is not there it changes nothing."""

    def happen(self, world: World) -> "Step":
        """The world as it is then, and what was decided."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event and what came of it. ``subject`` is the request that was decided on, if one was."""

    event: Event
    before: World
    after: World
    subject: Request | None = None
    decision: Decision | None = None
    updates: tuple[Update, ...] = ()

    @property
    def placed(self) -> Placed | None:
        return self.decision if isinstance(self.decision, Placed) else None

    @property
    def refused(self) -> Rejected | None:
        return self.decision if isinstance(self.decision, Rejected) else None


def replay(world: World, events: Iterable[Event]) -> Iterator[Step]:
    for event in events:
        step = event.happen(world)
        yield step
        world = step.after


def decided(event: Event, world: World, request: Request) -> Step:
    """The step in which this container is decided on."""
    decision = world.policy.decide(world.held, request)
    if isinstance(decision, Rejected) and world.admits:
        decision = world.policy.overcommitted(world.held, request, decision)
    if isinstance(decision, Rejected):
        return Step(event, world, world, request, decision)
    held = world.held.with_grants(*decision.moved, decision.grant)
    return Step(event, world, replace(world, held=held), request, decision, decision.updates)


@dataclass(frozen=True, slots=True)
class Create:
    request: Request

    def happen(self, world: World) -> Step:
        return decided(self, world, self.request)


@dataclass(frozen=True, slots=True)
class Resize:
    """A container that runs asks for other amounts."""

    container: ContainerKey
    cpu_request_mcpu: int
    memory_request_bytes: int
    memory_limit_bytes: int | None

    def happen(self, world: World) -> Step:
        grant = world.held.get(self.container)
        if grant is None:
            return Step(self, world, world)
        wanted = replace(
            grant.request,
            cpu_request_mcpu=self.cpu_request_mcpu,
            memory_request_bytes=self.memory_request_bytes,
            memory_limit_bytes=self.memory_limit_bytes,
            previous=grant.as_running,
        )
        return decided(self, world, wanted)


@dataclass(frozen=True, slots=True)
class Release:
    container: ContainerKey

    def happen(self, world: World) -> Step:
        grant = world.held.get(self.container)
        if grant is None:
            return Step(self, world, world)
        updates = world.policy.release(world.held, self.container)
        gone = (*(g for g in world.gone if g.container != self.container), grant)[-REMEMBERED:]
        after = replace(world, held=world.held.without(self.container), gone=gone)
        return Step(self, world, after, updates=updates)


@dataclass(frozen=True, slots=True)
class Return:
    """A container that ended is created again, and wants its place back."""

    container: ContainerKey

    def happen(self, world: World) -> Step:
        grant = next((g for g in world.gone if g.container == self.container), None)
        if grant is None:
            return Step(self, world, world)
        return decided(self, world, replace(grant.request, previous=grant.as_previous))


@dataclass(frozen=True, slots=True)
class Narrow:
    """There is room again: who was widened may come back, and who shares may move to a better place."""

    def happen(self, world: World) -> Step:
        held = world.held.with_grants(*world.policy.narrowed(world.held))
        return Step(self, world, replace(world, held=held.with_grants(*world.policy.better_places(held).grants)))


@dataclass(frozen=True, slots=True)
class Warm:
    """A container's cold start is over."""

    container: ContainerKey

    def happen(self, world: World) -> Step:
        if world.held.get(self.container) is None:
            return Step(self, world, world)
        warmed = world.policy.after_cold_start(world.held, self.container)
        return Step(self, world, replace(world, held=world.held.with_grants(*warmed)))


@dataclass(frozen=True, slots=True)
class Withhold:
    """Containers that are not ours brought these CPUs."""

    cpus: CpuSet

    def happen(self, world: World) -> Step:
        return Step(self, world, replace(world, held=replace(world.held, withheld=self.cpus)))


@dataclass(frozen=True, slots=True)
class Restart:
    """The daemon starts anew on what it saved."""

    def happen(self, world: World) -> Step:
        saved = json.dumps(encode(world.held, sparse=True))
        policy = build_policy("topology-aware", world.policy.machine, world.options, world.policy.devices)
        held = policy.reinstate(decode(Allocations, json.loads(saved))).allocations
        return Step(self, world, replace(world, policy=policy, held=held))


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Other options, CPUs or memory that came or went, and containers that nobody had decided on."""

    options: TopologyAwareOptions
    gone_cpus: CpuSet = CpuSet()
    emptied_nodes: NodeSet = NodeSet()
    newcomers: tuple[Request, ...] = ()

    def happen(self, world: World) -> Step:
        machine = unplugged(world.whole, self.gone_cpus, self.emptied_nodes)
        policy = build_policy("topology-aware", machine, self.options, world.policy.devices)
        held = policy.reinstate(world.held, self.newcomers).allocations
        return Step(self, world, replace(world, policy=policy, options=self.options, held=held))
