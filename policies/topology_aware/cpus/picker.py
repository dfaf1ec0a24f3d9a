"""Pick CPUs of a pool, packed: whole idle domains first, whole cores next, threads of broken cores last.

Walks the hardware tree inside the pool. A domain that can give all that is wanted is preferred over several; among
such, the one that has the smallest domain that can, then where fewer cores are shared with others afterwards, then
where fewer idle cores are broken, then with the smallest remainder, then the lowest. How much each pool below may
give is a bound (``limits``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policies.base import CpuPriority
from policies.hardware.domains import Domain, Level
from policies.hardware.pools import Pool, PoolTree
from policies.topology_aware.cpus.cores import core_sizes


@dataclass(frozen=True, slots=True)
class CandidateCpus:
    """CPUs that may be picked: ``free`` ones, at most ``limits[i]`` of pool i; ``near`` are CPUs to stay close to.

    ``whole``: only cores of which every online thread is free, and all threads of them.
    """

    tree: PoolTree
    free: int
    limits: Sequence[int]
    near: int = 0
    priority: CpuPriority = CpuPriority.NONE
    whole: bool = False


@dataclass(frozen=True, slots=True)
class _Counts:
    """Per domain: CPUs that can be given, those on wholly free cores, and the threads of such a core."""

    give: list[int]
    whole: list[int]
    threads: int


def pick_cpus(candidates: CandidateCpus, pool: Pool, count: int) -> int:
    """Return ``count`` CPUs of the pool as a mask, or 0 when the pool cannot give that many.

    CPUs of different priority or kind are not mixed where one part can serve the request alone.
    """
    top = _domain_of(candidates.tree.domains.root, pool)
    for preferred in candidates.tree.priority_masks[candidates.priority]:
        part = replace(candidates, free=candidates.free & pool.cpus & preferred)
        if part.free.bit_count() < count:
            continue
        found = _pick_cores(part, top, pool, count) if candidates.whole else _pick_any(part, top, pool, count)
        if found:
            return found
    return 0


def _pick_any(candidates: CandidateCpus, top: Domain, pool: Pool, count: int) -> int:
    counts = _counts(candidates, top, pool)
    return _pick(candidates, counts, top, count) if counts.give[top.index] >= count else 0


def _pick_cores(candidates: CandidateCpus, top: Domain, pool: Pool, count: int) -> int:
    """Pick whole cores, those with the most threads first: smaller ones serve only a rest that larger ones exceed.

    Cores of one size are picked like CPUs, with limits that are multiples of the size.
    """
    taken = 0
    for size, cores in core_sizes(candidates.tree, candidates.free):
        left = reduced(candidates.tree, candidates.limits, taken)
        part = replace(candidates, free=cores, limits=[n - n % size for n in left], near=candidates.near | taken)
        counts = _counts(part, top, pool)
        wanted = min(counts.give[top.index], count - count % size)
        taken |= _pick(part, counts, top, wanted)
        count -= wanted
    return 0 if count else taken


def reduced(tree: PoolTree, limits: Sequence[int], taken: int) -> Sequence[int]:
    """Return what is left of the limits when these CPUs have been taken."""
    if not taken:
        return limits
    return [n - (taken & p.cpus).bit_count() for n, p in zip(limits, tree.pools, strict=True)]


def priority_fits(tree: PoolTree, free: int, count: int, priority: CpuPriority) -> tuple[int, ...]:
    """Return per pool 1 if it can give so many of the ``free`` CPUs from those that this priority prefers, else 0.

    1 everywhere without a priority, and where all CPUs of the machine are alike.
    """
    preferred = tree.priority_masks[priority]
    if priority is CpuPriority.NONE or len(preferred) == 1:
        return (1,) * len(tree.pools)
    return tuple(int((pool.cpus & free & preferred[0]).bit_count() >= count) for pool in tree.pools)


def within_limits(tree: PoolTree, pool: Pool, cpus: int, limits: Sequence[int]) -> bool:
    """Return whether no pool below this one would have to give more than it may."""
    return all((cpus & tree.pools[i].cpus).bit_count() <= limits[i] for i in range(pool.index + 1, pool.end))


def _domain_of(domain: Domain, pool: Pool) -> Domain:
    while domain.cpus != pool.hardware:
        domain = next(c for c in domain.children if not pool.hardware & ~c.cpus)
    return domain


def _counts(candidates: CandidateCpus, top: Domain, pool: Pool) -> _Counts:
    give = [0] * candidates.tree.domains.count
    whole = [0] * candidates.tree.domains.count
    by_hardware = candidates.tree.by_hardware
    threads = 1

    def visit(domain: Domain) -> None:
        nonlocal threads
        i, free = domain.index, domain.cpus & candidates.free
        if not free:
            return
        if domain.level is Level.CORE:
            give[i] = free.bit_count()
            if free == domain.cpus:
                whole[i] = give[i]
                threads = max(threads, give[i])
        else:
            for child in domain.children:
                visit(child)
                give[i] += give[child.index]
                whole[i] += whole[child.index]
        owner = by_hardware.get(domain.cpus)
        if owner is not None and owner != pool.index:
            give[i] = min(give[i], candidates.limits[owner])

    visit(top)
    return _Counts(give, whole, threads)


def _pick(candidates: CandidateCpus, counts: _Counts, domain: Domain, count: int) -> int:
    if domain.level is Level.CORE:
        return _lowest(domain.cpus & candidates.free, count)
    taken = 0
    rest = [c for c in domain.children if counts.give[c.index]]
    while count and rest:
        fitting = [c for c in rest if counts.give[c.index] >= count]
        if fitting:
            best = min(fitting, key=lambda c: _fit_key(candidates, counts, c, count))
            return taken | _pick(candidates, counts, best, count)
        best = min(rest, key=lambda c: _spill_key(candidates, counts, c))
        rest.remove(best)
        taken |= _pick(candidates, counts, best, counts.give[best.index])
        count -= counts.give[best.index]
    return taken


def _fit_key(
    candidates: CandidateCpus, counts: _Counts, domain: Domain, count: int
) -> tuple[int, int, int, int, int, int]:
    """Return the order of domains that can give all.

    Near, tight, few cores shared with others, few broken, small remainder, low.
    """
    give, whole = counts.give[domain.index], min(counts.whole[domain.index], counts.give[domain.index])
    cores = min(count, whole) // counts.threads
    odd = count - cores * counts.threads
    broken_threads = give - whole
    must_break = odd > broken_threads
    shared_cores = 1 if odd and whole > cores * counts.threads else odd
    return (
        -(domain.cpus & candidates.near).bit_count(),
        _tightest(counts, domain, count),
        shared_cores,
        int(must_break),
        give - count,
        domain.index,
    )


def _tightest(counts: _Counts, domain: Domain, count: int) -> int:
    """Return the size of the smallest domain in here that can give all: a whole NUMA node before halves of two."""
    inner = [_tightest(counts, c, count) for c in domain.children if counts.give[c.index] >= count]
    return min(inner, default=domain.cpus.bit_count())


def _spill_key(candidates: CandidateCpus, counts: _Counts, domain: Domain) -> tuple[int, int, int, int]:
    """Return the order of domains to take as a whole where none can give all: near, wholly idle, largest, lowest."""
    give = counts.give[domain.index]
    return (
        -(domain.cpus & candidates.near).bit_count(),
        int(give < domain.cpus.bit_count()),
        -give,
        domain.index,
    )


def _lowest(mask: int, count: int) -> int:
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken
