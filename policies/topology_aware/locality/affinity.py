"""Score pools by the affinities between containers, and explain the scores (docs/placement.md, Affinity)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from policies.base import Affinity, Allocations, ContainerKey, CpuKind, Expression, Grant, Reason, Request
from policies.expressions import Containers, expression_text
from policies.hardware.pools import PoolTree
from policies.topology_aware.options import TopologyAwareOptions

COLOCATION_WEIGHT = 10
_ADDED = "added without resources to a pod with some"
MAX_WEIGHT = 1000
DISTANCE_FACTOR = 0.75  # per link between two pools
MAX_PULLS = 16
_MAX_REASONS = 4
AFFINITY = "affinity"

_ANY = Expression("name", "AlwaysTrue")
_DIGITS = bytes.maketrans(b"01", b"\0\1")  # digits as truth values


@dataclass(frozen=True, slots=True)
class Pull:
    """How much another container attracts this one (negative: repels) to its pool, and by which affinities."""

    container: ContainerKey
    name: str  # NAMESPACE/POD/CONTAINER
    pool: str
    weight: int
    why: str


def affinity_scores(
    tree: PoolTree, options: TopologyAwareOptions, request: Request, others: Iterable[Grant]
) -> tuple[float, ...]:
    """Return per pool how much the affinities of this container, and of others to it, attract it there.

    A weight counts fully in the pool where the other container is, and 0.75 per link above and below it.
    """
    weights = [0] * len(tree.pools)
    own = request.affinities or tuple(affinity for _, affinity in implied(options, request))
    there = [grant for grant in others if _is_somewhere(grant)]
    met = _met(own, request, Containers([grant.request for grant in there]))
    if met:
        for pool, here in _masks_by_pool(tree, there).items():
            weights[pool] += sum(_bounded(affinity) * (mask & here).bit_count() for affinity, mask in met)
    me = Containers((request,))
    for grant in there:
        if grant.request.affinities:
            weights[tree.named(grant.pool).index] += affinity_weight(grant.request.affinities, grant.request, me)
    if not any(weights):
        for grant in _of_its_pod(request, there):
            weights[tree.named(grant.pool).index] += COLOCATION_WEIGHT
    return _spread(tree, weights)


def scores_for_others(
    tree: PoolTree, options: TopologyAwareOptions, request: Request, others: Iterable[Grant]
) -> tuple[float, ...]:
    """Return per pool how much the affinity scores of all others together gain with this container there.

    That is its own score, but for what options imply: it is not drawn by what another container's options imply.
    """
    weights = [0] * len(tree.pools)
    me = Containers((request,))
    for grant in others:
        if _is_somewhere(grant):
            theirs = grant.request.affinities or tuple(affinity for _, affinity in implied(options, grant.request))
            mine = affinity_weight(request.affinities, request, Containers((grant.request,)))
            weights[tree.named(grant.pool).index] += mine + affinity_weight(theirs, grant.request, me)
    return _spread(tree, weights)


def _masks_by_pool(tree: PoolTree, grants: Sequence[Grant]) -> dict[int, int]:
    """Return which of the grants are in each pool, bit i for the i-th."""
    masks: dict[int, int] = {}
    for i, grant in enumerate(grants):
        pool = tree.named(grant.pool).index
        masks[pool] = masks.get(pool, 0) | 1 << i
    return masks


def pulls(tree: PoolTree, options: TopologyAwareOptions, request: Request, others: Iterable[Grant]) -> tuple[Pull, ...]:
    """Return the containers behind the scores: at most ``MAX_PULLS``, strongest first, then by container."""
    wanted = [(affinity, "its {}") for affinity in request.affinities]
    wanted += [(affinity, name) for name, affinity in implied(options, request)]
    there = [grant for grant in others if _is_somewhere(grant)]
    together = Containers([grant.request for grant in there])
    own = [(affinity, words, mask) for affinity, words in wanted if (mask := _mask(affinity, request, together))]
    weights = _weight_of_each([(affinity, mask) for affinity, _, mask in own], len(there))
    me = Containers((request,))
    for i, grant in enumerate(there):
        if grant.request.affinities:
            weights[i] += affinity_weight(grant.request.affinities, grant.request, me)
    strongest = sorted((i for i, w in enumerate(weights) if w), key=lambda i: (-abs(weights[i]), there[i].container))
    found = []
    for i in strongest[:MAX_PULLS]:
        theirs = _met(there[i].request.affinities, there[i].request, me)
        met = [(affinity, words) for affinity, words, mask in own if mask >> i & 1]
        met += [(affinity, "the other's {}") for affinity, _ in theirs]
        found.append(_pull(tree, there[i], weights[i], met))
    if not found:
        near, beside = _of_its_pod(request, there)[:MAX_PULLS], Affinity(_ANY, COLOCATION_WEIGHT)
        found = [_pull(tree, grant, COLOCATION_WEIGHT, [(beside, _ADDED)]) for grant in near]
    return tuple(found)


def _of_its_pod(request: Request, others: Sequence[Grant]) -> list[Grant]:
    """Return the containers of its pod that have CPU time, where it was added without resources of its own.

    That is an ephemeral container, as for debugging: Kubernetes allows these no resources, and CRI does not mark them.
    """
    figures = (request.cpu_request_mcpu, request.memory_request_bytes)
    if any(figures) or (request.cpu_limit_mcpu, request.memory_limit_bytes) != (None, None):
        return []
    return [g for g in others if g.container.pod_uid == request.container.pod_uid and (g.owned or g.shared_mcpu)]


def _weight_of_each(met: Sequence[tuple[Affinity, int]], count: int) -> list[int]:
    """Return the sum of the weights of the affinities that match it for each of so many containers."""
    if not met:
        return [0] * count
    weights = [_bounded(affinity) for affinity, _ in met]
    # Digit by digit in C: 64 affinities may match 500 containers each.
    columns = [f"{mask:0{count}b}"[::-1].encode().translate(_DIGITS) for _, mask in met]
    return [sum(compress(weights, row)) for row in zip(*columns, strict=True)]


def _pull(tree: PoolTree, grant: Grant, weight: int, met: Sequence[tuple[Affinity, str]]) -> Pull:
    pod = grant.request.pod
    name = f"{pod.namespace}/{pod.name}/{grant.container.name}"
    return Pull(grant.container, name, tree.named(grant.pool).name, weight, _why(met))


def affinity_reasons(
    tree: PoolTree, options: TopologyAwareOptions, held: Allocations, request: Request
) -> tuple[Reason, ...]:
    """Return a sentence for each of these containers. The request's own grant in ``held`` is ignored."""
    others = held.without(request.container).grants
    return tuple(Reason(AFFINITY, _pull_text(pull)) for pull in pulls(tree, options, request, others))


def _pull_text(pull: Pull) -> str:
    verb, towards = ("draws", "to") if pull.weight > 0 else ("pushes", "from")
    return f"{pull.name} {verb} it by {abs(pull.weight)} {towards} {pull.pool}: {pull.why}"


def implied(options: TopologyAwareOptions, request: Request) -> tuple[tuple[str, Affinity], ...]:
    """Return (option, affinity) that options give this container; () if it has affinities of its own."""
    if request.affinities:
        return ()
    here = Expression("namespace", "Equals", (request.pod.namespace,))
    rows = (
        (options.colocate_pods, "ColocatePods", Affinity(_ANY, COLOCATION_WEIGHT)),
        (options.colocate_namespaces, "ColocateNamespaces", Affinity(here, COLOCATION_WEIGHT, scope=_ANY)),
    )
    return tuple((f"topologyAware.{option}", affinity) for is_on, option, affinity in rows if is_on)


def _is_somewhere(grant: Grant) -> bool:
    """Return whether the container is in a pool: reserved and preserved ones are not."""
    return grant.kind is not CpuKind.PRESERVE and grant.kind is not CpuKind.RESERVED


def affinity_weight(affinities: Sequence[Affinity], subject: Request, others: Containers) -> int:
    """Return the sum of the weights of the subject's affinities, each as often as one of the others matches."""
    return sum(_bounded(affinity) * mask.bit_count() for affinity, mask in _met(affinities, subject, others))


def _bounded(affinity: Affinity) -> int:
    return max(-MAX_WEIGHT, min(MAX_WEIGHT, affinity.weight))


def _met(affinities: Sequence[Affinity], subject: Request, others: Containers) -> list[tuple[Affinity, int]]:
    """Return the subject's affinities that any of the others matches, with the mask of these."""
    return [(affinity, mask) for affinity in affinities if (mask := _mask(affinity, subject, others))]


def _mask(affinity: Affinity, subject: Request, others: Containers) -> int:
    """Return which of the others are in scope and match."""
    scope = affinity.scope
    in_scope = others.in_pod(subject.pod.uid) if scope is None else others.matching(scope)
    return in_scope and in_scope & others.matching(affinity.match)


def _why(met: Sequence[tuple[Affinity, str]]) -> str:
    """Return the strongest few of these in words, in the order given."""
    strongest = sorted(range(len(met)), key=lambda i: -abs(_bounded(met[i][0])))[:_MAX_REASONS]
    chosen = [met[i] for i in sorted(strongest)]
    text = "; ".join(f"{words.format(_text(affinity))} ({_bounded(affinity):+})" for affinity, words in chosen)
    return text if len(met) <= _MAX_REASONS else f"{text}; and {len(met) - _MAX_REASONS} more"


def _text(affinity: Affinity) -> str:
    kind = "anti-affinity" if affinity.weight < 0 else "affinity"
    scope = "" if affinity.scope is None else f" where {expression_text(affinity.scope)}"
    return f"{kind} to {expression_text(affinity.match)}{scope}"


def _spread(tree: PoolTree, weights: Sequence[int]) -> tuple[float, ...]:
    scores = [0.0] * len(tree.pools)
    for i, weight in enumerate(weights):
        if not weight:
            continue
        here = tree.pools[i]
        for above in here.path:
            scores[above] += weight * DISTANCE_FACTOR ** (here.depth - tree.pools[above].depth)
        for below in range(i + 1, here.end):
            scores[below] += weight * DISTANCE_FACTOR ** (tree.pools[below].depth - here.depth)
    return tuple(round(s, 6) for s in scores)
