"""Score pools by the affinities between containers, and explain the scores (docs/placement.md, Affinity)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter

from policies.base import Affinity, Allocations, Expression, Grant, Reason, Request
from policies.expressions import Containers, expression_text
from policies.hardware.pools import Pool, PoolTree
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.affinity_matches import digits
from policies.topology_aware.supply.supply import Supply, affinities_with, of_pod

COLOCATION_WEIGHT = 10
_ADDED = "added without resources to a pod with some"
MAX_WEIGHT = 1000
DISTANCE_FACTOR = 0.75  # per link between two pools
MAX_PULLS = 16
_MAX_REASONS = 4
AFFINITY = "affinity"

AFFINITIES = attrgetter("request.affinities")
"""The affinities of a grant's container, for a look at all containers of the node in C."""

_ANY = Expression("name", "AlwaysTrue")


@dataclass(frozen=True, slots=True)
class Pull:
    """How much another container attracts this one (negative: repels) to its pool, and by which affinities."""

    name: str  # NAMESPACE/POD/CONTAINER
    pool: str
    weight: int
    why: str


def affinity_scores(
    supply: Supply, options: TopologyAwareOptions, request: Request, others: tuple[Grant, ...]
) -> tuple[float, ...]:
    """Return per pool how much the affinities of this container, and of others to it, attract it there.

    A weight counts fully in the pool where the other container is, and 0.75 per link above and below it. A pull counts
    elsewhere as in the lowest pool that has both: a pool that only reaches there is no nearer than one beside it.
    ``supply`` is that of the others.
    """
    weights, tree = _Weights(supply.tree), supply.tree
    own = request.affinities or tuple(affinity for _, affinity in implied(options, request))
    # With a scope they may match a thousand containers: counts of these are kept from decision to decision.
    scoped = [affinity for affinity in own if affinity.scope is not None]
    for affinity, counts in zip(scoped, supply.matches.by_pool(scoped, others) if scoped else (), strict=True):
        weights.add_to_each(counts, _bounded(affinity))
    its_pod = [grant for grant in of_pod(others, request.container.pod_uid) if grant.is_in_pool]
    of_its_pod = Containers([grant.request for grant in its_pod])
    for affinity, mask in _met([a for a in own if a.scope is None] if its_pod else (), request.pod.uid, of_its_pod):
        for i, grant in enumerate(its_pod):
            weights.add(tree.named(grant.pool).index, [(_bounded(affinity), mask >> i & 1)])
    for counts, weight in _of_others(supply, request, its_pod):
        weights.add_to_each(counts, weight)
    # ``kubectl debug`` adds such a container, which CRI does not mark: it belongs beside what it is to look at.
    if not weights.is_any:
        for grant in _of_its_pod(request, its_pod):
            weights.add(tree.named(grant.pool).index, [(COLOCATION_WEIGHT, 1)])
    return weights.scores()


def _of_others(supply: Supply, request: Request, its_pod: Sequence[Grant]) -> Iterator[tuple[Mapping[int, int], int]]:
    """Yield (how many others are in each pool, weight) for what affinities of theirs to this container weigh.

    Replicas have the same affinities: what these say is looked up once, for its own pod and for all others.
    """
    me = Containers((request,))
    of_its_pod = affinities_with({}, supply.tree, its_pod, 1)
    # Of other pods only affinities with a scope can match: those without one are about their own pod.
    of_others = affinities_with(supply.affinities, supply.tree, its_pod, -1)
    for uid, of_theirs in ((request.pod.uid, of_its_pod), (None, of_others)):
        for affinities, counts in of_theirs.items():
            for affinity, mask in _met(affinities, uid, me):
                yield counts, _bounded(affinity) * mask.bit_count()


def gain_of_others(
    tree: PoolTree, options: TopologyAwareOptions, others: Iterable[Grant], before: Grant, after: Grant
) -> float:
    """Return how much the affinity scores of all others together rise when this container moves."""
    weights, me, others = _Weights(tree), Containers((before.request,)), tuple(others)
    for grant in others:
        if grant.is_in_pool:
            pool = tree.named(grant.pool).index
            theirs = grant.request.affinities or tuple(affinity for _, affinity in implied(options, grant.request))
            uid = before.request.pod.uid
            weights.add_met(pool, _met(before.request.affinities, uid, Containers((grant.request,))))
            weights.add_met(pool, _met(theirs, grant.request.pod.uid, me))
            if _of_its_pod(grant.request, (before,)) and not _any_applies(options, grant.request, (*others, before)):
                weights.add(pool, [(COLOCATION_WEIGHT, 1)])
    return weights.seen_from(tree.named(after.pool)) - weights.seen_from(tree.named(before.pool))


class _Weights:
    """The weights of what attracts and repels a container, by the pool where it is; never leaves this module."""

    def __init__(self, tree: PoolTree) -> None:
        self._tree = tree
        self._pulls = [0] * len(tree.pools)
        self._pushes = [0] * len(tree.pools)

    @property
    def is_any(self) -> bool:
        """Return whether anything attracts or repels."""
        return any(self._pulls) or any(self._pushes)

    def add_met(self, pool: int, met: Sequence[tuple[Affinity, int]]) -> None:
        """Add these affinities, each with the mask of those it matches, towards a pool."""
        self.add(pool, [(_bounded(affinity), mask.bit_count()) for affinity, mask in met])

    def add(self, pool: int, weights: Iterable[tuple[int, int]]) -> None:
        """Add these weights, each so many times, towards a pool."""
        for weight, times in weights:
            (self._pulls if weight > 0 else self._pushes)[pool] += weight * times

    def add_to_each(self, counts: Mapping[int, int], weight: int) -> None:
        """Add this weight for so many containers in each pool."""
        sums = self._pulls if weight > 0 else self._pushes
        for pool, times in counts.items():
            sums[pool] += weight * times

    def scores(self) -> tuple[float, ...]:
        """Return the sum per pool."""
        none = (0.0,) * len(self._pulls)
        pulls = self._sums(self._pulls, beside=True) if any(self._pulls) else none
        pushes = self._sums(self._pushes, beside=False) if any(self._pushes) else none
        return tuple(round(pull + push, 6) for pull, push in zip(pulls, pushes, strict=True))

    def _sums(self, weights: Sequence[int], *, beside: bool) -> list[float]:
        """Return for each pool what comes from it and below, from above, and from those beside it if these count."""
        inner = self._tree.pools[1:]
        below = [float(weight) for weight in weights]
        for pool in reversed(inner):
            below[pool.parent] += DISTANCE_FACTOR * below[pool.index]
        above = [0.0]
        for pool in inner:
            above.append(DISTANCE_FACTOR * (above[pool.parent] + weights[pool.parent]))
        found = [here + wider for here, wider in zip(below, above, strict=True)]
        others = [0.0]
        for pool in inner if beside else ():
            i, up = pool.index, pool.parent
            others.append(others[up] + below[up] - weights[up] - DISTANCE_FACTOR * below[i])
            found[i] += others[i]
        return found

    def seen_from(self, there: Pool) -> float:
        """Return the sum that the containers at these weights would get from one in this pool."""
        one = [int(pool is there) for pool in self._tree.pools]
        near, on_line = self._sums(one, beside=True), self._sums(one, beside=False)
        rows = zip(self._pulls, near, self._pushes, on_line, strict=True)
        return sum(pull * as_pull + push * as_push for pull, as_pull, push, as_push in rows)


def pulls(tree: PoolTree, options: TopologyAwareOptions, request: Request, others: Iterable[Grant]) -> tuple[Pull, ...]:
    """Return the containers behind the scores: at most ``MAX_PULLS``, strongest first, then by container."""
    wanted = [(affinity, "its {}") for affinity in request.affinities]
    wanted += [(affinity, name) for name, affinity in implied(options, request)]
    others = tuple(others)
    found = []
    if wanted or any(map(AFFINITIES, others)):  # on most nodes no container has any
        found = _met_pulls(tree, request, [grant for grant in others if grant.is_in_pool], wanted)
    # Affinities that cancel each other out apply all the same: no pull is found then.
    if not found and _is_added(request) and not _any_applies(options, request, others):
        there = [grant for grant in others if grant.is_in_pool]
        near, beside = _of_its_pod(request, there)[:MAX_PULLS], Affinity(_ANY, COLOCATION_WEIGHT)
        found = [_pull(tree, grant, COLOCATION_WEIGHT, [(beside, _ADDED)]) for grant in near]
    return tuple(found)


def _met_pulls(
    tree: PoolTree, request: Request, there: Sequence[Grant], wanted: Sequence[tuple[Affinity, str]]
) -> list[Pull]:
    """Return the pulls by the affinities of the container, ``wanted`` with words for each, and by those of others."""
    own = []
    if wanted:
        together = Containers([grant.request for grant in there])
        masks = [(affinity, words, _mask(affinity, request.pod.uid, together)) for affinity, words in wanted]
        own = [each for each in masks if each[2]]
    me = Containers((request,))
    theirs = [_met(grant.request.affinities, grant.request.pod.uid, me) for grant in there]
    of_own = _weight_of_each([(affinity, mask) for affinity, _, mask in own], len(there))
    weights = [its + sum(_bounded(each) for each, _ in met) for its, met in zip(of_own, theirs, strict=True)]
    strongest = sorted((i for i, w in enumerate(weights) if w), key=lambda i: (-abs(weights[i]), there[i].container))
    found = []
    for i in strongest[:MAX_PULLS]:
        met = [(affinity, words) for affinity, words, mask in own if mask >> i & 1]
        met += [(affinity, "the other's {}") for affinity, _ in theirs[i]]
        found.append(_pull(tree, there[i], weights[i], met))
    return found


def _any_applies(options: TopologyAwareOptions, request: Request, others: Iterable[Grant]) -> bool:
    """Return whether an affinity of the container, or of an option for it, matches another one, or one of theirs it."""
    there = [grant.request for grant in others if grant.is_in_pool and grant.container != request.container]
    own = request.affinities or tuple(affinity for _, affinity in implied(options, request))
    me = Containers((request,))
    met = [_met(own, request.pod.uid, Containers(there)), *(_met(o.affinities, o.pod.uid, me) for o in there)]
    return any(affinity.weight for each in met for affinity, _ in each)


def _is_added(request: Request) -> bool:
    """Return whether it asks for nothing, as an ephemeral container, which Kubernetes allows no resources, does.

    CRI does not mark these.
    """
    figures = (request.cpu_request_mcpu, request.memory_request_bytes)
    return not any(figures) and (request.cpu_limit_mcpu, request.memory_limit_bytes or None) == (None, None)


def _of_its_pod(request: Request, others: Sequence[Grant]) -> list[Grant]:
    """Return the containers of its pod that have CPU time, where it was added without resources of its own."""
    if not _is_added(request):
        return []
    return [g for g in others if g.container.pod_uid == request.container.pod_uid and (g.owned or g.shared_mcpu)]


def _weight_of_each(met: Sequence[tuple[Affinity, int]], count: int) -> list[int]:
    """Return the sum of the weights of the affinities that match it for each of so many containers."""
    if not met:
        return [0] * count
    weights = [_bounded(affinity) for affinity, _ in met]
    # Digit by digit in C: 64 affinities may match 500 containers each.
    columns = [digits(mask, count) for _, mask in met]
    return [sum(compress(weights, row)) for row in zip(*columns, strict=True)]


def _pull(tree: PoolTree, grant: Grant, weight: int, met: Sequence[tuple[Affinity, str]]) -> Pull:
    return Pull(str(grant.request.full_name), tree.named(grant.pool).name, weight, _why(met))


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


def _bounded(affinity: Affinity) -> int:
    return max(-MAX_WEIGHT, min(MAX_WEIGHT, affinity.weight))


def _met(affinities: Sequence[Affinity], uid: str | None, others: Containers) -> list[tuple[Affinity, int]]:
    """Return the affinities of a container of this pod that any of the others matches, with the mask of these.

    ``uid`` None: it is of none of their pods.
    """
    return [(affinity, mask) for affinity in affinities if (mask := _mask(affinity, uid, others))]


def _mask(affinity: Affinity, uid: str | None, others: Containers) -> int:
    """Return which of the others are in scope and match."""
    if affinity.scope is None:
        in_scope = others.in_pod(uid) if uid is not None else 0
    else:
        in_scope = others.matching(affinity.scope)
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
