"""Re-plan many containers on a snapshot, off the event loop; the result counts only if the ledger is unchanged."""

import asyncio
from collections.abc import Callable, Sequence

from cri_proxy.node.ledger.ledger import Ledger
from policies.base import Allocations, Reinstated, Request
from policies.policy import Policy

# A node decides a few times a second at most and a re-plan takes milliseconds. After so many lost races it is made on
# the loop, where no decision can come in between.
RACES = 5

Inputs = Callable[[], tuple[Allocations, Sequence[Request]]]


async def replan(ledger: Ledger, policy: Policy, inputs: Inputs) -> Reinstated:
    """Reinstate what ``inputs`` returns for the ledger as it is.

    No ``await`` lies between the last check of the ledger and the return, so the caller may apply the result.
    """
    for _ in range(RACES):
        version = ledger.version
        held, requests = inputs()
        result = await asyncio.to_thread(policy.reinstate, held, requests)
        if ledger.version == version:
            return result
    return policy.reinstate(*inputs())
