"""Recorded histories: what the topology-aware policy has answered to random events on each captured machine.

``python -m tests.golden.histories`` records them again after a decision, or the words for it, have changed on purpose.
The differences show whose place has changed; the mark at the end of a line stands for everything else that a policy
says of that step (reasons, ranking, updates, pools, pinnings), so a change of words shows there alone.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from policies.base import Grant, Placed, Rejected
from tests.golden.machines.captures import ours
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
)
from tests.property.policy_history import random_event, start

FOLDER: Final = Path(__file__).with_suffix("")
STEPS: Final = 200
_CROWD: Final = 14
# Machines that differ in what a policy looks at: levels, isolated and offline CPUs, kinds of memory, threads.
MACHINES: Final = ("1s1n-nosmt", "1s2n-l3", "2s-pmem", "2s2n-offline", "2s3n-movable", "2s4n-hbm", "2s4n-isol", "4s4n")

# Fields of later versions, as a value shows them where they say nothing: a mark is the same with and without them.
ADDED_SINCE: Final = (
    "pod_totals=None",
    "share=None",
    "devices=()",
    "is_running=False",
    "is_running=True",  # every resize shows what it is
    "most_nodes=0",
    "prefers_chosen_sets=False",
    "via=''",
    "claim=None",
    "in_use=()",
    "holdings=()",
    "pod_request_mcpu=0",
    "lacks=()",
    "is_shared=False",
    "rebalanced=()",
)
# A field, as a value shows it (the first one where it says nothing), and as it did when the marks were recorded.
RENAMED_SINCE: Final = (
    ("devices=DeviceAsk(counts=(), requests=(), annotations=())", "allocation=None"),
    (" localities=(", " hints=("),
    ("strict_locality=", "strict_hints="),
    ("spread_by_locality=", "spread_by_hints="),
)


def told(name: str) -> str:
    """The history of this machine, one line for each step."""
    world = start(ours(name), random.Random(name))
    return "".join(f"{line}\n" for line in lines(name, world, STEPS, _event_at))


def lines(name: str, world: World, steps: int, event_at: Callable[[World, random.Random, int], Event]) -> Iterator[str]:
    """The options, and a line for each of these steps."""
    yield _without_unset(f"{world.options}")
    for number in range(steps):
        # Each step has its own chance: a changed answer does not change every event after it.
        step = event_at(world, random.Random(f"{name} {number}"), number).happen(world)
        yield f"{number:>3} {_event(step)}: {_outcome(step)} [{_mark(step)}]"
        world = step.after


def _event_at(world: World, rng: random.Random, number: int) -> Event:
    """An event of chance; while there is little, nothing ends, so that most decisions are made where it is tight."""
    event = random_event(world, rng, number)
    while isinstance(event, Release) and len(world.held.grants) < _CROWD:
        event = random_event(world, rng, number)
    return event


def _event(step: Step) -> str:
    match step.event:
        case Create(request):
            wish = f"{request.cpu_request_mcpu}m {request.pod.qos.value}"
            return f"create {request.container.name} {wish}"
        case Resize(container, mcpu):
            return f"resize {container.name} to {mcpu}m"
        case Release(container) | Return(container) | Warm(container):
            return f"{type(step.event).__name__.lower()} {container.name}"
        case Withhold(cpus):
            return f"withhold {cpus or 'no CPU'}"
        case Narrow() | Restart() | Reconfigure():
            return type(step.event).__name__.lower()
        case event:  # of another module
            return str(event)


def _outcome(step: Step) -> str:
    """The container's place, or why it has none, and who else has moved."""
    changed = [grant for grant in step.after.held.grants if step.before.held.get(grant.container) != grant]
    texts = [_place(grant) for grant in changed]
    if isinstance(step.decision, Rejected):
        texts.append(f"refused: {step.decision.reason.text}")
    return "; ".join(texts) or "nobody moves"


def _place(grant: Grant) -> str:
    parts = [grant.container.name, "in", grant.pool or "no pool", grant.kind.value]
    parts += [f"owns {grant.owned}"] if grant.owned else []
    parts += [f"{grant.shared_mcpu}m"] if grant.shared_mcpu else []
    parts += [f"mems {grant.mems}"] if grant.mems else []
    parts += ["has", *map(str, grant.devices)] if grant.devices else []
    return " ".join(parts)


def _mark(step: Step) -> str:
    """Eight digits that stand for all that the policy says of this step; fields that were added since count if set."""
    told = _without_unset("\n".join(map(repr, _everything(step, step.after))))
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _without_unset(text: str) -> str:
    for now, then in RENAMED_SINCE:
        text = text.replace(now, then)
    for unset in ADDED_SINCE:
        text = text.replace(f", {unset}", "")
    return text


def _everything(step: Step, world: World) -> Iterator[object]:
    policy, held = world.policy, world.held
    yield step.decision, step.updates, held
    yield policy.pools(held), policy.fallback(held), sorted(policy.pinnings(held).items())
    if step.subject is not None:
        yield policy.defaults(step.subject), policy.affinity_reasons(step.before.held, step.subject)
    if isinstance(step.decision, Placed):
        yield policy.release(held, step.decision.grant.container)
    if not isinstance(step.event, Create | Release | Resize | Return):
        yield policy.notes, policy.reinstate(held)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for machine in MACHINES:
        (FOLDER / f"{machine}.txt").write_text(told(machine))
