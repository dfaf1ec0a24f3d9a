"""A tiny policy: every container runs on all available CPUs but the reserved ones, and owns none of them."""

from collections.abc import Sequence

from policies.base import Allocations, CpuKind, Grant, Pinning, Pinnings, Placed, Reason, Reinstated, Request
from policies.devices.model import EMPTY_INVENTORY, DeviceInventory
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
        return Placed(Grant(request, "root", CpuKind.SHARED), self._pinning, reasons=(_SHARED,))

    def pinnings(self, held: Allocations) -> Pinnings:
        return {grant.container: self._pinning for grant in held.grants}

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        foreign = (g.request for g in held.grants if (g.pool, g.kind) != ("root", CpuKind.SHARED))
        new = {r.container: Grant(r, "root", CpuKind.SHARED) for r in (*foreign, *requests)}
        return Reinstated.of(held.with_grants(*new.values()), dict.fromkeys(new, _SHARED))

    def fallback(self, held: Allocations) -> Pinning:
        return self._pinning
