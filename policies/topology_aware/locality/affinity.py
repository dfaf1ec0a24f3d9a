"""Score pools by the affinities between containers, and explain the scores (docs/placement.md, Affinity)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from policies.base import Affinity, Allocations, ContainerKey, CpuKind, Expression, Grant, Reason, Request
from policies.expressions import expression_text, matches
from policies.hardware.pools import PoolTree
from policies.topology_aware.options import TopologyAwareOptions

COLOCATION_WEIGHT = 10
MAX_WEIGHT = 1000
DISTANCE_FACTOR = 0.75  # per link between two pools
MAX_PULLS = 16
_MAX_REASONS = 4
AFFINITY = "affinity"

_ANY = Expression("name", "AlwaysTrue")


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
    for grant in others:
        theirs = grant.request.affinities
        if (own or theirs) and _is_somewhere(grant):
            weight = affinity_weight(own, request, grant.request) + affinity_weight(theirs, grant.request, request)
            if weight:
                weights[tree.named(grant.pool).index] += weight
    return _spread(tree, weights)


def pulls(tree: PoolTree, options: TopologyAwareOptions, request: Request, others: Iterable[Grant]) -> tuple[Pull, ...]:
    """Return the containers behind the scores: at most ``MAX_PULLS``, strongest first, then by container."""
    own = [(affinity, f"its {_text(affinity)}") for affinity in request.affinities]
    own += [(affinity, name) for name, affinity in implied(options, request)]
    found = []
    for grant in others:
        if _is_somewhere(grant):
            met = list(_met(own, request, grant.request))
            weight = sum(weight for weight, _ in met)
            if weight:
                pod = grant.request.pod
                name = f"{pod.namespace}/{pod.name}/{grant.container.name}"
                found.append(Pull(grant.container, name, tree.named(grant.pool).name, weight, _why(met)))
    return tuple(sorted(found, key=lambda p: (-abs(p.weight), p.container))[:MAX_PULLS])


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


def affinity_weight(affinities: Sequence[Affinity], subject: Request, other: Request) -> int:
    """Return the sum of the weights of the subject's affinities that the other container matches."""
    total = 0
    for affinity in affinities:
        if _meets(affinity, subject, other):
            total += _bounded(affinity)
    return total


def _bounded(affinity: Affinity) -> int:
    return max(-MAX_WEIGHT, min(MAX_WEIGHT, affinity.weight))


def _meets(affinity: Affinity, subject: Request, other: Request) -> bool:
    """Return whether the other container is in scope and matches."""
    scope = affinity.scope
    in_scope = subject.pod.uid == other.pod.uid if scope is None else matches(scope, other)
    return in_scope and matches(affinity.match, other)


def _met(own: Sequence[tuple[Affinity, str]], request: Request, other: Request) -> Iterator[tuple[int, str]]:
    """Yield (weight, in words) of each affinity between the two, the container's own first."""
    for affinity, text in own:
        if _meets(affinity, request, other):
            yield _bounded(affinity), f"{text} ({_bounded(affinity):+})"
    for affinity in other.affinities:
        if _meets(affinity, other, request):
            yield _bounded(affinity), f"the other's {_text(affinity)} ({_bounded(affinity):+})"


def _why(met: Sequence[tuple[int, str]]) -> str:
    """Return the strongest few of these, in the order given."""
    strongest = sorted(range(len(met)), key=lambda i: -abs(met[i][0]))[:_MAX_REASONS]
    text = "; ".join(met[i][1] for i in sorted(strongest))
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
