"""Another policy for a node that runs: what is legal stays, the fewest move, or nothing changes at all.

New options and a new machine come this way (spec section 8). The re-plan of all containers is made on a snapshot,
off the event loop, and taken only if nobody has decided anything meanwhile.
"""

import asyncio
from dataclasses import dataclass

from cri_proxy import events
from cri_proxy.node.context import Rules
from cri_proxy.node.node import Node
from policies.base import Allocations, ContainerKey, Policy, Reason, Reinstated

# A node decides a few times a second at most, and a re-plan takes milliseconds: after this many lost races the
# re-plan is made on the loop, where nobody can come in between.
RACES = 5


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The new policy is in force; ``replaced`` are the containers that could not keep what they had."""

    kept: tuple[ContainerKey, ...]
    replaced: tuple[tuple[ContainerKey, Reason], ...]


@dataclass(frozen=True, slots=True)
class NotReconfigured:
    """The old policy stays in force, and why."""

    text: str


async def reconfigure(
    node: Node, policy: Policy, rules: Rules, *, must_fit: bool = True
) -> Reconfigured | NotReconfigured:
    """Put this policy and these rules in force; the updates that follow go out in the background.

    ``must_fit``: refuse the whole change when a container would lose what it was granted for want of room; False
    is for what cannot be refused, as CPUs that went away.
    """
    result = await _replan(node, policy)
    had_a_place = [(key, reason) for key, reason in result.unplaced if not _is_unplaced(node, key)]
    if must_fit and had_a_place:
        return NotReconfigured(_no_room(node, had_a_place))
    ledger = node.context.ledger
    changed = ledger.use_policy(policy, result.allocations)
    node.coordinator.rules = rules
    node.coordinator.remember_fallback()
    for key, reason in (*result.replaced, *result.unplaced):
        node.context.observer.noted(events.REPLACED, pod=key.pod_uid, container=key.name, reason=reason.text)
    await node.context.persistence.save(changed)
    node.effects.kick()
    return Reconfigured(result.kept, result.replaced)


async def _replan(node: Node, policy: Policy) -> Reinstated:
    """The present grants under the new policy. No ``await`` lies between the last look at the ledger and the return."""
    ledger = node.context.ledger
    for _ in range(RACES):
        version, held = ledger.version, ledger.allocations
        result = await asyncio.to_thread(_reinstate, policy, held)
        if ledger.version == version:
            return result
    return _reinstate(policy, ledger.allocations)


def _reinstate(policy: Policy, held: Allocations) -> Reinstated:
    return policy.reinstate(held)


def _is_unplaced(node: Node, key: ContainerKey) -> bool:
    """Whether the container already went without what it asked for, so that it has nothing to lose."""
    row = node.context.ledger.get(key)
    if row is None:
        return True
    grant = row.grant
    return not (grant.owned or grant.shared_mcpu or grant.reserved_mcpu)


def _no_room(node: Node, unplaced: list[tuple[ContainerKey, Reason]]) -> str:
    names = []
    for key, _ in unplaced:
        row = node.context.ledger.get(key)
        pod = row.grant.request.pod.name if row is not None else key.pod_uid
        names.append(f"{pod}/{key.name}")
    return f"the change leaves no room for {', '.join(names)} ({unplaced[0][1].text}); nothing was changed"
