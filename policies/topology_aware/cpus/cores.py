"""Whole cores: which are wholly free, how many CPUs on them pools can give, and which CPUs complete owned cores."""

from collections.abc import Sequence

from policies.hardware.pools import PoolTree
from policies.hardware.siblings import siblings_of
from policies.topology_aware.cpus.tallies import siblings_cost


def on_free_cores(tree: PoolTree, free: int) -> int:
    """Return the CPUs of ``free`` whose core has all of its online threads in it."""
    return _whole_cores(tree, free)[0]


def siblings_costs(tree: PoolTree, free: int, count: int) -> tuple[tuple[int, int], ...]:
    """Return per pool the last fields of ``Cost`` for ``count`` of the free CPUs, as far as no pool has a limit."""
    whole, threads = _whole_cores(tree, free)
    loose = free & ~whole & ~tree.beside_reserved
    return tuple(
        siblings_cost(count, (p.cpus & whole).bit_count(), (p.cpus & loose).bit_count(), threads) for p in tree.pools
    )


def _whole_cores(tree: PoolTree, free: int) -> tuple[int, int]:
    """Return the CPUs of ``free`` on wholly free cores, and the most threads of one of these cores; 1 without any."""
    if tree.smallest_core < tree.threads_per_core:
        cores = [core for core in tree.cores if not core & ~free]
        return sum(cores), max(map(int.bit_count, cores), default=1)
    # Cores are alike on most machines: by the masks of siblings, not core by core.
    whole = free & tree.in_cores & ~siblings_of(tree.sibling_shifts, tree.machine.online.mask & ~free)
    return whole, tree.threads_per_core if whole else 1


def inner_on_cores(tree: PoolTree, free: int, give: Sequence[int]) -> tuple[int, ...]:
    """Return per pool how many CPUs its subtree can give up as whole cores; ``give`` bounds the pools below.

    ``free`` are CPUs on wholly free cores. A bound that would break a core is rounded down.
    """
    inner = [0] * len(tree.pools)
    for pool in reversed(tree.pools):
        i = pool.index
        inner[i] += (pool.loose & free).bit_count()
        if pool.parent >= 0:
            inner[pool.parent] += min(inner[i], give[i] - give[i] % smallest_core(tree, pool.cpus & free))
    return tuple(inner)


def smallest_core(tree: PoolTree, free: int) -> int:
    """Return the threads of the smallest core in ``free``, of which no core is only a part; 1 if there is none."""
    if tree.smallest_core == tree.threads_per_core:
        return tree.threads_per_core
    return min((core.bit_count() for core in tree.cores if core & free), default=1)


def core_sizes(tree: PoolTree, free: int) -> tuple[tuple[int, int], ...]:
    """Return (threads, mask of the wholly free cores with that number), most threads first."""
    by_size: dict[int, int] = {}
    for core in tree.cores:
        if not core & ~free:
            by_size[core.bit_count()] = by_size.get(core.bit_count(), 0) | core
    return tuple(sorted(by_size.items(), reverse=True))


def completing(tree: PoolTree, own: int, free: int, count: int) -> int:
    """Return at most ``count`` CPUs of ``free`` that complete cores of which the rest is ``own`` already."""
    result = 0
    for core in tree.cores:
        part = core & free
        if core & own and part and not core & ~(own | part) and (result | part).bit_count() <= count:
            result |= part
    return result
