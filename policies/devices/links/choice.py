"""Choose GPUs for a request, by the policies of go-gpuallocator; a refusal has the reason as a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from policies.devices.links.cut import ChosenSet, TooManySets, best_set, swapped_set
from policies.devices.links.matrix import (
    LinkError,
    LinkMatrix,
    LinkMode,
    PairPoints,
    cut_off,
    points_between,
    set_points,
)
from policies.devices.links.places import GpuPlaces, NodeDistance, place_points, places_of, used_first


class LinkPolicy(StrEnum):
    """How GPUs are chosen. The static ones have lists of sets for machines whose links never change."""

    BEST_EFFORT = "best-effort"
    SIMPLE = "simple"
    STATIC_DGX1_PASCAL = "static-dgx1-pascal"
    STATIC_DGX1_VOLTA = "static-dgx1-volta"
    STATIC_DGX2 = "static-dgx2"


StaticSets = Mapping[int, tuple[tuple[int, ...], ...]]


def _neighbours(gpus: int, sizes: Sequence[int]) -> StaticSets:
    return {size: tuple(tuple(range(first, first + size)) for first in range(0, gpus, size)) for size in sizes}


# The sets of each size, of which the first free one is given. Source: staticdgx_policies.go of go-gpuallocator.
_DGX1 = _neighbours(8, (1, 2, 4, 8))
STATIC_SETS: Mapping[LinkPolicy, StaticSets] = {
    LinkPolicy.STATIC_DGX1_PASCAL: {**_DGX1, 2: ((0, 2), (1, 3), (4, 6), (5, 7))},
    LinkPolicy.STATIC_DGX1_VOLTA: {**_DGX1, 2: ((0, 3), (1, 2), (4, 7), (5, 6))},
    LinkPolicy.STATIC_DGX2: _neighbours(16, (1, 2, 4, 8, 16)),
}


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How to choose.

    ``from_all_cuts``: best-effort takes the best set of all cuts with the greatest total, instead of the first of them.
    ``spares_links``: a single GPU is the one whose links to the other free ones are worth least, instead of the first.
    """

    policy: LinkPolicy = LinkPolicy.BEST_EFFORT
    mode: LinkMode = LinkMode.SUM
    from_all_cuts: bool = False
    spares_links: bool = False


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A number of GPUs out of the available ones, with the required ones among them; None: all are available.

    ``places`` decide between sets with links that are worth as much; None: as the matrix tells them, {}: numbers alone
    do. ``distance`` is that of their nodes, None where it is not known.
    """

    size: int
    available: frozenset[int] | None = None
    required: frozenset[int] = frozenset()
    places: GpuPlaces | None = None
    distance: NodeDistance | None = None


@dataclass(frozen=True, slots=True)
class GpuAllocation:
    """The GPUs by index, ascending, and the points of their pairs; none where ``rejected`` is why.

    ``total`` is that of the cut they are a set of, None where the policy makes none; ``is_optimal``: no cut has more.
    ``nearness`` compares sets with the same score: more is nearer.
    """

    devices: tuple[int, ...]
    score: int = 0
    total: int | None = None
    is_optimal: bool = True
    rejected: str = ""
    nearness: int = 0


def allocate(matrix: LinkMatrix, request: GpuRequest, options: LinkOptions = LinkOptions()) -> GpuAllocation:
    """Return the GPUs of a request. Raises LinkError for an available GPU that the matrix does not have."""
    if unknown := sorted((request.available or frozenset()) - matrix.indices):
        known = ", ".join(map(str, sorted(matrix.indices))) or "none"
        raise LinkError(0, 0, f"GPU{unknown[0]}", f"available, but not in the matrix, which has {known}")
    places = places_of(matrix) if request.places is None else request.places
    available = sorted(matrix.indices if request.available is None else request.available)
    if options.policy is LinkPolicy.BEST_EFFORT:
        # The other policies are go-gpuallocator's own, and take GPUs by their numbers.
        available = used_first(places, available)
    if problem := _problem(request, available):
        return GpuAllocation((), rejected=problem)
    points = points_between(matrix, available, options.mode)
    if options.policy in STATIC_SETS:
        return _static(options.policy, request, available, points)
    required = frozenset(available.index(gpu) for gpu in request.required)
    if options.policy is LinkPolicy.SIMPLE or request.size == 1:
        is_simple = options.policy is LinkPolicy.SIMPLE
        # A GPU whose links are down has the fewest that others miss: without this it would be given first.
        last = frozenset() if is_simple else cut_off(matrix)
        spares_links = options.spares_links and not is_simple
        return _first(available, points, request.size, required, spares_links=spares_links, last=last)
    near = place_points(places, available, request.distance)
    # One sum for both, in which nearness decides only between sets whose links are worth as much.
    outweighs = 1 + sum(map(sum, near))
    both = [[a * outweighs + b for a, b in zip(*rows, strict=True)] for rows in zip(points, near, strict=True)]
    found, is_optimal = _best_effort(both, request.size, required, options)
    score, nearness = divmod(found.score, outweighs)
    devices = tuple(sorted(available[i] for i in found.members))
    return GpuAllocation(devices, score, found.total // outweighs, is_optimal, nearness=nearness)


def _problem(request: GpuRequest, available: Sequence[int]) -> str:
    """Return why no GPUs can be given; empty: some can."""
    if request.size <= 0:
        return f"size: {request.size} requested; ask for at least 1"
    if request.size > len(available):
        return f"size: {request.size} requested, {len(available)} available; ask for fewer or wait until more are free"
    if missing := sorted(request.required.difference(available)):
        return f"required: GPU{missing[0]} is not available"
    if len(request.required) > request.size:
        return f"required: {len(request.required)} GPUs, and only {request.size} requested; ask for as many"
    return ""


def _static(policy: LinkPolicy, request: GpuRequest, available: Sequence[int], points: PairPoints) -> GpuAllocation:
    sets = STATIC_SETS[policy]
    if request.size not in sets:
        sizes = ", ".join(map(str, sets))
        return GpuAllocation((), rejected=f"size: {request.size} requested; {policy} has sets of {sizes}")
    for members in sets[request.size]:
        if request.required <= frozenset(members) <= frozenset(available):
            return GpuAllocation(members, set_points(points, [available.index(gpu) for gpu in members]))
    having = " with all that is required" if request.required else ""
    rejected = f"size: no set of {request.size} of {policy}{having} is available; take the policy best-effort"
    return GpuAllocation((), rejected=rejected)


def _first(
    available: Sequence[int],
    points: PairPoints,
    size: int,
    required: frozenset[int],
    *,
    spares_links: bool,
    last: frozenset[int],
) -> GpuAllocation:
    """Return what is required and the first others, or those with the fewest points to what is available.

    ``last`` are the GPUs that come after all others.
    """

    def rank(i: int) -> tuple[bool, bool, int, int]:
        return i not in required, available[i] in last, sum(points[i]) if spares_links else 0, i

    order = sorted(range(len(available)), key=rank)
    members = sorted(order[:size])
    return GpuAllocation(tuple(sorted(available[i] for i in members)), set_points(points, members))


def _best_effort(
    points: PairPoints, size: int, required: frozenset[int], options: LinkOptions
) -> tuple[ChosenSet, bool]:
    """Return the set, and whether its cut is proved to be one of the best."""
    try:
        return best_set(points, size, required, from_all_cuts=options.from_all_cuts), True
    except TooManySets:
        return swapped_set(points, size, required), False
