"""Turn what the policy rejects into refusals; keep those by topology hints, to answer repeats with.

The kubelet knows no admission failure from a runtime: it creates the container again and again, with growing pauses.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from cri_proxy.node.coordinator import Refusal
from cri_proxy.node.ledger.ledger import Ledger
from policies.base import ContainerKey, Rejected, Request
from policies.policy import Policy
from policies.topology_aware.reason_codes import ReasonCode

MOST_KEPT: Final = 128
"""Containers that wait for room at a time, at most as many as pods on a node by the kubelet's default (110); a refusal
that is forgotten is worked out again."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A refusal, and all that it followed from."""

    request: Request
    version: int
    policy: Policy
    rejected: Rejected


class Refusals:
    """The last refusals. Any change of a grant, of the configuration or of the machine makes them void."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.known: OrderedDict[ContainerKey, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self.known)

    def get(self, request: Request) -> Rejected | None:
        """Return the refusal of the same request, if nothing has changed since."""
        known = self.known.get(request.container)
        if known is None:
            return None
        if (known.version, known.request) == (self._ledger.version, request) and known.policy is self._ledger.policy:
            return known.rejected
        del self.known[request.container]
        return None

    def keep(self, request: Request, rejected: Rejected) -> None:
        """Remember a refusal by topology hints; the oldest one goes where there are too many."""
        if rejected.reason.code != ReasonCode.STRICT_TOPOLOGY:
            return
        self.known[request.container] = _Known(request, self._ledger.version, self._ledger.policy, rejected)
        self.known.move_to_end(request.container)
        while len(self.known) > MOST_KEPT:
            self.known.popitem(last=False)


def refusal_of(rejected: Rejected) -> Refusal:
    """Return the policy's refusal as its caller gets it."""
    return Refusal("strict" if rejected.reason.code.startswith("strict") else "full", rejected.reason.text)
