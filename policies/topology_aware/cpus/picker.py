"""Pick N free CPUs of a pool by walking the hardware tree: tightest domain first, few cores broken, within limits.

A domain that can give all that is wanted is preferred over several (``_fit_key``). CPUs of the preferred priority are
tried first. Each pool below gives at most its limit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from policies.hardware.domains import Domain, Level
from policies.hardware.pools import Pool, PoolTree
from policies.preferences import CpuPriority
from policies.topology_aware.cpus.cores import core_sizes
from policies.topology_aware.cpus.spread import Spread, inner_domains
from policies.topology_aware.cpus.tallies import Cost, Tallies, tallies_of


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


def pick_cpus(candidates: CandidateCpus, pool: Pool, count: int) -> int:
    """Return ``count`` CPUs of the pool as a mask, or 0 if the pool cannot give that many.

    CPUs of different priority or kind are not mixed if one kind can serve the request alone.
    """
    top = _domain_of(candidates.tree.domains.root, pool)
    return next(filter(None, (_pick_sizes(part, top, pool, count) for part in _preferred(candidates, pool, count))), 0)


def least_cost(candidates: CandidateCpus, pool: Pool, count: int) -> Cost | None:
    """Return what the CPUs would cost that ``pick_cpus`` picks; None if the pool cannot give that many."""
    top = _domain_of(candidates.tree.domains.root, pool)
    costs = (_spread(part, _tallies(part, top, pool), top).least(count) for part in _preferred(candidates, pool, count))
    return next(filter(None, costs), None)


def spans(tree: PoolTree, pool: Pool) -> bool:
    """Return whether the pool has several domains down to L3 domains, so that CPUs can be on more of them than one."""
    return bool(pool.children or inner_domains(_domain_of(tree.domains.root, pool), Level.L3))


def _preferred(candidates: CandidateCpus, pool: Pool, count: int) -> Iterator[CandidateCpus]:
    """Yield the candidates of the pool, those of the preferred priority first, as far as they are enough."""
    for preferred in candidates.tree.priority_masks[candidates.priority]:
        part = replace(candidates, free=candidates.free & pool.cpus & preferred)
        if part.free.bit_count() >= count:
            yield part


def _tallies(candidates: CandidateCpus, top: Domain, pool: Pool) -> Tallies:
    return tallies_of(candidates.tree, top, pool, candidates.free, candidates.limits)


def _spread(candidates: CandidateCpus, tallies: Tallies, domain: Domain) -> Spread:
    return Spread(candidates.tree.machine, tallies, domain, candidates.near)


def _pick_sizes(candidates: CandidateCpus, top: Domain, pool: Pool, count: int) -> int:
    """Pick CPUs of any cores, or whole cores: those with the most threads first, smaller ones for the rest.

    Cores of one size are picked like CPUs, with limits that are multiples of the size.
    """
    taken = 0
    # Cores of hybrid CPUs have one or two threads: large ones first, as small ones fill any rest.
    for size, cores in core_sizes(candidates.tree, candidates.free) if candidates.whole else ((1, candidates.free),):
        left = reduced(candidates.tree, candidates.limits, taken)
        part = replace(candidates, free=cores, limits=[n - n % size for n in left], near=candidates.near | taken)
        tallies = _tallies(part, top, pool)
        wanted = min(tallies.give[top.index], count - count % size)
        taken |= _pick(part, tallies, top, wanted)
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


def _pick(candidates: CandidateCpus, tallies: Tallies, domain: Domain, count: int) -> int:
    give, free = tallies.give, domain.cpus & candidates.free
    # Nothing to choose: no walk core by core.
    if free.bit_count() == count:
        return free
    if domain.level is Level.CORE:
        return _lowest(free, count)
    spread = _spread(candidates, tallies, domain)
    alone = [leaf for leaf in spread.leaves if all(give[i] >= count for i in leaf.path)]
    # What lies near comes first, also where a domain elsewhere could give all.
    if candidates.near & domain.cpus and not any(leaf.is_near for leaf in alone):
        alone = []
    # A walk domain by domain would use more packages, nodes and caches than necessary.
    if len(spread.leaves) > 1 and not alone:
        return sum(_pick(candidates, tallies, leaf, share) for leaf, share in spread.shares(count))
    taken = 0
    rest = [c for c in domain.children if give[c.index]]
    most = max((give[c.index] for c in rest), default=0)
    if count > most:
        rest.sort(key=lambda c: _spill_key(candidates, tallies, c), reverse=True)  # the last one is taken next
    while count and rest:
        fitting = [c for c in rest if give[c.index] >= count] if count <= most else ()
        if fitting:
            best = min(fitting, key=lambda c: _fit_key(candidates, tallies, c, count))
            return taken | _pick(candidates, tallies, best, count)
        best = rest.pop()
        taken |= _pick(candidates, tallies, best, give[best.index])
        count -= give[best.index]
    return taken


def _fit_key(candidates: CandidateCpus, tallies: Tallies, domain: Domain, count: int) -> tuple[int, ...]:
    """Return the order of domains that can give all.

    Most near CPUs; the smallest domain that can give all; fewest threads on cores shared with others, no idle core
    broken for them; smallest remainder; lowest.
    """
    return (
        -(domain.cpus & candidates.near).bit_count(),
        _tightest(tallies, domain, count),
        *tallies.siblings_cost(domain, count),
        tallies.give[domain.index] - count,
        domain.index,
    )


def _tightest(tallies: Tallies, domain: Domain, count: int) -> int:
    """Return the size of the smallest domain in here that can give all: a whole NUMA node before halves of two."""
    inner = [_tightest(tallies, c, count) for c in domain.children if tallies.give[c.index] >= count]
    return min(inner, default=domain.cpus.bit_count())


def _spill_key(candidates: CandidateCpus, tallies: Tallies, domain: Domain) -> tuple[int, ...]:
    """Return the order of cores to take whole if none can give all: near, wholly idle, largest, not beside reserved."""
    give, near = tallies.give[domain.index], (domain.cpus & candidates.near).bit_count()
    beside_reserved = not tallies.whole[domain.index] and not tallies.loose[domain.index]
    return -near, int(give < domain.cpus.bit_count()), int(beside_reserved), -give, domain.index


def _lowest(mask: int, count: int) -> int:
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken
