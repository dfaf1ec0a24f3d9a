"""Put a new policy (options or machine) in force on a running node, or refuse it whole; plan it as a dry run.

A change that cannot be refused, as CPUs that went away, is applied as far as it fits (docs/placement.md, Restart and
faults).
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from cri_proxy.config.model import Config
from cri_proxy.node.ledger.deadlock import break_deadlocks
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.ledger.start_calls import StartCalls
from cri_proxy.node.node import Node
from cri_proxy.node.replan import admit, off_loop
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, Pinning, Reinstated
from policies.devices import DeviceInventory
from policies.policy import Policy

# Changes that are reported before other tasks get the event loop.
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Planned:
    """The effects of a change: ``problem`` is why it would be refused ('' = it would not).

    ``moves`` are the containers that would be updated, with what each should be on before and after.
    """

    problem: str
    moves: tuple[tuple[Row, Pinning, Pinning], ...]


async def plan(node: Node, policy: Policy, config: Config | None = None) -> Planned:
    """Return the changes by ``reconfigure`` with ``must_fit``, without later improvements; nothing changes yet.

    ``config`` None: the options in force.
    """
    ledger = node.context.ledger
    result, _, problem = await _try(ledger, policy, config or node.coordinator.config, must_fit=True)
    trial = ledger.copy()
    trial.starts = StartCalls()  # a start that is under way delays updates, and ends
    trial.use_policy(policy, result.allocations)
    before, after = ledger.desired(), trial.desired()
    nothing = Pinning()  # not ours to write
    pairs = ((row, before.get(row.key, nothing), after.get(row.key, nothing)) for row in ledger.active())
    return Planned(problem, tuple((row, old, new) for row, old, new in pairs if old != new))


async def reconfigure(node: Node, policy: Policy, config: Config, *, must_fit: bool = True) -> str:
    """Put this policy and these options in force; the updates that follow go out in the background.

    Return '' or why nothing was changed. ``must_fit``: refuse the whole change when a container would lose its grant
    for lack of room, or when containers would have to swap places while every CPU is owned. False is for changes that
    cannot be refused, as CPUs that went away. Nothing is placed again where only options changed that place nothing.
    """
    ledger, old = node.context.ledger, node.coordinator.config
    # Equal options mean that a reload was asked for: then all are placed again.
    if policy is not ledger.policy or config == old or config.annotation_rules != old.annotation_rules:
        problem = await _place_again(node, policy, config, must_fit=must_fit)
        if problem:
            return f"{problem}; nothing was changed"
    node.coordinator.config = config
    if config.adopt == "pin" and node.adoption.forget_left():
        node.context.tasks.start(node.resync.check_all("they are not to be left alone any more"), name="adopt")
    return ""


async def _place_again(node: Node, policy: Policy, config: Config, *, must_fit: bool) -> str:
    ledger = node.context.ledger
    result, refused, problem = await _try(ledger, policy, config, must_fit=must_fit)
    if problem:
        return problem
    before = ledger.allocations
    changed = ledger.use_policy(policy, result.allocations)
    # With the policy, before the first await: a decision while this is saved must not mix old and new options.
    node.coordinator.config = config
    node.coordinator.update_fallback()
    if changed:
        await node.context.persistence.save(changed)
    await _report(node, before, result, refused)
    # Last: what moved is saved before the runtime hears of it (docs/adr/0003-store.md).
    node.effects.schedule()
    node.rebalance.soon(thoroughly=True)
    return ""


def use_devices(node: Node, devices: DeviceInventory) -> None:
    """Let new containers choose among these devices. No grant changes: what containers hold stays theirs."""
    ledger = node.context.ledger
    policy = ledger.policy.with_devices(devices)
    if policy is not ledger.policy:
        ledger.use_policy(policy, ledger.allocations)


async def _report(node: Node, before: Allocations, result: Reinstated, refused: Mapping[ContainerKey, str]) -> None:
    """Report the changed grants, with pauses for other tasks: each is a log line and a record.

    ``refused``: the annotations that containers have lost, and why.
    """
    said = {**{key: reason.text for key, reason in (*result.replaced, *result.unplaced)}, **refused}
    for number, (key, why) in enumerate(said.items()):
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        after = result.allocations.get(key)
        if after is not None and after == node.context.ledger.allocations.get(key):  # nothing newer since
            node.context.journal.changed(before.get(key), after, why)


_Tried = tuple[Reinstated, Mapping[ContainerKey, str], str]


async def _try(ledger: Ledger, policy: Policy, config: Config, *, must_fit: bool) -> _Tried:
    """Return the containers under this policy and these options, the wishes that they lose, and the problem.

    The problem is why it is refused ('' = it is not).

    No ``await`` lies between the last check of the ledger and the return, so the caller may apply the result.
    """
    # The version counts grants; where containers are, as far as the runtime has said, is in the rows.
    return await off_loop(
        lambda: (ledger.version, ledger.active()),
        lambda: partial(_try_at_once, ledger.copy(), policy, config, must_fit=must_fit),
    )


def _try_at_once(trial: Ledger, policy: Policy, config: Config, *, must_fit: bool) -> _Tried:
    """Try the policy on this copy of the ledger, which changes."""
    admitted = admit(trial.allocations, config.annotation_rules)
    result = policy.reinstate(admitted.held, admitted.requests)
    return result, admitted.why, _problem(trial, policy, result) if must_fit else ""


def _problem(trial: Ledger, policy: Policy, result: Reinstated) -> str:
    """Return why the change is refused; '' when it is not."""
    rows = ((trial.get(key), reason) for key, reason in result.unplaced)
    # A container that had nothing of what it asked for before has nothing to lose.
    lost = [
        (row, why) for row, why in rows if row and (row.grant.owned or row.grant.shared_mcpu or row.grant.reserved_mcpu)
    ]
    if lost:
        return f"the change leaves no room for {_names(row for row, _ in lost)} ({lost[0][1].text})"
    stuck = _stuck(trial, policy, result)
    if stuck:
        who = _names(stuck)
        return f"{who} would have to change places where every CPU is owned: free a CPU first, or choose others"
    return ""


def _stuck(trial: Ledger, policy: Policy, result: Reinstated) -> tuple[Row, ...]:
    """Return the containers that would wait for each other's CPUs without end although every update succeeds.

    One steps aside where there is a CPU without an owner (``node.ledger.deadlock``); these could not.
    """
    if not result.replaced:
        return ()  # a container that stays on its own CPUs blocks no other
    trial.starts = StartCalls()  # a start that is under way delays updates, and ends
    trial.use_policy(policy, result.allocations)
    for _ in range(2 * len(trial.active()) + 1):  # each round settles one for good, moves one aside, or is the last
        moved = []
        for row in trial.unsettled():  # let each update that there is to send succeed
            target = trial.sendable(row.key)
            if target is not None and target != row.acknowledged and trial.confirm(row.key, target) is not None:
                moved.append(row)
        if not break_deadlocks(trial) and not moved:
            break
    return tuple(row for row in trial.active() if _is_elsewhere(trial, row))


def _is_elsewhere(ledger: Ledger, row: Row) -> bool:
    wanted = ledger.desired().get(row.key)
    if wanted is None or wanted.cpus is None or row.acknowledged is None or not row.container_id:
        return False
    return row.acknowledged.cpus != wanted.cpus


def _names(rows: Iterable[Row]) -> str:
    return ", ".join(f"{row.grant.request.pod.name}/{row.key.name}" for row in rows)
