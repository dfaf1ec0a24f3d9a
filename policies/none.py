"""The policy ``none``: nothing is pinned, every container keeps its own cpuset."""

from collections.abc import Sequence

from policies.base import Allocations, CpuKind, Grant, Pinning, Pinnings, Placed, Reason, Reinstated, Request
from policies.policy import Policy

_UNTOUCHED = Pinning(None, None)
_NOT_MANAGED = Reason("not-managed", "the policy is none: no container is pinned")


class NonePolicy(Policy):
    """Grants of kind PRESERVE only."""

    name = "none"

    def decide(self, held: Allocations, request: Request) -> Placed:
        """Place every container with an empty grant."""
        return Placed(Grant(request, "", CpuKind.PRESERVE), _UNTOUCHED, reasons=(_NOT_MANAGED,))

    def pinnings(self, held: Allocations) -> Pinnings:
        """Return nothing to write for each container."""
        return {g.container: _UNTOUCHED for g in held.grants}

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Replace every grant of another policy with an empty one."""
        managed = (g.request for g in held.grants if g.kind is not CpuKind.PRESERVE)
        new = {r.container: Grant(r, "", CpuKind.PRESERVE) for r in (*managed, *requests)}
        return Reinstated.of(held.with_grants(*new.values()), dict.fromkeys(new, _NOT_MANAGED))

    def fallback(self, held: Allocations) -> Pinning:
        """Return nothing to write."""
        return _UNTOUCHED
