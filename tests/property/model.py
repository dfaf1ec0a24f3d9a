"""The rules of placement (docs/placement.md), evaluated by trying: which pools are possible, and who runs where.

Slow and obvious on purpose: sets of ints, plain loops, every way of taking CPUs is tried. It shares nothing with the
policy but the values that cross the boundary. Meant for machines of some twelve CPUs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from policies.base import Allocations, ContainerKey, CpuKind, Grant, QosClass, Request, Threads
from policies.options import PolicyOptions
from sysfs.model import Machine
from tests.property.model_pools import Ids, ModelPool, kinds_of, pools_of


@dataclass(frozen=True, slots=True)
class Need:
    """What a container is to get. ``isolated`` is no, wanted or required; ``impossible``: no machine can do it."""

    kind: CpuKind  # PRESERVE, RESERVED, or SHARED for everything that is placed in a pool
    own: int = 0
    shared_mcpu: int = 0
    reserved_mcpu: int = 0
    isolated: str = "no"
    whole_cores: bool = False
    impossible: bool = False

    @property
    def is_nothing(self) -> bool:
        """No CPU time at all: some CPU to share is enough."""
        return self.own == 0 and self.shared_mcpu == 0


@dataclass(frozen=True, slots=True)
class Model:
    """A machine under these options."""

    machine: Machine
    options: PolicyOptions

    def need(self, request: Request) -> Need:
        """Section 2: what this request amounts to."""
        wishes = request.wishes
        mcpu = 0 if request.pod.qos is QosClass.BEST_EFFORT else request.cpu_request_mcpu
        if wishes.preserve_cpu:
            return Need(CpuKind.PRESERVE)
        reserved = self.options.is_reserved_namespace(request.pod.namespace)
        if wishes.prefer_reserved is not None:
            reserved = wishes.prefer_reserved
        if reserved:
            return Need(CpuKind.RESERVED, reserved_mcpu=mcpu, impossible=wishes.require_isolated)
        own = mcpu // 1000 if self._owns(request) else 0
        strict = wishes.require_isolated
        # A strict wish for isolated CPUs is a contradiction where it is about no CPU, a part of one, or shared ones.
        impossible = strict and (own == 0 or mcpu % 1000 > 0)
        threads = wishes.threads or self.options.threads
        whole_cores = own > 0 and threads is not Threads.ANY
        per_core = max(len(core.cpus) for core in self.machine.cores)
        return Need(
            CpuKind.SHARED,
            own=-(-own // per_core) * per_core if whole_cores else own,
            shared_mcpu=mcpu - 1000 * own,
            isolated="required" if strict else "wanted" if own and self._wants_isolated(request) else "no",
            whole_cores=whole_cores,
            impossible=impossible,
        )

    def _owns(self, request: Request) -> bool:
        """Whether the whole part of the request is exclusive."""
        wishes = request.wishes
        if wishes.levels_up:
            return False
        if wishes.prefer_shared is not None:
            return not wishes.prefer_shared
        if wishes.require_isolated:
            return True
        if request.pod.qos is not QosClass.GUARANTEED:
            return False
        return wishes.prefer_isolated is True or not self.options.prefer_shared

    def _wants_isolated(self, request: Request) -> bool:
        """By default for exactly one CPU of a Guaranteed container; else as annotated."""
        if request.wishes.prefer_isolated is not None:
            return request.wishes.prefer_isolated
        is_one = request.pod.qos is QosClass.GUARANTEED and request.cpu_request_mcpu == 1000
        return is_one and self.options.prefer_isolated


class Scene:
    """A model with grants on it. Everything is worked out anew from the grants."""

    def __init__(self, model: Model, held: Allocations) -> None:
        self.model = model
        self.grants = held.grants
        self.withheld: Ids = frozenset(held.withheld)
        self.kinds = kinds_of(model.machine, model.options)
        self.pools: Mapping[str, ModelPool] = {p.name: p for p in pools_of(model.machine, model.options)}
        self.owned: Ids = frozenset(cpu for g in held.grants for cpu in g.owned)

    def shared(self, pool: str) -> Ids:
        """The shared set of a pool: ordinary CPUs that nobody owns."""
        return (self.pools[pool].cpus & self.kinds.sharable) - self.owned

    def is_inside(self, inner: str, outer: str) -> bool:
        """Whether a pool is this one or lies in it. A pool that is not there counts as the root."""
        inner = inner if inner in self.pools else "root"
        return inner == outer or outer in self.pools[inner].above

    def granted_mcpu(self, pool: str) -> int:
        """The shared CPU time that is promised in a pool and below it."""
        return sum(g.shared_mcpu for g in self.grants if g.shared_mcpu and self.is_inside(g.pool, pool))

    def resting(self, pool: str) -> bool:
        """Whether someone without a share of his own runs on the shared set of this very pool."""
        sharing = (CpuKind.SHARED, CpuKind.MIXED)
        return any(g.pool == pool and g.kind in sharing and not g.shared_mcpu for g in self.grants)

    def needs_a_root_cpu(self) -> bool:
        """Without reserved CPUs, who asks for nothing or belongs on reserved ones has only the root's shared set."""
        on_reserved = any(g.kind is CpuKind.RESERVED for g in self.grants)
        return not self.kinds.reserved and (on_reserved or any(self.resting(pool) for pool in self.pools))

    # Section 5: who runs where.

    def cpus_to_share(self, pool: str) -> Ids:
        """The shared set of the pool, else of the nearest wider one that has any, else the reserved CPUs."""
        for name in (pool, *self.pools[pool].above):
            if self.shared(name):
                return self.shared(name)
        return self.kinds.reserved

    def cpuset(self, grant: Grant) -> Ids | None:
        """What a container is pinned to; None where that is not ours to say."""
        pool = grant.pool if grant.pool in self.pools else "root"
        match grant.kind:
            case _ if not self.model.options.pin_cpu:
                return None
            case CpuKind.PRESERVE:
                return None
            case CpuKind.RESERVED:
                return self.kinds.reserved or self.shared("root")
            case CpuKind.SHARED:
                return self.cpus_to_share(pool)
            case CpuKind.MIXED:
                return self._own_cpus(grant) | self.cpus_to_share(pool)
            case _:
                return self._own_cpus(grant)

    def _own_cpus(self, grant: Grant) -> Ids:
        """All that it owns; where siblings are to be hidden, the lowest owned thread of each core."""
        owned = frozenset(grant.owned)
        if (grant.request.wishes.threads or self.model.options.threads) is not Threads.HIDE:
            return owned
        cores = [frozenset(core.cpus) & owned for core in self.model.machine.cores]
        return frozenset(min(core) for core in cores if core)

    # Section 4: which pools are possible.

    def is_possible(self, pool: str, request: Request, *, keep_busy: bool) -> bool:
        """Whether the pool can give what is asked, and every pool keeps what it owes.

        ``keep_busy``: a pool keeps a CPU also for those who asked for none. That rule is the first to be given up.
        """
        need = self.model.need(request)
        if need.is_nothing:
            has_any = bool(self.shared("root") or self.kinds.reserved)
            return bool(self.shared(pool)) or (has_any and not keep_busy)
        if need.own and need.isolated != "no" and self._has_isolated(pool, need):
            return self._all_keep_what_they_owe(pool, need, frozenset(), keep_busy=keep_busy)
        if need.isolated == "required":
            return False
        return any(
            self._all_keep_what_they_owe(pool, need, taken, keep_busy=keep_busy)
            for taken in self._ways_to_take(pool, need)
        )

    def _has_isolated(self, pool: str, need: Need) -> bool:
        free = (self.pools[pool].cpus & self.kinds.isolated) - self.owned - self.withheld
        return len(self._usable(free, need)) >= need.own

    def _usable(self, free: Ids, need: Need) -> Ids:
        """Those of the free CPUs that a container may own: with whole cores, of cores that are wholly free."""
        if not need.whole_cores:
            return free
        return frozenset(cpu for core in self.model.machine.cores if frozenset(core.cpus) <= free for cpu in core.cpus)

    def _ways_to_take(self, pool: str, need: Need) -> Iterator[Ids]:
        """Sets of ordinary CPUs of the pool that the container could own. CPUs of the same pools are alike."""
        free = self._usable(self.shared(pool) - self.withheld, need)
        units = self._cores_of(free) if need.whole_cores else [frozenset([cpu]) for cpu in sorted(free)]
        alike: dict[tuple[Ids, int], list[Ids]] = {}
        for unit in units:
            holders = frozenset(i for i, p in enumerate(self.pools.values()) if unit <= p.cpus)
            alike.setdefault((holders, len(unit)), []).append(unit)
        groups = list(alike.values())
        for counts in product(*(range(len(group) + 1) for group in groups)):
            taken = [unit for group, count in zip(groups, counts, strict=True) for unit in group[:count]]
            if sum(len(unit) for unit in taken) == need.own:
                yield frozenset(cpu for unit in taken for cpu in unit)

    def _cores_of(self, cpus: Ids) -> list[Ids]:
        return [frozenset(core.cpus) for core in self.model.machine.cores if frozenset(core.cpus) <= cpus]

    def _all_keep_what_they_owe(self, pool: str, need: Need, taken: Ids, *, keep_busy: bool) -> bool:
        """With these CPUs taken and the share booked: every pool covers its promises, and busy ones keep a CPU."""
        for name in self.pools:
            left = len(self.shared(name) - taken)
            owed = self.granted_mcpu(name) + (need.shared_mcpu if self.is_inside(pool, name) else 0)
            if 1000 * left < owed:
                return False
            if taken and left == 0 and keep_busy and self.resting(name):
                return False
        return not taken or bool(self.shared("root") - taken) or not self.needs_a_root_cpu()

    # When a container is refused.

    def must_be_refused(self, request: Request) -> bool:
        """Whether no pool is possible: not with idle pools emptied, nor with all shares moved up to the root."""
        need = self.model.need(request)
        if need.impossible:
            return True
        if need.kind is CpuKind.PRESERVE:
            return False
        if need.kind is CpuKind.RESERVED:
            return not self.kinds.reserved and not self.shared("root")
        if any(self.is_possible(pool, request, keep_busy=False) for pool in self.pools):
            return False
        # Moving a share up relieves the pools below and burdens none: if anything helps, this does.
        lifted = Scene(self.model, Allocations(tuple(_in_root(self.grants))))
        lifted.withheld = self.withheld
        return not lifted.is_possible("root", request, keep_busy=False)


def _in_root(grants: Iterable[Grant]) -> Iterator[Grant]:
    for grant in grants:
        yield replace(grant, pool="root") if grant.shared_mcpu else grant


def possible_pools(scene: Scene, request: Request) -> tuple[str, ...]:
    """The pools that are possible in the first pass that has any; () when only moving others helps, if that."""
    for keep_busy in (True, False):
        found = tuple(pool for pool in scene.pools if scene.is_possible(pool, request, keep_busy=keep_busy))
        if found:
            return found
    return ()


def pinned(scene: Scene) -> dict[ContainerKey, Ids | None]:
    """Every container's CPUs."""
    return {g.container: scene.cpuset(g) for g in scene.grants}
