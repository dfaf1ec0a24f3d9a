"""Another policy for a node that runs: what is legal stays, the fewest move, or nothing changes at all.

New options and a new machine come this way (spec section 8).
"""

from dataclasses import dataclass

from cri_proxy import events
from cri_proxy.node.context import Rules
from cri_proxy.node.node import Node
from cri_proxy.node.replan import replan
from policies.base import ContainerKey, Policy, Reason


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
    ledger = node.context.ledger
    result = await replan(ledger, policy, lambda: (ledger.allocations, ()))
    had_a_place = [(key, reason) for key, reason in result.unplaced if not _is_unplaced(node, key)]
    if must_fit and had_a_place:
        return NotReconfigured(_no_room(node, had_a_place))
    changed = ledger.use_policy(policy, result.allocations)
    node.coordinator.rules = rules
    node.coordinator.remember_fallback()
    for key, reason in (*result.replaced, *result.unplaced):
        node.context.observer.noted(events.REPLACED, pod=key.pod_uid, container=key.name, reason=reason.text)
    await node.context.persistence.save(changed)
    node.effects.kick()
    return Reconfigured(result.kept, result.replaced)


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
