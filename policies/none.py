"""The policy ``none``: nothing is pinned, every container keeps its own cpuset."""

from collections.abc import Sequence

from policies.answers import Condition
from policies.base import Allocations, CpuKind, Grant, Pinning, Pinnings, Placed, Reason, Reinstated, Request
from policies.device_grants import DeviceGrant, with_given
from policies.policy import Policy

_UNTOUCHED = Pinning(None, None)
_NOT_MANAGED = Reason("not-managed", "the policy is none: no container is pinned")


class NonePolicy(Policy):
    """Grants of kind PRESERVE only."""

    name = "none"

    def decide(self, held: Allocations, request: Request) -> Placed:
        """Place every container with an empty grant."""
        own = held.get(request.container)
        runs = request.previous is not None and request.previous.is_running
        # It has them open; another attempt is given its devices by the kubelet again.
        devices = own.devices if own is not None and runs else ()
        return Placed(_grant(request, devices), _UNTOUCHED, reasons=(_NOT_MANAGED,))

    def pinnings(self, held: Allocations) -> Pinnings:
        """Return nothing to write for each container."""
        return {g.container: _UNTOUCHED for g in held.grants}

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Replace every grant of another policy with one of nothing but the devices that the container has."""
        managed = (_grant(g.request, g.devices) for g in held.grants if g.kind is not CpuKind.PRESERVE)
        added = (_grant(r, _devices(held, r)) for r in requests)
        new = {grant.container: grant for grant in (*managed, *added)}
        return Reinstated.of(held.with_grants(*new.values()), dict.fromkeys(new, _NOT_MANAGED))

    def not_exclusive(self, grant: Grant) -> tuple[Condition, ...]:
        """Return that this policy gives no CPUs to anyone."""
        return (Condition("policy", "the policy is none: no container is pinned", "set policy: topology-aware"),)

    def fallback(self, held: Allocations) -> Pinning:
        """Return nothing to write."""
        return _UNTOUCHED


def _grant(request: Request, devices: tuple[DeviceGrant, ...]) -> Grant:
    return Grant(request, "", CpuKind.PRESERVE, devices=with_given(devices, request.given))


def _devices(held: Allocations, request: Request) -> tuple[DeviceGrant, ...]:
    """Return the devices of a container that runs: those of its grant, or those that it is known to have had."""
    own = held.get(request.container)
    if own is not None:
        return own.devices
    return request.previous.devices if request.previous is not None else ()
