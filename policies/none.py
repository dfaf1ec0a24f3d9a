"""The policy ``none``: nothing is pinned, every container keeps what it brings."""

from collections.abc import Mapping, Sequence

from policies.base import (
    Allocations,
    ContainerKey,
    CpuKind,
    Decision,
    Default,
    Grant,
    Pinning,
    Placed,
    PoolView,
    Reason,
    Reinstated,
    Request,
    Update,
)
from policies.options import PolicyOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine

NAME = "none"
NOT_MANAGED = "not-managed"
REASON_CODES = (NOT_MANAGED,)
_UNTOUCHED = Pinning(None, None)
_NOT_MANAGED = Reason(NOT_MANAGED, "the policy is none: no container is pinned")


class NonePolicy:
    """Implements ``policies.base.Policy`` with grants of kind PRESERVE only."""

    def __init__(self, machine: Machine, options: PolicyOptions) -> None:
        """Remember the machine; of the options only the available CPUs are shown."""
        self._machine = machine
        self._available = options.available & machine.online

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return NAME

    @property
    def machine(self) -> Machine:
        """The machine that it leaves alone."""
        return self._machine

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing is left out where nothing is looked at."""
        return ()

    def defaults(self, request: Request) -> tuple[Default, ...]:
        """No option matters where nothing is placed."""
        return ()

    def company(self, held: Allocations, request: Request) -> tuple[Reason, ...]:
        """Nobody draws anybody anywhere."""
        return ()

    def decide(self, held: Allocations, request: Request) -> Decision:
        """Always a grant of nothing."""
        return Placed(Grant(request, "", CpuKind.PRESERVE), _UNTOUCHED, (), reasons=(_NOT_MANAGED,))

    def pinnings(self, held: Allocations) -> Mapping[ContainerKey, Pinning]:
        """Nothing to write, for everyone."""
        return {g.container: _UNTOUCHED for g in held.grants}

    def release(self, held: Allocations, container: ContainerKey) -> tuple[Update, ...]:
        """Never touches anyone."""
        return ()

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        """Nobody's memory is anyone's business here."""
        return ()

    def warmed(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
        """Nobody starts cold."""
        return ()

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Every grant becomes one of nothing; what another policy had granted is let go."""
        grants = [g if g.kind is CpuKind.PRESERVE else Grant(g.request, "", CpuKind.PRESERVE) for g in held.grants]
        kept = tuple(a.container for a, b in zip(held.grants, grants, strict=True) if a is b)
        added = [Grant(r, "", CpuKind.PRESERVE) for r in requests]
        allocations = Allocations(tuple(grants), held.withheld).with_grants(*added)
        new = {g.container for g in added}
        return Reinstated(
            allocations,
            kept=tuple(k for k in kept if k not in new),
            replaced=tuple(
                (g.container, _NOT_MANAGED) for g in allocations.grants if g.container in new or g.container not in kept
            ),
            unplaced=(),
        )

    def fallback(self, held: Allocations) -> Pinning:
        """Nothing to write."""
        return _UNTOUCHED

    def pools(self, held: Allocations) -> tuple[PoolView, ...]:
        """One pool of all available CPUs."""
        cpus, nothing = self._available, CpuSet()
        mems = self._machine.memory_nodes
        return (PoolView("root", "", 0, "root", cpus, cpus, nothing, nothing, mems, 1000 * len(cpus), 0),)
