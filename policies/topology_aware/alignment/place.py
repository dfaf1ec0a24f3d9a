"""Merge a container's topology hints and place it within the nodes that they give (docs/hints.md). Pure.

The merge gives one more condition of the same search: CPUs to own, pools to share and memory of these nodes. A policy
that refuses does so before the search, or where the search finds no place within the nodes.

An owner that is resized keeps its CPUs before that, or stays on their nodes: one whose CPUs change loses the caches and
the memory that it has warmed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from policies.alignment import Alignment, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import CpuKind, Decision, Placed, Reason, Rejected
from policies.errors import PolicyBaseError, PolicyOptionsError
from policies.hints import Merged, MergeOptions, Nodes, TooManyNodesError, merge
from policies.topology_aware.alignment import reasons
from policies.topology_aware.alignment.device_hints import device_hints
from policies.topology_aware.alignment.offers import (
    Asked,
    ResourceHints,
    asked_of,
    cpu_hints,
    cpu_nodes,
    free_in,
    memory_hints,
    mems_of,
    share_hints,
)
from policies.topology_aware.reason_codes import ReasonCode
from policies.topology_aware.reasons import not_in_its_node, previous_lost, wanted_text
from policies.topology_aware.supply.context import Place, PlacementContext, aligned, pod_of
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

_STRICT = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)
_UNMERGED = (TooManyNodesError, PolicyOptionsError)  # no result, and no internal error


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge: what was offered, what came of it, and the nodes to stay within (None = any)."""

    offers: tuple[ResourceHints, ...]
    merged: Merged
    alignment: Alignment | None


def rules_of(context: PlacementContext) -> TopologyOptions:
    """Return the policy and scope that apply to this container: annotations beat options.

    Where no NUMA node is known to have CPUs, there is nothing to merge.
    """
    rules, wanted = context.options.topology, context.request.preferences
    policy, scope = wanted.topology_policy, wanted.topology_scope
    if policy is not None or scope is not None:
        rules = replace(rules, policy=policy or rules.policy, scope=scope or rules.scope)
    if rules.policy is TopologyPolicy.NONE or cpu_nodes(context.tree.machine):
        return rules
    return replace(rules, policy=TopologyPolicy.NONE)


def place_running(context: PlacementContext, place: Place) -> Decision:
    """Return the first place of those in the order of the rule; a shrink never moves, nor is it refused."""
    previous = context.request.previous
    # Owned CPUs have caches and memory that are warm; sharers may run on any CPU of their set anyway.
    if previous is None or not previous.owned or not context.demand.whole:
        return place(context)
    for way in _keeping(context, previous.owned):
        decision = place(way)
        if isinstance(decision, Placed):
            return decision
    for way in _moving(context, previous.owned):
        moved = place(way)
        if isinstance(moved, Placed):
            return replace(moved, reasons=(previous_lost(previous, holds=True), *moved.reasons))
        decision = moved
    if context.runs and context.demand.single_node:
        free = free_in(context, _nodes_of(context, previous.owned))
        return Rejected(not_in_its_node(context.demand, previous.owned, free), decision.ranking)
    return decision


def _keeping(context: PlacementContext, owned: CpuSet) -> Iterator[PlacementContext]:
    yield replace(context, keeps=True)
    # A shrink is neither refused nor moved: strictness that it does not meet came after its CPUs.
    if context.runs and context.demand.asked <= len(owned):
        demand = replace(context.demand, single_node=False, strict_locality=False, strict_threads=False)
        yield replace(context, keeps=True, demand=demand)


def _moving(context: PlacementContext, owned: CpuSet) -> Iterator[PlacementContext]:
    """Yield its nodes, if it runs, and then the machine, unless it runs and may be on one node alone."""
    previous = context.request.previous
    lost = replace(context, request=replace(context.request, previous=previous.of_devices if previous else None))
    if context.runs:
        cpus = sum(node.cpus.mask for node in context.tree.machine.nodes if node.cpus & owned)
        # Shared CPUs have no hints, so that they hold no growth back: they may be beyond its nodes.
        yield replace(lost, within=cpus, demand=replace(context.demand, shares_within=False))
    if not (context.runs and context.demand.single_node):
        yield lost


def _nodes_of(context: PlacementContext, owned: CpuSet) -> int:
    return sum(1 << node.id for node in context.tree.machine.nodes if node.cpus & owned)


def place_aligned(context: PlacementContext, place: Place) -> Decision:
    """Return the place that ``place`` finds within the nodes of the container's hints.

    Without a topology policy that is what it finds anywhere.
    """
    rules = rules_of(context)
    if rules.policy is TopologyPolicy.NONE:
        return place(_within(context, None))
    return _place_as_before(context, rules, place) or _place_merged(context, rules, place)


def _place_as_before(context: PlacementContext, rules: TopologyOptions, place: Place) -> Decision | None:
    """Return a place within the nodes of its pod, or of its own earlier attempt or size; None = its hints decide."""
    earlier, of_pod = _earlier(context, rules)
    if earlier is None:
        return None
    decision = _place_within(context, earlier, place)
    if isinstance(decision, Placed):
        return _with_reasons(decision, reasons.kept(earlier, of_pod=of_pod))
    # An attempt without a grant holds nothing on its earlier nodes: where these are full, its hints decide again.
    must_stay = earlier.is_strict and (of_pod or context.own is not None)
    return _outside(context, rules, earlier, decision) if must_stay else None


def _place_merged(context: PlacementContext, rules: TopologyOptions, place: Place) -> Decision:
    """Merge the hints of its resources, and place it within the nodes that they give."""
    try:
        found = _merge_of(context, rules)
    except _UNMERGED as error:
        return _place_undecided(context, rules, place, error)
    if not found.merged.admit:
        return Rejected(reasons.refused(context.request, rules, found.offers))
    why = _reasons(context, rules, found)
    if found.alignment is None:
        return _with_reasons(place(_within(context, None)), *why)
    decision = _place_within(context, found.alignment, place)
    if isinstance(decision, Placed):
        return _with_reasons(decision, *why)
    if found.alignment.is_strict:
        return _outside(context, rules, found.alignment, decision)
    # ``best-effort`` prefers its nodes, and refuses nothing.
    anywhere = place(_within(context, None))
    return _with_reasons(anywhere, *why, reasons.beyond(found.alignment, decision.reason, shares=False))


def _place_undecided(
    context: PlacementContext, rules: TopologyOptions, place: Place, error: PolicyBaseError
) -> Decision:
    """Refuse a container whose hints cannot be merged, or place it as without hints where that is allowed."""
    if rules.policy in _STRICT:
        return Rejected(reasons.undecided(context.request, rules, error))
    return _with_reasons(place(_within(context, None)), reasons.not_merged(context.request, rules, error))


def pod_refused(context: PlacementContext) -> Rejected | None:
    """Return why the pod that this request stands for finds no nodes, before any of its containers comes."""
    rules = rules_of(context)
    is_merged = context.demand.kind is CpuKind.SHARED and rules.policy in _STRICT and rules.scope is TopologyScope.POD
    if not is_merged or _earlier(context, rules)[0] is not None:
        return None
    try:
        found = _merge_of(context, rules)
    except _UNMERGED as error:
        return Rejected(reasons.undecided(context.request, rules, error))
    if found.merged.admit:
        return None
    return Rejected(reasons.refused(context.request, rules, found.offers))


def _within(context: PlacementContext, alignment: Alignment | None) -> PlacementContext:
    request = aligned(context.request, alignment)
    return context if request is context.request else replace(context, request=request)


def _place_within(context: PlacementContext, alignment: Alignment, place: Place) -> Decision:
    """Place within these nodes. Shared CPUs have no hints: where the nodes have none left, they may be elsewhere."""
    inside = _within(context, alignment)
    decision = place(inside)
    demand = context.demand
    if isinstance(decision, Placed) or (demand.whole and not demand.shared_mcpu):
        return decision
    beyond = place(replace(inside, demand=replace(demand, shares_within=False)))
    if isinstance(beyond, Rejected):
        return decision
    return _with_reasons(beyond, reasons.beyond(alignment, decision.reason, shares=True))


def _with_reasons(decision: Decision, *why: Reason) -> Decision:
    return replace(decision, reasons=(*why, *decision.reasons)) if isinstance(decision, Placed) else decision


def _outside(context: PlacementContext, rules: TopologyOptions, alignment: Alignment, refused: Rejected) -> Rejected:
    """Return the refusal of a container that may own CPUs of these nodes alone, with what is free there."""
    # A container is never refused for shared CPUs alone: what refuses it then is another rule, with its own words.
    if refused.reason.code == ReasonCode.STRICT_TOPOLOGY or not context.demand.whole:
        return refused
    why = refused.reason.text
    if refused.reason.code == ReasonCode.CPU_FULL:  # which names what is free in the whole machine
        why = f"wanted {wanted_text(context.demand)}, free {free_in(context, alignment.nodes.mask)}"
    return replace(refused, reason=reasons.outside(context.request, rules, alignment, why))


def _earlier(context: PlacementContext, rules: TopologyOptions) -> tuple[Alignment | None, bool]:
    """Return the nodes of its pod's other containers, or of its own earlier attempt or size; and whether of its pod."""
    if rules.scope is TopologyScope.POD:
        for grant in pod_of(context):
            its = grant.request.alignment
            if its is not None and its.scope is TopologyScope.POD:
                return replace(its, is_strict=rules.policy in _STRICT), True
    own = context.own.request.alignment if context.own is not None else None
    previous = context.request.previous
    # How strictly follows the policy of now; a changed option moves no container (docs/placement.md, Topology hints).
    its = own or (previous.alignment if previous is not None else None) or _of_cpus(context)
    return (None if its is None else replace(its, is_strict=rules.policy in _STRICT)), False


def _of_cpus(context: PlacementContext) -> Alignment | None:
    """Return the nodes of an owner that runs and is older than the policy, or whose hints left all nodes."""
    if context.own is None or not context.own.owned or not context.runs:
        return None
    machine = context.tree.machine
    nodes = _nodes_of(context, context.own.owned)
    return Alignment(NodeSet(nodes), NodeSet(mems_of(machine, nodes)))


def _merge_of(context: PlacementContext, rules: TopologyOptions) -> _Merge:
    """Merge the hints of all resources; of several kinds of CPUs that would do, the first that all prefer counts.

    Where none is, the last one does, which asks for least.
    """
    count = len(context.tree.machine.nodes)
    if rules.most_nodes and count > rules.most_nodes:  # by an annotation: the options are refused together
        problem = f"the machine has {count} NUMA nodes"
        raise PolicyOptionsError("max-allowable-numa-nodes", str(rules.most_nodes), problem)
    asked = asked_of(context, is_of_pod=rules.scope is TopologyScope.POD)
    others = (*memory_hints(context, asked), *device_hints(context, asked))
    merges = (_merge_with(context, rules, (*cpus, *others)) for cpus in _cpus(context, asked, shares=bool(others)))
    # Ways with less are merged only where not all resources prefer the one before.
    for found in merges:
        if found.merged.preferred:
            break
    return found


def _cpus(context: PlacementContext, asked: Asked, *, shares: bool) -> Iterator[tuple[ResourceHints, ...]]:
    """Yield the hints for CPUs by kind; ``shares``: CPUs to share count beside the hints of others."""
    if not asked.whole:
        # The kubelet has no hints for shared CPUs: where they leave no nodes, they count for nothing.
        if shares:
            yield (share_hints(context),)
        yield ()
    for offer in cpu_hints(context, asked):
        yield (offer,)


def _merge_with(context: PlacementContext, rules: TopologyOptions, offers: tuple[ResourceHints, ...]) -> _Merge:
    machine = context.tree.machine
    every = sum(1 << node.id for node in cpu_nodes(machine))
    nodes = Nodes(every, _distances(machine) if rules.prefers_closest else None)
    options = MergeOptions(prefer_closest_numa_nodes=rules.prefers_closest)
    merged = merge([{offer.resource: offer.hints} for offer in offers], nodes, rules.policy.value, options)
    mask = merged.affinity
    if not merged.admit or not offers or (mask in (None, every) and rules.scope is TopologyScope.CONTAINER):
        return _Merge(offers, merged, None)
    mask = mask or every  # what the pod's first container finds holds for the others
    strict = rules.policy in _STRICT
    return _Merge(offers, merged, Alignment(NodeSet(mask), NodeSet(mems_of(machine, mask)), rules.scope, strict))


def _distances(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Return the distance from each node to each, by id."""
    count = max(node.id for node in machine.nodes) + 1
    by_id = {node.id: node for node in machine.nodes}
    return tuple(tuple(by_id[a].distance_to(b) if a in by_id else 0 for b in range(count)) for a in range(count))


def _reasons(context: PlacementContext, rules: TopologyOptions, found: _Merge) -> tuple[Reason, ...]:
    request = context.request
    if not found.offers:
        return (reasons.unmerged(request, rules),)
    result = reasons.merged_reason(request, rules, found.merged, found.alignment)
    return (*(reasons.hints_reason(request, offer) for offer in found.offers), result)
