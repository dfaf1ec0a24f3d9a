"""Reasons of CPU and pool decisions, refusals and moves: one function per sentence, with its code."""

from dataclasses import replace

from policies.base import CpuKind, Grant, Previous, Reason
from policies.pod_share import PodShare
from policies.preferences import CpuDistribution
from policies.topology_aware.memory.reasons import amount_text
from policies.topology_aware.reason_codes import ReasonCode
from policies.topology_aware.supply.demand import Demand, Isolation
from sysfs.cpuset import CpuSet
from sysfs.text import are, numbered, plural

ADDED = Reason(ReasonCode.ADDED, "had no grant yet")
DEMOTED = Reason(
    ReasonCode.DEMOTED, "its exclusive CPUs were given up: a container without a share would have had no CPU at all"
)
NOTHING_SHARED = Reason(
    ReasonCode.NOTHING_SHARED, "wanted a CPU to share; every available CPU is granted exclusively, none is reserved"
)


def given_text(exclusive: int, isolated: int, shared_mcpu: int) -> str:
    """Return the number of CPUs of each kind in words."""
    parts = [plural(n, f"{kind} CPU") for n, kind in ((exclusive, "exclusive"), (isolated, "isolated")) if n]
    if shared_mcpu:
        parts.append(f"{shared_mcpu}m shared")
    return " and ".join(parts) or "a CPU to share"


def wanted_text(demand: Demand) -> str:
    """Return what is requested in words."""
    strict = demand.isolation is Isolation.REQUIRE
    text = given_text(0 if strict else demand.asked, demand.asked if strict else 0, demand.shared_mcpu)
    return f"{text} ({demand.whole} as whole cores)" if demand.rounded_up else text


def preserved(*, wants_isolated: bool) -> Reason:
    """The container keeps the cpuset that it brings, whatever else it asks for."""
    ignored = ", so require-isolated-cpus has no effect" if wants_isolated else ""
    return Reason(ReasonCode.PRESERVED, f"its cpuset is preserved by annotation{ignored}")


def reserved(cpus: CpuSet, *, by_annotation: bool) -> Reason:
    """The container runs on the reserved CPUs, or on the root's shared set if there are none."""
    why = "asked for by annotation" if by_annotation else "its namespace is reserved"
    where = f"the reserved {numbered('CPU', cpus)}" if cpus else "the shared set of the root, as no CPU is reserved"
    return Reason(ReasonCode.RESERVED, f"runs on {where}: {why}")


def reserved_full(cpus: CpuSet, wanted_mcpu: int, booked_mcpu: int) -> Reason:
    """The container belongs on the reserved CPUs, which are promised to others."""
    has = f"the reserved {numbered('CPU', cpus)} {'has' if len(cpus) == 1 else 'have'} {1000 * len(cpus)}m"
    text = f"{has}, of which {booked_mcpu}m are booked: too few for {wanted_mcpu}m"
    return Reason(ReasonCode.RESERVED_FULL, f"{text}, so it shares other CPUs until there is room")


def reserved_returned(grants: tuple[Grant, ...]) -> Reason:
    """Others that had overflowed give their shared CPUs back, and run on the reserved CPUs beyond what these have."""
    names = ", ".join(f"{g.request.pod.name}/{g.container.name}" for g in grants)
    text = f"{plural(len(grants), 'container')} moved to the reserved CPUs, beyond what these have, to make room here"
    return Reason(ReasonCode.RESERVED_RETURNED, f"{text}: {names}")


def pool_chosen(pool: str, gives: str, runner_up: str, why: str) -> Reason:
    """Why this pool and not the next one, which ``why`` is about; ``gives`` is what the pool gives, in words."""
    following = f"; next would be {runner_up}, which {why}" if runner_up else ""
    return Reason(ReasonCode.POOL, f"{pool} gives {gives}{following}")


def levels_up(best: str, pool: str, levels: int) -> Reason:
    """An annotation asks for a wider pool."""
    return Reason(ReasonCode.LEVELS_UP, f"{plural(levels, 'level')} above the best pool {best} was asked for: {pool}")


def previous_kept(kept: CpuSet, previous: Previous, *, holds: bool) -> Reason:
    """The container has its earlier CPUs again, or keeps those that it ``holds``."""
    if not holds:
        were_free = "was free and is" if len(kept) == 1 else "were free and are"
        text = f"its earlier {numbered('CPU', kept)} {were_free} kept"
    elif kept == previous.owned:
        text = f"its {are('CPU', kept)} kept"
    else:
        rule = ", those that it had first" if previous.added else ""
        text = f"of its {numbered('CPU', previous.owned)}, {are('CPU', kept)} kept{rule}"
    return Reason(ReasonCode.PREVIOUS_KEPT, text)


def previous_lost(previous: Previous, *, holds: bool) -> Reason:
    """The earlier place is taken, or what the container ``holds`` does not suit what it asks for now."""
    what = numbered("CPU", previous.owned) if previous.owned else f"pool {previous.pool}"
    text = f"its {what} cannot be kept" if holds else f"its earlier {what} could not be had again"
    return Reason(ReasonCode.PREVIOUS_LOST, f"{text}: placed again")


def isolated_short(pool: str, wanted: int, *, exist: bool) -> Reason:
    """The container takes ordinary CPUs since isolated ones ran out, or none ``exist`` at all."""
    text = f"{pool} has fewer than {wanted} isolated CPUs free" if wanted > 1 else f"{pool} has no isolated CPU free"
    if not exist:
        text = "this node has no kernel-isolated CPUs for containers"
    instead = "an ordinary CPU is" if wanted == 1 else "ordinary CPUs are"
    return Reason(ReasonCode.ISOLATED_SHORT, f"{text}: {instead} taken instead")


def no_whole_cores(wanted: int) -> Reason:
    """Whole cores are preferred, and no pool has enough of them."""
    text = f"no pool has the whole cores for {plural(wanted, 'CPU')}: any container may have the thread siblings"
    return Reason(ReasonCode.NO_WHOLE_CORES, text)


def not_distributed(wanted: int, distribution: CpuDistribution) -> Reason:
    """The CPUs are packed, since no pool has them in the distribution that is preferred."""
    across_cores = distribution is CpuDistribution.ACROSS_CORES
    how = "one on each of as many cores" if across_cores else "in even parts on NUMA nodes"
    return Reason(ReasonCode.NOT_DISTRIBUTED, f"no pool has {plural(wanted, 'CPU')} {how}: they are packed instead")


def isolated_instead(wanted: int) -> Reason:
    """Isolated CPUs are taken although they were not asked for: no others are left."""
    text = f"fewer than {plural(wanted, 'ordinary CPU')} left to own: kernel-isolated ones are taken instead"
    return Reason(ReasonCode.ISOLATED_INSTEAD, text)


def node_missing(demand: Demand, best: str, free: int) -> Reason:
    """A strict preference for one NUMA node cannot be met; ``free`` is what the ``best`` node has left."""
    has = f"{plural(free, 'CPU')} to own" if demand.whole else f"{free}m"
    most = f"most free in {best}: {has}" if best else "no pool lies in one NUMA node"
    return Reason(ReasonCode.STRICT_NODE, f"wanted {wanted_text(demand)} in one NUMA node and no more; {most}")


def not_in_its_node(demand: Demand, owned: CpuSet, free: str) -> Reason:
    """The container runs, and its NUMA node cannot give the CPUs of its new size; ``free`` is in words."""
    text = f"wanted {wanted_text(demand)} in the NUMA node of its CPUs {owned} and in no other; free {free}"
    return Reason(ReasonCode.STRICT_NODE, text)


def too_few_cores(wanted_mcpu: int) -> Reason:
    """The container runs on one thread of each core, and no pool has a core for each CPU that it asks for."""
    text = f"no pool has cores for {wanted_mcpu}m of shared CPUs, one thread of each: it runs on fewer"
    return Reason(ReasonCode.TOO_FEW_CORES, text)


def cores_missing(demand: Demand, free: int, best: str, best_free: int) -> Reason:
    """A strict preference for cores cannot be met; ``free`` is what the root has of them, in CPUs to own or cores."""
    wanted = wanted_text(replace(demand, whole=demand.asked, rounded_up=0))
    if demand.whole:
        makes = f", which makes {demand.whole}" if demand.rounded_up else ""
        text = f"wanted {wanted} on whole cores and no others{makes}; CPUs free on whole cores in root: {free}"
    else:
        text = f"wanted {wanted} on one thread of each core; cores to share in root: {free}"
    most = "" if best == "root" or not best_free else f", most in {best}: {best_free}"
    return Reason(ReasonCode.STRICT_CORES, text + most)


def affinity_unmet(pool: str, why: str) -> Reason:
    """The pool to which affinities draw the container most cannot have it, or something else comes first."""
    return Reason(ReasonCode.AFFINITY_UNMET, f"affinity draws it most to {pool}, which {why}")


def locality_unmet(device: str, where: str, why: str) -> Reason:
    """The container is not near one of its devices; ``why`` is '' where that follows from the other reasons."""
    text = f"it is not near {device} ({where})"
    return Reason(ReasonCode.HINTS_UNMET, f"{text}: {why}" if why else text)


def cpus_picked(cpus: CpuSet, how: str) -> Reason:
    """Which CPUs the container owns, and how they were picked."""
    return Reason(ReasonCode.CPUS_PICKED, f"{numbered('CPU', cpus)}: {how}")


def pod_shared(grant: Grant, names: tuple[str, ...]) -> Reason:
    """The container shares CPUs, memory or both with others of its pod, by ``names``; they are booked once."""
    share = grant.share or PodShare()
    figures = [] if share.cpu_mcpu is None else [f"{share.cpu_mcpu}m of CPU"]
    if share.memory_bytes is not None:
        figures.append(f"{amount_text(share.memory_bytes)} of memory")
    owns = grant.owned and grant.shares_cpus
    whose = f"{are('CPU', grant.owned)} its pod's" if owns else "it uses what its pod requests"
    with_others = f", shared by its containers {', '.join(names)}" if len(names) > 1 else ""
    return Reason(ReasonCode.POD_SHARED, f"{whose}{with_others}: {' and '.join(figures)} booked once for all of them")


def emptied(pools: tuple[str, ...]) -> Reason:
    """Shared sets were taken to the last CPU."""
    text = f"the shared set of {', '.join(pools)} is used up: containers without a CPU request use a wider one"
    return Reason(ReasonCode.EMPTIED, text)


def displaced(cpus: CpuSet, count: int) -> Reason:
    """Others lose or gain CPUs by this decision."""
    lost = f"{are('CPU', cpus)} no longer shared: " if cpus else ""
    return Reason(ReasonCode.DISPLACED, f"{lost}{plural(count, 'other container')} changed")


def lifted(moved: tuple[Grant, ...]) -> Reason:
    """Others moved to wider pools."""
    names = ", ".join(f"{g.request.pod.name}/{g.container.name} to {g.pool}" for g in moved)
    return Reason(ReasonCode.LIFTED, f"{plural(len(moved), 'container')} moved to a wider pool to make room: {names}")


def kept_together(pool: str, instead: tuple[int, int, int], updates: int, otherwise: int) -> Reason:
    """Small sharers leave the pool, for otherwise the container's own CPUs would be on more domains.

    ``instead``: on how many packages, NUMA nodes and L3 domains; ``updates`` and ``otherwise``: how many other
    containers change.
    """
    words = zip(instead, ("sockets", "NUMA nodes", "L3 domains"), strict=True)
    spread = next((f"{count} {word}" for count, word in words if count > 1), "more domains")
    text = f"its CPUs are together in {pool}, which small sharers leave, instead of on {spread}"
    changed = f"{plural(updates, 'other container')} changed, otherwise {otherwise}"
    return Reason(ReasonCode.KEPT_TOGETHER, f"{text}: {changed}")


def rebalanced(moved: tuple[Grant, ...]) -> Reason:
    """Others that lose CPUs to this container go where a fresh decision would place them."""
    places = ("the reserved CPUs" if grant.kind is CpuKind.RESERVED else grant.pool for grant in moved)
    names = ", ".join(f"{g.request.pod.name}/{g.container.name} to {to}" for g, to in zip(moved, places, strict=True))
    text = f"{plural(len(moved), 'container')} with too few of the CPUs left here moved with the same update"
    return Reason(ReasonCode.REBALANCED, f"{text}: {names}")


def others_too_few_cores(short: tuple[Grant, ...]) -> Reason:
    """Others that run on one thread of each core no longer have a core for each CPU that they ask for."""
    names = ", ".join(f"{g.request.pod.name}/{g.container.name} ({g.shared_mcpu}m)" for g in short)
    what = "shares fewer cores than it asks for" if len(short) == 1 else "share fewer cores than they ask for"
    text = f"{plural(len(short), 'container')} on one thread of each core now {what}"
    return Reason(ReasonCode.OTHERS_TOO_FEW_CORES, f"{text}: {names}")


def cpu_full(demand: Demand, free_mcpu: int, whole: int, best: str, best_mcpu: int) -> Reason:
    """The machine is full."""
    most = "" if best == "root" or best_mcpu <= 0 else f"; most in {best}: {best_mcpu}m"
    free = f"{max(0, free_mcpu)}m shared capacity, {plural(whole, 'CPU')} to own"
    return Reason(ReasonCode.CPU_FULL, f"wanted {wanted_text(demand)}; free in root: {free}{most}")


def overcommitted(refused: Reason) -> Reason:
    """The container is admitted although no pool has the CPU time; ``refused`` has how much there was."""
    text = "admitted without a CPU reservation until capacity is free (onShortage: admit)"
    return Reason(ReasonCode.OVERCOMMITTED, f"{refused.text}: {text}")


def too_small(free_mcpu: int, whole: int) -> str:
    """Return why a pool was refused, for the ranking."""
    return f"too small: {free_mcpu}m free, of which {plural(whole, 'CPU')} can be owned"


def isolated_missing(demand: Demand, free: int, *, exist: bool) -> Reason:
    """A strict preference for isolated CPUs cannot be met: too few are free, or none ``exist`` at all."""
    there = f"free isolated CPUs in root: {free}" if exist else "this node has no such CPUs for containers"
    return Reason(ReasonCode.STRICT_ISOLATED, f"wanted {wanted_text(demand)}; {there}")


def strict_conflict(conflict: str) -> Reason:
    """Another preference, which ``conflict`` names, excludes a strict one for isolated CPUs."""
    return Reason(ReasonCode.STRICT_CONFLICT, f"require-isolated-cpus cannot be met: {conflict}")


def strict_locality_unmet(demand: Demand, near: tuple[tuple[str, str, int], ...], pool: str, free_mcpu: int) -> Reason:
    """A strict preference for device localities cannot be met.

    ``near``: (device, where it is, CPUs free to own there). ``pool`` is the best one that is near all devices, with
    ``free_mcpu`` left; '' if there is none.
    """
    there = "; ".join(f"near {device} ({where}) {plural(free, 'CPU')} free to own" for device, where, free in near)
    both = f"most shared capacity near all of them in {pool}: {free_mcpu}m" if pool else "no pool is near all of them"
    shares = not demand.whole or demand.shared_mcpu
    each = ", at least one near each" if len(near) > 1 and not shares else ""
    text = f"wanted {wanted_text(demand)} near its devices and nowhere else{each}; {there}"
    return Reason(ReasonCode.STRICT_HINTS, f"{text}; {both}" if shares else text)


def illegal(problem: str) -> Reason:
    """A saved grant that this machine cannot honour."""
    return Reason(ReasonCode.ILLEGAL, f"its saved grant cannot be kept: {problem}")


def device_cpus_kept(cpus: CpuSet, option: str) -> Reason:
    """CPUs beside accelerators that a container without devices may not own."""
    verb = "is" if len(cpus) == 1 else "are"
    text = f"{numbered('CPU', cpus)} {verb} kept for containers that ask for a device"
    return Reason(ReasonCode.DEVICE_CPUS_KEPT, f"{text} (topologyAware.DeviceCPUs: {option})")


def kept_note(cpus: CpuSet, option: str) -> str:
    """How many CPUs containers without devices do not get as their own, for the machine as a whole."""
    rule = f"topologyAware.DeviceCPUs: {option} keeps up to {plural(len(cpus), 'CPU')} beside accelerators"
    return f"{rule} for containers that ask for a device; others share these, and own none of them"


def device_cpus_refused(demand: Demand, kept: Reason) -> Reason:
    """Only such CPUs are left. To reserve them in the kubelet would keep pods with devices away as well."""
    remedy = "share CPUs (prefer-shared-cpus: true), keep fewer, or taint the node for pods without devices"
    return replace(kept, text=f"wanted {wanted_text(demand)}; {kept.text}: {remedy}")
