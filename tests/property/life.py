"""One life: a machine and a history that a seed tells, played with every check after every step.

Lives of a policy are cheap; on small machines the model has its say as well. Lives of a node have a kubelet, a runtime
and a kernel in them, and are checked after every call.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from policies.hardware.reserve import choose_reserved
from policies.topology_aware import TopologyAwareOptions
from tests.fakes.histories import World as NodeWorld
from tests.fakes.machines import random_machine
from tests.property import agreement, invariants
from tests.property.policy_events import Event, Step, World, replay
from tests.property.policy_history import play, start


class Kind(StrEnum):
    """What is alive, and on how large a machine."""

    LARGE = "large"  # a policy
    SMALL = "small"  # a policy, held against the model
    NODE = "node"  # the whole decision path


MAX_CPUS = {Kind.LARGE: 48, Kind.SMALL: 12, Kind.NODE: 24}
MAX_PACKAGES = {Kind.LARGE: 8, Kind.SMALL: 3, Kind.NODE: 4}


@dataclass(frozen=True, slots=True)
class Life:
    """So many steps of a history; the seed tells all there is to it."""

    kind: Kind
    seed: int
    steps: int


class Violation(Exception):
    """Something that must hold does not. ``events`` are those up to there, for a policy."""

    def __init__(self, life: Life, step: int, what: str, events: Sequence[Event] = ()) -> None:
        super().__init__(f"{life.kind} life of seed {life.seed}, step {step}: {what}")
        self.life = life
        self.step = step
        self.events = events


def live(life: Life) -> int:
    """Play a life to its end and give the number of steps that were checked. Raises Violation."""
    return asyncio.run(_live_node(life)) if life.kind is Kind.NODE else _live_policy(life)


def first_world(life: Life, rng: random.Random) -> World:
    """The policy of a life before anything happens. In every other life a shortage lets sharers in."""
    machine = random_machine(rng, max_cpus=MAX_CPUS[life.kind], max_packages=MAX_PACKAGES[life.kind])
    return replace(start(machine, rng), admits=bool(life.seed % 2))


def check(kind: Kind, step: Step) -> None:
    """What must hold after a step. Raises AssertionError."""
    invariants.check(step)
    if kind is Kind.SMALL:
        agreement.check(step)


def _live_policy(life: Life) -> int:
    rng = random.Random(life.seed)
    events: list[Event] = []
    steps = play(first_world(life, rng), rng, life.steps)
    while True:
        try:
            step = next(steps, None)
            if step is None:
                return len(events)
            events.append(step.event)
            check(life.kind, step)
        except Exception as error:
            # A fault of the policy itself counts as much as a broken rule; its event is not among those before.
            raise Violation(life, len(events), f"{type(error).__name__}: {error}", events) from error


async def _live_node(life: Life) -> int:
    rng = random.Random(life.seed)
    machine = random_machine(rng, max_cpus=MAX_CPUS[life.kind], max_packages=MAX_PACKAGES[life.kind])
    most = 1000 * (len(machine.online) - 1)
    reserved = choose_reserved(machine, machine.online, min(most, rng.choice((750, 1500))))
    world = NodeWorld(machine, TopologyAwareOptions(machine.online, reserved), life.seed)
    try:
        await world.open(world.check)
        while world.steps < life.steps:
            await world.step()
    except Exception as error:
        raise Violation(life, world.steps, f"{world.doing}: {type(error).__name__}: {error}") from error
    return world.steps


def shortest(life: Life, events: Sequence[Event]) -> tuple[Event, ...]:
    """The events of a life that are needed to break it, found by leaving out all that can be left out."""
    world = first_world(life, random.Random(life.seed))
    left = tuple(events)
    chunk = len(left) // 2
    while chunk:
        left = _without_chunks(left, chunk, lambda kept: _breaks(life.kind, world, kept))
        chunk //= 2
    return left


def _without_chunks(
    events: tuple[Event, ...], chunk: int, breaks: Callable[[tuple[Event, ...]], bool]
) -> tuple[Event, ...]:
    position = 0
    while position < len(events):
        kept = events[:position] + events[position + chunk :]
        if breaks(kept):
            events = kept
        else:
            position += chunk
    return events


def _breaks(kind: Kind, world: World, events: Sequence[Event]) -> bool:
    try:
        for step in replay(world, events):
            check(kind, step)
    except Exception:  # noqa: BLE001 - a fault of the policy counts as much as a broken rule
        return True
    return False
