"""Pick N free CPUs of a pool by walking the hardware tree: tightest domain first, few cores broken, within limits.

A domain that can give all that is wanted is preferred over several (``_fit_key``). CPUs of the preferred priority are
tried first. Each pool below gives at most its limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policies.base import CpuPriority
from policies.hardware.domains import Domain, Level
from policies.hardware.pools import Pool, PoolTree
from policies.topology_aware.cpus.cores import core_sizes
from policies.topology_aware.cpus.spread import Spread, leaves_below


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
    """Return ``count`` CPUs of the pool as a mask, or 0 if the pool cannot give that many.

    CPUs of different priority or kind are not mixed if one kind can serve the request alone.
    """
    top = _domain_of(candidates.tree.domains.root, pool)
    for preferred in candidates.tree.priority_masks[candidates.priority]:
        part = replace(candidates, free=candidates.free & pool.cpus & preferred)
        if part.free.bit_count() < count:
            continue
        found = _pick_sizes(part, top, pool, count)
        if found:
            return found
    return 0


def _pick_sizes(candidates: CandidateCpus, top: Domain, pool: Pool, count: int) -> int:
    """Pick CPUs of any cores, or whole cores: those with the most threads first, smaller ones for the rest.

    Cores of one size are picked like CPUs, with limits that are multiples of the size.
    """
    taken = 0
    for size, cores in core_sizes(candidates.tree, candidates.free) if candidates.whole else ((1, candidates.free),):
        left = reduced(candidates.tree, candidates.limits, taken)
        part = replace(candidates, free=cores, limits=[n - n % size for n in left], near=candidates.near | taken)
        counts = _counts(part, top, pool)
        wanted = min(counts.give[top.index], count - count % size)
        taken |= _pick(part, counts, top, wanted)
        count -= wanted
    return 0 if count else taken


def reduced(tree: PoolTree, limits: Sequence[int], taken: int) -> Sequence[int]:
    """Return the limits that remain once these CPUs are taken."""
    if not taken:
        return limits
    return [n - (taken & p.cpus).bit_count() for n, p in zip(limits, tree.pools, strict=True)]


def priority_fits(tree: PoolTree, free: int, count: int, priority: CpuPriority) -> tuple[int, ...]:
    """Return per pool 1 if it can give ``count`` of the ``free`` CPUs that this priority prefers, else 0.

    1 everywhere without a priority, or if all CPUs of the machine are alike.
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
        if not taken and (spread := spread_over(candidates, counts, domain)) is not None:
            return sum(_pick(candidates, counts, leaf, share) for leaf, share in spread.shares(count))
        best = min(rest, key=lambda c: _spill_key(candidates, counts, c))
        rest.remove(best)
        taken |= _pick(candidates, counts, best, counts.give[best.index])
        count -= counts.give[best.index]
    return taken


def _fit_key(candidates: CandidateCpus, counts: _Counts, domain: Domain, count: int) -> tuple[int, ...]:
    """Return the order of domains that can give all.

    Most near CPUs; the smallest domain that can give all; fewest cores shared with others afterwards; no idle core
    broken; smallest remainder; lowest.
    """
    give, whole = counts.give[domain.index], min(counts.whole[domain.index], counts.give[domain.index])
    cores = min(count, whole) // counts.threads
    odd = count - cores * counts.threads
    shared_cores = 1 if odd and whole > cores * counts.threads else odd
    return (
        -(domain.cpus & candidates.near).bit_count(),
        _tightest(counts, domain, count),
        shared_cores,
        int(odd > give - whole),  # more than the threads of broken cores
        give - count,
        domain.index,
    )


def spread_over(candidates: CandidateCpus, counts: _Counts, domain: Domain) -> Spread | None:
    """Return the leaves of a domain; None if it has no domains inside but cores."""
    leaves = leaves_below(domain, counts.give, counts.whole, candidates.near, candidates.free)
    return Spread(candidates.tree.machine, leaves, counts.give, counts.threads) if len(leaves) > 1 else None


def _tightest(counts: _Counts, domain: Domain, count: int) -> int:
    """Return the size of the smallest domain in here that can give all: a whole NUMA node before halves of two."""
    inner = [_tightest(counts, c, count) for c in domain.children if counts.give[c.index] >= count]
    return min(inner, default=domain.cpus.bit_count())


def _spill_key(candidates: CandidateCpus, counts: _Counts, domain: Domain) -> tuple[int, ...]:
    """Return the order of domains to take whole if none can give all: near, wholly idle, largest, lowest."""
    give, near = counts.give[domain.index], (domain.cpus & candidates.near).bit_count()
    return -near, int(give < domain.cpus.bit_count()), -give, domain.index


def _lowest(mask: int, count: int) -> int:
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken
