"""Sentences about topology hints: what each resource offers, what the merge gives, why a container is refused."""

from collections.abc import Iterator, Sequence
from typing import Final

from policies.alignment import Alignment, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Reason, Request
from policies.errors import PolicyBaseError
from policies.hints import Hint, HintOrigin, Hints, Merged
from policies.topology_aware.alignment.offers import ResourceHints, nodes_text
from policies.topology_aware.reason_codes import ReasonCode

_SHOWN: Final = 4  # sets of nodes in a sentence


def policy_text(request: Request, rules: TopologyOptions) -> str:
    """Return the policy with where it is from."""
    origin = dict(request.origins).get("topology_policy", "topologyManager.policy")
    return f"topology policy {rules.policy} ({origin})"


def hints_reason(request: Request, offer: ResourceHints) -> Reason:
    """The offer of one resource, and the source of its amount."""
    origin = dict(request.origins).get(offer.field, "")
    wanted = f"{offer.wanted} ({origin})" if origin else offer.wanted
    text = f"{offer.resource}: {wanted}, fits on {_sets_text(offer.hints)}; free {offer.free}"
    if offer.field == "localities":
        text = f"{offer.resource}: {offer.wanted}, {offer.free}: fits on {_sets_text(offer.hints)}"
    return Reason(ReasonCode.TOPOLOGY_HINTS, text)


def _sets_text(offered: Hints) -> str:
    """Return the smallest sets that fit, and whether these are preferred."""
    if offered is None:
        return "any node"
    if not offered:
        return "no set of nodes"
    preferred = [hint for hint in offered if hint.preferred]
    shown = preferred or _smallest(offered)
    names = [nodes_text(hint.nodes or 0) for hint in shown[:_SHOWN]]
    more = f" or {len(shown) - _SHOWN} more sets" if len(shown) > _SHOWN else ""
    fewer = "" if preferred else ", more nodes than it would need alone on the machine"
    return " or ".join(names) + more + fewer


def _smallest(offered: Sequence[Hint]) -> list[Hint]:
    least = min(map(_size, offered))
    return [hint for hint in offered if _size(hint) == least]


def _size(hint: Hint) -> int:
    return (hint.nodes or 0).bit_count()


def merged_reason(request: Request, rules: TopologyOptions, merged: Merged, alignment: Alignment | None) -> Reason:
    """The result of the merge; ``alignment`` None = the container is kept within no nodes."""
    whose = " for the pod" if rules.scope is TopologyScope.POD else ""
    where = "any node" if alignment is None else nodes_text(alignment.nodes.mask)
    how = "preferred by all" if merged.preferred else "not preferred by all"
    text = f"{policy_text(request, rules)}{whose}: {where}, {how}: {_rests_on_text(merged)}"
    return Reason(ReasonCode.TOPOLOGY_MERGED, text)


def _rests_on_text(merged: Merged) -> str:
    """Return which hint of each resource gave the result."""
    if not merged.rests_on:
        return "no hints of all resources have a node in common"
    bound = [origin for origin in merged.rests_on if origin.hint.nodes is not None or not origin.hint.preferred]
    free = [origin.resource for origin in merged.rests_on if origin not in bound]
    texts = [origin.resource if merged.preferred else _hint_text(origin) for origin in bound]
    texts += [f"any node suits {' and '.join(free)}"] if free else []
    return (", " if merged.preferred else "; ").join(texts)


def _hint_text(origin: HintOrigin) -> str:
    if origin.hint.nodes is None:
        return f"{origin.resource} fits nowhere"
    return f"{origin.resource} on {nodes_text(origin.hint.nodes)}, {'' if origin.hint.preferred else 'not '}preferred"


def unmerged(request: Request, rules: TopologyOptions) -> Reason:
    """There is nothing to merge."""
    text = f"{policy_text(request, rules)}: no resource that it asks for has hints"
    return Reason(ReasonCode.TOPOLOGY_MERGED, text)


def not_merged(request: Request, rules: TopologyOptions, error: PolicyBaseError) -> Reason:
    """The hints of a machine with many nodes cannot be merged: ``best-effort`` places the container as without them."""
    return Reason(ReasonCode.TOPOLOGY_BEYOND, f"{policy_text(request, rules)} has no effect: {error}")


def undecided(request: Request, rules: TopologyOptions, error: PolicyBaseError) -> Reason:
    """The same under a policy that may not place a container on nodes that it does not know to be preferred."""
    remedy = "give it the topology policy best-effort"
    return Reason(ReasonCode.STRICT_TOPOLOGY, f"{policy_text(request, rules)} cannot be kept: {error}; {remedy}")


def kept(alignment: Alignment, *, of_pod: bool) -> Reason:
    """The container is where its pod, or its earlier attempt, was."""
    whose = "as its pod is" if of_pod else "as before"
    return Reason(ReasonCode.TOPOLOGY_KEPT, f"kept within {nodes_text(alignment.nodes.mask)}, {whose}")


def beyond(alignment: Alignment, refused: Reason, *, shares: bool) -> Reason:
    """The container, or only its shared CPUs, are not within the nodes."""
    what = "its shared CPUs are" if shares else "it is"
    text = f"{what} not within {nodes_text(alignment.nodes.mask)}: {refused.text}"
    return Reason(ReasonCode.TOPOLOGY_BEYOND, text)


def refused(request: Request, rules: TopologyOptions, offers: Sequence[ResourceHints]) -> Reason:
    """No nodes satisfy the policy: the resources that do not fit, or do not fit on the same nodes."""
    whose = "the pod" if rules.scope is TopologyScope.POD else "the container"
    is_one = rules.policy is TopologyPolicy.SINGLE_NUMA_NODE
    lacks = "no NUMA node has all" if is_one else "no NUMA nodes are preferred by all resources"
    obstacles = "; ".join(_obstacles(rules.policy, offers))
    text = f"{policy_text(request, rules)}: {lacks} that {whose} asks for; {obstacles}"
    return Reason(ReasonCode.STRICT_TOPOLOGY, text)


def _obstacles(policy: TopologyPolicy, offers: Sequence[ResourceHints]) -> Iterator[str]:
    lacking = [offer for offer in offers if not _has_good(policy, offer.hints)]
    for offer in lacking or offers:
        of_devices = f"{offer.resource}: {offer.free}"
        yield (
            of_devices if offer.field == "localities" else f"{offer.resource}: wanted {offer.wanted}, free {offer.free}"
        )


def _has_good(policy: TopologyPolicy, offered: Hints) -> bool:
    """Return whether some set of these would satisfy the policy alone."""
    if offered is None:
        return True
    most = 1 if policy is TopologyPolicy.SINGLE_NUMA_NODE else len(offered)
    return any(hint.preferred and _size(hint) <= most for hint in offered)


def outside(request: Request, rules: TopologyOptions, alignment: Alignment, why: str) -> Reason:
    """There is no place within the nodes; ``why`` is a sentence."""
    text = f"{policy_text(request, rules)} keeps it within {nodes_text(alignment.nodes.mask)}: {why}"
    return Reason(ReasonCode.STRICT_TOPOLOGY, text)
