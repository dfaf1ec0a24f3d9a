"""Re-planning of many containers: on a snapshot, off the event loop, and taken only if nobody decided meanwhile."""

import asyncio
from collections.abc import Callable, Sequence

from cri_proxy.node.ledger.ledger import Ledger
from policies.base import Allocations, Reinstated, Request
from policies.policy import Policy

# A node decides a few times a second at most, and a re-plan takes milliseconds: after this many lost races the
# re-plan is made on the loop, where nobody can come in between.
RACES = 5

Inputs = Callable[[], tuple[Allocations, Sequence[Request]]]


async def replan(ledger: Ledger, policy: Policy, inputs: Inputs) -> Reinstated:
    """Reinstate what ``inputs`` gives for the ledger as it is.

    No ``await`` lies between the last look at the ledger and the return, so the caller may take the result over.
    """
    for _ in range(RACES):
        version = ledger.version
        held, requests = inputs()
        result = await asyncio.to_thread(policy.reinstate, held, requests)
        if ledger.version == version:
            return result
    return policy.reinstate(*inputs())
