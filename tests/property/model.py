"""The rules of placement (docs/placement.md), evaluated by trying: which pools are possible, and who runs where.

Slow and obvious on purpose: sets of ints, plain loops, every way of taking CPUs is tried. It shares nothing with the
policy but the values that cross the boundary. Meant for machines of some twelve CPUs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from policies.base import Allocations, ContainerKey, CpuKind, Grant, QosClass, Request
from policies.preferences import CpuDistribution, Threads
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.property.model_memory import has_memory_for
from tests.property.model_pools import Ids, ModelPool, kinds_of, pools_of


@dataclass(frozen=True, slots=True)
class Need:
    kind: CpuKind  # PRESERVE, RESERVED, or SHARED for everything that is placed in a pool
    own: int = 0
    shared_mcpu: int = 0
    reserved_mcpu: int = 0
    isolated: str = "no"
    whole_cores: bool = False
    hides: bool = False  # shares, on one thread of each core
    strict_cores: bool = False
    one_node: bool = False
    may_be_isolated: bool = False  # where nothing else is left
    is_packed: bool = True
    near: tuple[Ids, ...] = ()  # strictly near each device: the CPUs that are local to it
    impossible: bool = False

    @property
    def is_nothing(self) -> bool:
        return self.own == 0 and self.shared_mcpu == 0


class Model:
    """A machine under these options, with its pools."""

    def __init__(self, machine: Machine, options: TopologyAwareOptions) -> None:
        self.machine = machine
        self.options = options
        self.kinds = kinds_of(machine, options)
        self.pools: Mapping[str, ModelPool] = {p.name: p for p in pools_of(machine, options)}

    def need(self, request: Request) -> Need:
        """Section 2: what this request amounts to."""
        preferences = request.preferences
        mcpu = 0 if request.pod.qos is QosClass.BEST_EFFORT else request.cpu_request_mcpu
        if preferences.preserve_cpu:
            return Need(CpuKind.PRESERVE)
        reserved = self.options.is_reserved_namespace(request.pod.namespace)
        if preferences.prefer_reserved is not None:
            reserved = preferences.prefer_reserved
        if reserved:
            return Need(CpuKind.RESERVED, reserved_mcpu=mcpu, impossible=preferences.require_isolated)
        own = mcpu // 1000 if self._owns(request) else 0
        strict = preferences.require_isolated
        # A strict wish for isolated CPUs is a contradiction where it is about no CPU, a part of one, or shared ones.
        impossible = strict and (own == 0 or mcpu % 1000 > 0)
        threads = preferences.threads or self.options.threads
        whole_cores = own > 0 and threads is not Threads.ANY
        per_core = max(len(core.cpus) for core in self.machine.cores)
        return Need(
            CpuKind.SHARED,
            own=-(-own // per_core) * per_core if whole_cores else own,
            shared_mcpu=mcpu - 1000 * own,
            isolated="required" if strict else "wanted" if own and self._wants_isolated(request) else "no",
            whole_cores=whole_cores,
            hides=own == 0 and threads is Threads.HIDE,
            strict_cores=self._or_option(preferences.strict_threads, self.options.strict_threads),
            one_node=self._or_option(preferences.single_node, self.options.single_node and own > 0),
            may_be_isolated=own > 0 and self.options.prefer_isolated and preferences.prefer_isolated is not False,
            is_packed=(preferences.distribution or self.options.distribution) is CpuDistribution.PACK,
            near=self._local_cpus(request) if preferences.strict_locality else (),
            impossible=impossible,
        )

    @staticmethod
    def _or_option(asked: bool | None, option: bool) -> bool:
        return option if asked is None else asked

    def without_whole_cores(self, need: Need, request: Request) -> Need:
        """The wish for cores is done without when no pool has them, unless it is strict."""
        if need.strict_cores or not need.whole_cores:
            return need if need.strict_cores else replace(need, hides=False)
        return replace(need, own=request.cpu_request_mcpu // 1000, whole_cores=False)

    def _owns(self, request: Request) -> bool:
        """Whether the whole part of the request is exclusive."""
        preferences, is_guaranteed = request.preferences, request.pod.qos is QosClass.GUARANTEED
        said = {  # from the word that counts most to the one that counts least; None = nothing is said
            "prefer-shared-cpus: -N": False if preferences.levels_up > 0 else None,
            "prefer-shared-cpus": None if preferences.prefer_shared is None else not preferences.prefer_shared,
            "require-isolated-cpus": True if preferences.require_isolated else None,
            "not Guaranteed": None if is_guaranteed else False,
            "prefer-isolated-cpus": True if preferences.prefer_isolated else None,
            "PreferSharedCPUs": not self.options.prefer_shared,
        }
        return next(owns for owns in said.values() if owns is not None)

    def _local_cpus(self, request: Request) -> tuple[Ids, ...]:
        """Per device that tells, the CPUs near it. One that is near all CPUs, or says nothing, does not tell."""
        online = frozenset(self.machine.online)
        found: list[Ids] = []
        for hint in request.localities:
            cpus = frozenset(hint.cpus) & online or self._cpus_of(frozenset(hint.nodes))
            if not cpus:  # a node without CPUs: those of the nodes that it belongs to
                cpus = self._cpus_of(frozenset(i for n in self.machine.nodes if n.id in hint.nodes for i in n.near))
            if cpus != online and (hint.cpus or hint.nodes) and cpus not in found:
                found.append(cpus)
        return tuple(found)

    def _cpus_of(self, nodes: Ids) -> Ids:
        return frozenset(cpu for n in self.machine.nodes if n.id in nodes for cpu in n.cpus)

    def _wants_isolated(self, request: Request) -> bool:
        """By default for exactly one CPU of a Guaranteed container; else as annotated."""
        if request.preferences.prefer_isolated is not None:
            return request.preferences.prefer_isolated
        is_one = request.pod.qos is QosClass.GUARANTEED and request.cpu_request_mcpu == 1000
        return is_one and self.options.prefer_isolated


class Scene:
    """A model with grants on it. Everything is worked out anew from the grants."""

    def __init__(self, model: Model, held: Allocations) -> None:
        self.model = model
        self.grants = held.grants
        self.withheld: Ids = frozenset(held.withheld)
        self.kinds = model.kinds
        self.pools = model.pools
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
        if grant.kind is CpuKind.PRESERVE or not self.model.options.pin_cpu:
            return None
        shared: Ids = frozenset()
        if grant.kind is CpuKind.RESERVED:
            shared = self.kinds.reserved or self.shared("root")
        elif grant.kind in (CpuKind.SHARED, CpuKind.MIXED):
            shared = self.cpus_to_share(pool)
        if (grant.request.preferences.threads or self.model.options.threads) is Threads.HIDE:
            return self._one_thread_of_each_core(frozenset(grant.owned), shared)
        return frozenset(grant.owned) | shared

    def _one_thread_of_each_core(self, owned: Ids, shared: Ids) -> Ids:
        """The lowest of each core that it may run on; where it owns some of the core, one of these."""
        cores = [frozenset(core.cpus) for core in self.model.machine.cores]
        return frozenset(min(core & owned or core & shared) for core in cores if core & (owned | shared))

    # Section 4: which pools are possible.

    def is_possible(self, pool: str, need: Need, *, keep_busy: bool) -> bool:
        """Whether the pool can give what is asked, and every pool keeps what it owes.

        ``keep_busy``: a pool keeps a CPU also for those who asked for none. That rule is the first to be given up.
        """
        if not self._is_allowed(pool, need):
            return False
        usable = self.pools[pool].cpus & (self.kinds.sharable | self.kinds.isolated)
        together = frozenset().union(*need.near)
        is_at_devices = usable <= together and all(usable & local for local in need.near)
        if need.near and not is_at_devices:
            if need.shared_mcpu or not need.own:
                return False  # what is shared could be far from them
            usable &= together
        if need.is_nothing:
            has_any = bool(self.shared("root") or self.kinds.reserved)
            may_be_above = not (keep_busy or need.near or need.one_node)  # a strict wish holds for CPUs, not for pools
            return bool(self.shared(pool)) or (has_any and may_be_above)
        near = () if is_at_devices else need.near
        isolated = (usable & self.kinds.isolated) - self.owned - self.withheld
        if need.own and need.isolated != "no" and len(self._on_cores(isolated, need)) >= need.own:
            ways = self._ways_to_take(isolated, need, near)
            return any(self._all_keep_what_they_owe(pool, need, frozenset(), keep_busy=keep_busy) for _ in ways)
        if need.isolated == "required":
            return False
        ordinary = (usable & self.shared(pool)) - self.withheld
        return any(
            self._all_keep_what_they_owe(pool, need, taken, keep_busy=keep_busy)
            for taken in self._ways_to_take(ordinary, need, near)
        )

    def _is_allowed(self, pool: str, need: Need) -> bool:
        """Whether it lies in one NUMA node where that is asked for, and has a core for each CPU shared by threads."""
        is_in_one = any(self.pools[pool].cpus <= frozenset(node.cpus) for node in self.model.machine.nodes)
        has_cores = 1000 * self._cores_with(self.shared(pool)) >= need.shared_mcpu
        return (is_in_one or not need.one_node) and (has_cores or not need.hides)

    def _cores_with(self, cpus: Ids) -> int:
        return sum(not cpus.isdisjoint(core.cpus) for core in self.model.machine.cores)

    def _on_cores(self, free: Ids, need: Need) -> Ids:
        """Those of the free CPUs that a container may own: with whole cores, of cores that are wholly free."""
        if not need.whole_cores:
            return free
        return frozenset(cpu for core in self.model.machine.cores if frozenset(core.cpus) <= free for cpu in core.cpus)

    def _ways_to_take(self, free: Ids, need: Need, near: tuple[Ids, ...]) -> Iterator[Ids]:
        """Sets of these CPUs that the container could own. CPUs of the same pools near the same devices are alike."""
        cores = [frozenset(core.cpus) for core in self.model.machine.cores if frozenset(core.cpus) <= free]
        units = cores if need.whole_cores else [frozenset([cpu]) for cpu in sorted(free)]
        alike: dict[tuple[Ids, Ids, int], list[Ids]] = {}
        for unit in units:
            holders = frozenset(i for i, p in enumerate(self.pools.values()) if unit <= p.cpus)
            places = frozenset(i for i, local in enumerate(near) if unit & local)
            alike.setdefault((holders, places, len(unit)), []).append(unit)
        groups = list(alike.values())
        for counts in product(*(range(len(group) + 1) for group in groups)):
            taken = [unit for group, count in zip(groups, counts, strict=True) for unit in group[:count]]
            owned: Ids = frozenset(cpu for unit in taken for cpu in unit)
            is_near = all(owned & local for local in near)
            if len(owned) == need.own and is_near:
                yield owned

    def _all_keep_what_they_owe(self, pool: str, need: Need, taken: Ids, *, keep_busy: bool) -> bool:
        """With these CPUs taken and the share booked: every pool covers its promises, and busy ones keep a CPU."""
        for name in self.pools:
            left = len(self.shared(name) - taken)
            owed = self.granted_mcpu(name) + (need.shared_mcpu if self.is_inside(pool, name) else 0)
            if 1000 * left < owed:
                return False
            if taken & self.shared(name) and left == 0 and keep_busy and self.resting(name):
                return False
        return not taken or bool(self.shared("root") - taken) or not self.needs_a_root_cpu()

    # When a container is refused.

    def possible_pools(self, request: Request) -> tuple[str, ...]:
        """The pools that are possible in the first pass that has any; () when only moving others helps, if that."""
        need = self.model.need(request)
        for keep_busy in (True, False):
            found = tuple(pool for pool in self.pools if self.is_possible(pool, need, keep_busy=keep_busy))
            if found:
                return found
        return ()

    def must_be_refused(self, request: Request, *, lifts: bool = True, runs: bool = False) -> bool:
        """Whether no pool is possible, with idle pools emptied, shares moved up (``lifts``), any core's threads.

        Nor once reserved containers that overflowed are back. Isolated CPUs stand in for others last, but not where
        the container runs on others (``runs``).
        """
        scenes = (self, self.returned()) if self.model.need(request).kind is CpuKind.SHARED else (self,)
        return all(scene.has_no_room(request, lifts=lifts, runs=runs) for scene in scenes)

    def has_no_room(self, request: Request, *, lifts: bool = True, runs: bool = False) -> bool:
        """The same with those that overflowed where they are."""
        need = self.model.need(request)
        if need.impossible:
            return True
        if not has_memory_for(self.model.machine, Allocations(self.grants), request):
            return need.kind is not CpuKind.PRESERVE
        if need.kind is CpuKind.PRESERVE:
            return False
        if need.kind is CpuKind.RESERVED:
            return not self.kinds.reserved and not self.shared("root")
        instead = need.may_be_isolated and need.isolated == "no" and not runs
        # Others make room for CPUs that are owned; for a share the root is room enough, and near a device it has to do.
        return not any(
            scene.is_possible(pool, way, keep_busy=False)
            for scene in ((self, self.lifted()) if need.own and lifts else (self,))
            for less in (need, self.model.without_whole_cores(need, request))
            for way in (less, *([replace(less, isolated="wanted")] if instead else []))
            for pool in self.pools
        )

    def returned(self) -> "Scene":
        """The same with reserved containers that share other CPUs back on the reserved ones."""
        grants = [replace(g, kind=CpuKind.RESERVED) if self._is_away(g) else g for g in self.grants]
        grants = [replace(g, pool="root", shared_mcpu=0) if g.kind is CpuKind.RESERVED else g for g in grants]
        return Scene(self.model, Allocations(tuple(grants), CpuSet.of(self.withheld)))

    @staticmethod
    def _is_away(grant: Grant) -> bool:
        return grant.kind is CpuKind.SHARED and grant.reserved_mcpu > 0

    def reserved_room_mcpu(self) -> int:
        """What the reserved CPUs have left."""
        booked = sum(g.reserved_mcpu for g in self.grants if g.kind is CpuKind.RESERVED)
        return 1000 * len(self.kinds.reserved) - booked

    def lifted(self) -> "Scene":
        """The same with all shares in the root that need not be near a device: it relieves pools and burdens none."""
        grants = [replace(g, pool="root") if g.shared_mcpu and not self._stays(g) else g for g in self.grants]
        return Scene(self.model, Allocations(tuple(grants), CpuSet.of(self.withheld)))

    def _stays(self, grant: Grant) -> bool:
        asked, option = grant.request.preferences.single_node, self.model.options.single_node
        if option and grant.owned if asked is None else asked:
            return True
        return grant.request.preferences.strict_locality and bool(grant.request.localities)


def pinned(scene: Scene) -> dict[ContainerKey, Ids | None]:
    return {g.container: scene.cpuset(g) for g in scene.grants}
