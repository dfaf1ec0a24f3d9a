import random

from policies.base import Affinity, CpuKind, Expression, Grant
from policies.topology_aware.supply.affinity_matches import MOST_KEPT, AffinityMatches
from tests.unit.policies.build import four_nodes, request, tree_of

TREE = tree_of(four_nodes())
POOLS = [pool.name for pool in TREE.pools]
ANYWHERE = Expression("name", "AlwaysTrue")


def sits(number: int, pool: str, kind: CpuKind = CpuKind.SHARED) -> Grant:
    return Grant(request(f"p{number:03}/c{number % 3}"), pool, kind)


def wish(container: str, scope: Expression | None = ANYWHERE) -> Affinity:
    return Affinity(Expression("name", "Equals", (container,)), 1, scope)


def counted(matches: AffinityMatches, affinity: Affinity, *others: Grant) -> dict[str, int]:
    (counts,) = matches.by_pool([affinity], others)
    return {POOLS[pool]: count for pool, count in counts.items()}


def test_containers_are_counted_by_pool_where_scope_and_match_hold() -> None:
    others = sits(0, "NUMA node #1"), sits(1, "NUMA node #1"), sits(3, "NUMA node #1"), sits(6, "root")
    assert counted(AffinityMatches(TREE), wish("c0"), *others) == {"NUMA node #1": 2, "root": 1}
    first = wish("c0", Expression("pod/name", "In", ("p003", "p001")))
    assert counted(AffinityMatches(TREE), first, *others) == {"NUMA node #1": 1}


def test_reserved_and_preserved_containers_are_in_no_pool() -> None:
    others = sits(0, "root", CpuKind.RESERVED), sits(3, "", CpuKind.PRESERVE)
    assert counted(AffinityMatches(TREE), wish("c0"), *others) == {}


def test_what_was_counted_before_changes_nothing() -> None:
    """Random steps, each asking for some of a few affinities beside other grants than the step before."""
    rng, kept = random.Random(1), AffinityMatches(TREE)
    affinities = [wish(f"c{n}", scope) for n in range(3) for scope in (ANYWHERE, Expression("namespace", "Exists"))]
    others: tuple[Grant, ...] = ()
    for number in range(200):
        left = [grant for grant in others if rng.random() < 0.9]
        others = tuple(sorted([*left, sits(number, rng.choice(POOLS))], key=lambda grant: grant.container))
        asked = rng.sample(affinities, rng.randint(1, 4))
        assert kept.by_pool(asked, others) == AffinityMatches(TREE).by_pool(asked, others)


def test_counts_are_kept_of_a_bounded_number_of_affinities() -> None:
    matches, others = AffinityMatches(TREE), (sits(0, "root"),)
    for number in range(3 * MOST_KEPT):
        matches.by_pool([wish(f"x{number}")], others)
    assert len(matches._last) == MOST_KEPT
