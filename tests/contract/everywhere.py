"""A tiny policy: every container runs on all available CPUs but the reserved ones, and owns none of them."""

from collections.abc import Sequence

from policies.base import Allocations, CpuKind, Grant, Pinning, Pinnings, Placed, Reason, Reinstated, Request
from policies.device_grants import with_given
from policies.devices import EMPTY_INVENTORY, DeviceInventory
from policies.options import PolicyOptions
from policies.policy import Policy
from sysfs.model import Machine

_SHARED = Reason("everywhere", "all containers share all CPUs")


class Everywhere(Policy):
    """What a new policy begins as."""

    name = "everywhere"

    def __init__(
        self,
        machine: Machine,
        options: PolicyOptions,
        devices: DeviceInventory = EMPTY_INVENTORY,
    ) -> None:
        super().__init__(machine, options, devices)
        self._pinning = Pinning(self.available - options.reserved or self.available, machine.memory_nodes)

    def decide(self, held: Allocations, request: Request) -> Placed:
        own = held.get(request.container)
        runs = request.previous is not None and request.previous.is_running
        devices = with_given(own.devices if own is not None and runs else (), request.given)
        return Placed(Grant(request, "root", CpuKind.SHARED, devices=devices), self._pinning, reasons=(_SHARED,))

    def pinnings(self, held: Allocations) -> Pinnings:
        return {grant.container: self._pinning for grant in held.grants}

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        foreign = (g for g in held.grants if (g.pool, g.kind) != ("root", CpuKind.SHARED))
        new = {g.container: Grant(g.request, "root", CpuKind.SHARED, devices=g.devices) for g in foreign}
        new |= {r.container: Grant(r, "root", CpuKind.SHARED, devices=r.given) for r in requests}
        return Reinstated.of(held.with_grants(*new.values()), dict.fromkeys(new, _SHARED))

    def fallback(self, held: Allocations) -> Pinning:
        return self._pinning
