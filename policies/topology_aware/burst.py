"""How wide a pool suits a container that may use all CPU time it finds: a rank per pool (nri-plugins' burst levels)."""

from policies.base import BurstLevel
from policies.hardware.domains import Level
from policies.hardware.pools import KINDS, Pool, PoolTree

_LEVELS = {
    BurstLevel.SYSTEM: Level.ROOT,
    BurstLevel.PACKAGE: Level.PACKAGE,
    BurstLevel.DIE: Level.DIE,
    BurstLevel.NUMA: Level.NODE,
    BurstLevel.L3_CACHE: Level.L3,
}
_OF_KIND = {kind: level for level, kind in KINDS.items()}
# Any narrower pool is better than any wider one: there are fewer levels than this.
_WIDER = len(Level)


def burst_ranks(tree: PoolTree, wanted: BurstLevel | None) -> tuple[int, ...]:
    """Per pool, 0 at the wanted level, less the farther from it; a narrower pool beats a wider one. All 0 for None.

    A level that the machine lacks, or that was left out as an only child, is the pool that has its CPUs: on a
    machine with one package the root is the package too.
    """
    if wanted is None:
        return (0,) * len(tree.pools)
    return tuple(_rank(tree, pool, _LEVELS[wanted]) for pool in tree.pools)


def _rank(tree: PoolTree, pool: Pool, wanted: Level) -> int:
    widest = _OF_KIND[pool.kind]
    narrowest = _OF_KIND[tree.pools[pool.children[0]].kind] - 1 if pool.children else Level.L3
    if wanted < widest:
        return wanted - widest
    return min(0, narrowest - wanted - _WIDER) if wanted > narrowest else 0
