"""Another policy for a node that runs: what is legal stays, the fewest move, or nothing changes at all.

New options and a new machine come this way (spec section 8).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from cri_proxy.node.context import NodeRules
from cri_proxy.node.ledger.deadlock import break_deadlocks
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.node import Node
from cri_proxy.node.replan import RACES
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, Pinning, Reason, Reinstated
from policies.policy import Policy

# Containers that are told of before others have their turn on the event loop.
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The new policy is in force; ``replaced`` are the containers that could not keep what they had."""

    kept: tuple[ContainerKey, ...]
    replaced: tuple[tuple[ContainerKey, Reason], ...]


@dataclass(frozen=True, slots=True)
class NotReconfigured:
    """The old policy stays in force, and why."""

    text: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What a change would come to: ``problem`` is why it would not be made ('' = it would).

    ``moves`` are the containers that would be updated, with what each should be on before and after.
    """

    problem: str
    moves: tuple[tuple[Row, Pinning, Pinning], ...]


async def plan(node: Node, policy: Policy) -> Planned:
    """What ``reconfigure`` with ``must_fit`` would do now; nothing changes. Who gets room later is not foreseen."""
    ledger = node.context.ledger
    tried = await _try(ledger, policy, must_fit=True)
    before, after = ledger.desired(), policy.pinnings(tried.result.allocations)
    nothing = Pinning(None, None)  # not ours to write, also afterwards
    pairs = ((row, before.get(row.key, nothing), after.get(row.key, nothing)) for row in ledger.active())
    return Planned(tried.problem, tuple((row, old, new) for row, old, new in pairs if nothing != old != new))


async def reconfigure(
    node: Node, policy: Policy, rules: NodeRules, *, must_fit: bool = True
) -> Reconfigured | NotReconfigured:
    """Put this policy and these rules in force; the updates that follow go out in the background.

    ``must_fit``: refuse the whole change when a container would lose what it was granted for want of room, or when
    containers would have to change places where every CPU is owned; False is for what cannot be refused, as CPUs
    that went away.
    """
    ledger = node.context.ledger
    tried = await _try(ledger, policy, must_fit=must_fit)
    result = tried.result
    if tried.problem:
        return NotReconfigured(f"{tried.problem}; nothing was changed")
    before = ledger.allocations
    changed = ledger.use_policy(policy, result.allocations)
    node.coordinator.use_rules(rules)
    node.coordinator.update_fallback()
    await node.context.persistence.save(changed)
    await _tell(node, before, result)
    node.effects.schedule()
    node.rebalance.soon(thoroughly=True)
    if rules.adopt == "pin" and node.adoption.forget_left():
        node.context.tasks.start(node.resync.check_all("they are not to be left alone any more"), name="adopt")
    return Reconfigured(result.kept, result.replaced)


async def _tell(node: Node, before: Allocations, result: Reinstated) -> None:
    """Tell who holds something else, and let others in between: each is a log line and a record."""
    for number, (key, reason) in enumerate((*result.replaced, *result.unplaced)):
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        after = result.allocations.get(key)
        if after is not None and after == node.context.ledger.allocations.get(key):  # nothing newer since
            node.context.observer.changed(before.get(key), after, reason.text)


@dataclass(frozen=True, slots=True)
class Tried:
    """What becomes of who is there, and why the change is not made ('' = it can be)."""

    result: Reinstated
    problem: str


async def _try(ledger: Ledger, policy: Policy, *, must_fit: bool) -> Tried:
    """Try the policy on a copy of the ledger, off the event loop, again if somebody changed anything meanwhile.

    No ``await`` lies between the last look at the ledger and the return, so the caller may take the result over.
    """
    for _ in range(RACES):
        version, rows = ledger.version, ledger.active()
        tried = await asyncio.to_thread(_tried, ledger.copy(), policy, must_fit=must_fit)
        # The version counts grants; where containers are, as far as the runtime has said, is in the rows.
        if ledger.version == version and ledger.active() == rows:
            return tried
    return _tried(ledger.copy(), policy, must_fit=must_fit)


def _tried(trial: Ledger, policy: Policy, *, must_fit: bool) -> Tried:
    """The same at once; ``trial`` is used up."""
    result = policy.reinstate(trial.allocations, ())
    return Tried(result, _problem(trial, policy, result) if must_fit else "")


def _problem(trial: Ledger, policy: Policy, result: Reinstated) -> str:
    """Why the change is not made; '' when it is."""
    lost = [(key, reason) for key, reason in result.unplaced if _has_something_to_lose(trial, key)]
    if lost:
        return f"the change leaves no room for {_names(trial, [key for key, _ in lost])} ({lost[0][1].text})"
    stuck = _stuck(trial, policy, result)
    if stuck:
        who = _names(trial, stuck)
        return f"{who} would have to change places where every CPU is owned: free a CPU first, or choose others"
    return ""


def _stuck(trial: Ledger, policy: Policy, result: Reinstated) -> tuple[ContainerKey, ...]:
    """Who would wait for each other's CPUs for ever, though every update went well.

    Somebody steps aside where there is a CPU that nobody owns (``node.ledger.deadlock``); this finds who could not.
    """
    if not result.replaced:
        return ()  # whoever stays on his own CPUs keeps nobody from his
    trial.use_policy(policy, result.allocations)
    for _ in range(2 * len(trial.active()) + 1):  # each round settles somebody for good, parks somebody, or ends it
        moved = [row for row in trial.unsettled() if _moves(trial, row)]
        if not break_deadlocks(trial) and not moved:
            break
    return tuple(row.key for row in trial.active() if _is_elsewhere(trial, row))


def _moves(trial: Ledger, row: Row) -> bool:
    """Let this container's update go well; False when there is none to send."""
    target = trial.sendable(row.key)
    return target is not None and target != row.acknowledged and trial.confirm(row.key, target) is not None


def _is_elsewhere(ledger: Ledger, row: Row) -> bool:
    wanted = ledger.desired().get(row.key)
    if wanted is None or wanted.cpus is None or row.acknowledged is None or not row.container_id:
        return False
    return row.acknowledged.cpus != wanted.cpus


def _has_something_to_lose(ledger: Ledger, key: ContainerKey) -> bool:
    """False for a container that went without what it asked for before."""
    row = ledger.get(key)
    return row is not None and bool(row.grant.owned or row.grant.shared_mcpu or row.grant.reserved_mcpu)


def _names(ledger: Ledger, keys: Iterable[ContainerKey]) -> str:
    rows = ((key, ledger.get(key)) for key in keys)
    return ", ".join(f"{row.grant.request.pod.name if row else key.pod_uid}/{key.name}" for key, row in rows)
