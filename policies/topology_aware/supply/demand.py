"""Turn a request and the options into a ``Demand``: CPU kind, whole and shared CPUs, isolation, burst, conflicts.

The rules are in docs/placement.md, What a container asks for.
"""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from policies.base import CpuKind, Grant, QosClass, Request
from policies.preferences import BurstLevel, CpuDistribution, CpuPriority, Threads
from policies.topology_aware.options import TopologyAwareOptions


class Isolation(Enum):
    """How much the container wants kernel-isolated CPUs."""

    NO = "no"
    PREFER = "prefer"
    REQUIRE = "require"


class SharingRule(StrEnum):
    """Why a container shares CPUs however many whole ones it asks for; the values are codes of conditions."""

    ANNOTATION = "annotation"
    QOS = "qos"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one container. ``kind`` is PRESERVE, RESERVED, or SHARED for everything that is placed in a pool.

    ``whole`` CPUs are owned alone (isolated ones if wanted and free), ``shared_mcpu`` comes from the shared set.
    ``whole`` is a multiple of ``threads_per_core`` where whole cores are wanted (``threads``): ``rounded_up`` CPUs more
    than asked for. ``strict_threads``: refuse rather than do without the cores.
    ``single_node``: refuse rather than use CPUs of several NUMA nodes.
    ``hides``: it only shares, and runs on one thread of each core, so that its pool needs a core per CPU asked for.
    ``burst_mcpu`` is the CPU limit that the pool should be able to give now and then; 0 where it has none or owns CPUs.
    ``burst_level`` is how wide the pool should be for a container that may use all the CPU time it finds: Burstable
    without a limit, or best effort; None = no preference.
    ``shares_within``: shared CPUs, too, are those of the nodes that hints were merged to.
    ``conflict`` is what else was asked for that makes the strict preference for isolated CPUs impossible; '' = nothing.
    """

    kind: CpuKind
    whole: int = 0
    shared_mcpu: int = 0
    reserved_mcpu: int = 0
    isolation: Isolation = Isolation.NO
    levels_up: int = 0
    burst_mcpu: int = 0
    conflict: str = ""
    burst_level: BurstLevel | None = None
    threads: Threads = Threads.ANY
    strict_threads: bool = False
    hides: bool = False
    rounded_up: int = 0
    distribution: CpuDistribution = CpuDistribution.PACK
    single_node: bool = False
    priority: CpuPriority = CpuPriority.NONE
    strict_locality: bool = False
    shares_within: bool = True

    @property
    def is_zero(self) -> bool:
        """Return whether the container asks for no CPU time: it only needs some CPU to share."""
        return not self.whole and not self.shared_mcpu

    @property
    def asked(self) -> int:
        """The CPUs to own that were asked for, before they were rounded up to whole cores."""
        return self.whole - self.rounded_up


def demand_of(request: Request, options: TopologyAwareOptions, threads_per_core: int = 1) -> Demand:
    """Return the demand of this request under these options. Annotations override options.

    ``threads_per_core`` is the most threads that a core of the machine has.
    """
    preferences = request.preferences
    # A best-effort pod requests nothing, whatever the shares of its container say.
    mcpu = 0 if request.pod.qos is QosClass.BEST_EFFORT else request.cpu_request_mcpu
    if preferences.preserve_cpu:
        return Demand(CpuKind.PRESERVE)
    # Before namespaces, annotations and options: none of them changes a claim (docs/placement.md, Decided elsewhere).
    if request.claim is not None:
        return Demand(CpuKind.SHARED, whole=len(request.claim.cpus))
    reserved = preferences.prefer_reserved
    if reserved is None:
        reserved = options.is_reserved_namespace(request.pod.namespace)
    if reserved:
        return Demand(CpuKind.RESERVED, reserved_mcpu=mcpu, conflict=_conflict(request, mcpu, reserved=True))
    asked = mcpu // 1000 if sharing_rule(request, options) is None else 0
    threads = preferences.threads or options.threads
    strict = preferences.strict_threads
    whole = asked if threads is Threads.ANY else -(-asked // threads_per_core) * threads_per_core
    qos = request.pod.qos
    return Demand(
        CpuKind.SHARED,
        whole=whole,
        shared_mcpu=mcpu - 1000 * asked,
        isolation=_isolation(request, options) if whole else Isolation.NO,
        levels_up=0 if whole else preferences.levels_up,
        # With CPUs of its own the width of a shared set is nothing to it; a limit would draw it to a wide pool.
        burst_mcpu=(request.cpu_limit_mcpu or 0) if qos is QosClass.BURSTABLE and not whole else 0,
        conflict=_conflict(request, mcpu, reserved=False),
        burst_level=None if whole or qos is QosClass.GUARANTEED else _burst_level(request, options),
        threads=threads if whole else Threads.ANY,
        strict_threads=options.strict_threads if strict is None else strict,
        hides=threads is Threads.HIDE and not whole,
        rounded_up=whole - asked,
        distribution=_distribution(request, options, threads) if whole else CpuDistribution.PACK,
        single_node=is_for_single_node(request, options, owns=bool(whole)),
        priority=(preferences.priority or options.cpu_priority),
        strict_locality=preferences.strict_locality and bool(request.localities),
    )


def off_reserved(request: Request, options: TopologyAwareOptions, threads_per_core: int = 1) -> Demand:
    """Return the demand of a container that belongs on the reserved CPUs, for shared ones: it owns none of these."""
    # Strict isolation beside reserved CPUs is refused before (``Demand.conflict``): it decides nothing here.
    preferences = replace(request.preferences, prefer_reserved=False, prefer_shared=True, require_isolated=False)
    return demand_of(replace(request, preferences=preferences), options, threads_per_core)


def has_overflowed(grant: Grant) -> bool:
    """Return whether it belongs on the reserved CPUs, and shares others because these have no room for its request."""
    return grant.kind is CpuKind.SHARED and grant.reserved_mcpu > 0


def without_whole_cores(demand: Demand) -> Demand:
    """Return the demand for threads of any cores, for use if no pool has enough whole ones."""
    return replace(demand, whole=demand.asked, rounded_up=0, threads=Threads.ANY)


def is_for_single_node(request: Request, options: TopologyAwareOptions, *, owns: bool) -> bool:
    """Return whether the container may only run on one NUMA node; the option is for those that own CPUs."""
    wanted = request.preferences.single_node
    return options.single_node and owns if wanted is None else wanted


def _distribution(request: Request, options: TopologyAwareOptions, threads: Threads) -> CpuDistribution:
    """Return how owned CPUs lie to each other: whole cores are never taken thread by thread."""
    wanted = request.preferences.distribution or options.distribution
    is_whole = threads is not Threads.ANY and wanted is CpuDistribution.ACROSS_CORES
    return CpuDistribution.PACK if is_whole else wanted


def _burst_level(request: Request, options: TopologyAwareOptions) -> BurstLevel | None:
    """Return the level for a container that may use all the CPU time it finds; None for one with a limit."""
    return None if request.cpu_limit_mcpu is not None else request.preferences.burst_level or options.unlimited_burst


def _conflict(request: Request, mcpu: int, *, reserved: bool) -> str:
    """Return why no machine can meet a strict preference for isolated CPUs, as the end of a sentence."""
    preferences = request.preferences
    if not preferences.require_isolated:
        return ""
    namespace = request.pod.namespace
    conflicts = (
        (preferences.prefer_reserved, "prefer-reserved-cpus asks for the reserved CPUs"),
        (reserved, f"namespace {namespace} runs on the reserved CPUs, unless prefer-reserved-cpus is false"),
        (preferences.levels_up, f"prefer-shared-cpus asks for shared CPUs, {preferences.levels_up} up"),
        (preferences.prefer_shared, "prefer-shared-cpus asks for shared CPUs"),
        (not mcpu, "no CPU is requested"),
        (mcpu % 1000, f"only whole CPUs can be isolated, and {mcpu}m are requested"),
    )
    return next((text for is_so, text in conflicts if is_so), "")


def sharing_rule(request: Request, options: TopologyAwareOptions) -> SharingRule | None:
    """Return the rule by which this request shares its CPUs; None: it owns the whole ones (2.5 CPUs = 2 + 500m)."""
    preferences = request.preferences
    if preferences.levels_up:
        return SharingRule.ANNOTATION
    if preferences.prefer_shared is not None:
        return SharingRule.ANNOTATION if preferences.prefer_shared else None
    if preferences.require_isolated:
        return None
    if request.pod.qos is not QosClass.GUARANTEED:
        return SharingRule.QOS
    # Isolated CPUs are never shared: an annotation that prefers them asks for CPUs to own.
    return SharingRule.OPTION if options.prefer_shared and preferences.prefer_isolated is not True else None


def _isolation(request: Request, options: TopologyAwareOptions) -> Isolation:
    """Return how isolated CPUs are preferred: by default for exactly one CPU of a Guaranteed pod."""
    preferences = request.preferences
    if preferences.require_isolated:
        return Isolation.REQUIRE
    if preferences.prefer_isolated is not None:
        return Isolation.PREFER if preferences.prefer_isolated else Isolation.NO
    # The kernel balances no load between isolated CPUs (isolcpus=): on one alone that costs nothing.
    exactly_one = request.pod.qos is QosClass.GUARANTEED and request.cpu_request_mcpu == 1000
    return Isolation.PREFER if options.prefer_isolated and exactly_one else Isolation.NO
