import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.base import CpuKind, Grant
from policies.topology_aware.supply.supply import Supply, givable, room_of, updated_supply
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import BURSTABLE, four_nodes, request, supply_of, tree_of

TREE = tree_of(four_nodes(isolated="3"), "0")
NODE0, NODE1, ROOT = "NUMA node #0", "NUMA node #1", "root"


def shared(name: str, pool: str, mcpu: int) -> Grant:
    return Grant(request(name, mcpu), pool, CpuKind.SHARED, shared_mcpu=mcpu)


def owned(name: str, pool: str, cpus: str) -> Grant:
    return Grant(request(name), pool, CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(cpus))


ON_RESERVED = Grant(request("s/c", 500), ROOT, CpuKind.RESERVED, reserved_mcpu=500)


def at(values: tuple[int, ...], pool: str) -> int:
    return values[TREE.named(pool).index]


def test_owned_cpus_leave_the_shared_sets_of_the_whole_tree() -> None:
    supply = supply_of(TREE, owned("a/c", "socket #0", "1,4"))
    assert str(CpuSet(at(supply.shared, NODE0))) == "2"
    assert str(CpuSet(at(supply.shared, NODE1))) == "5-7"
    assert str(CpuSet(at(supply.shared, ROOT))) == "2,5-15"


def test_shares_are_summed_up_the_tree() -> None:
    supply = supply_of(TREE, shared("a/c", NODE0, 500), shared("b/c", "socket #0", 250), shared("c/c", ROOT, 100))
    assert [at(supply.granted_mcpu, p) for p in (NODE0, NODE1, "socket #0", ROOT)] == [500, 0, 750, 850]


def test_sharers_without_a_share_are_counted_in_their_own_pool() -> None:
    mixed = replace(owned("c/c", NODE1, "4"), kind=CpuKind.MIXED, shared_mcpu=500)
    alone = (Grant(request("p/c", preserve_cpu=True), "", CpuKind.PRESERVE), owned("d/c", NODE1, "5"))
    supply = supply_of(TREE, *alone, ON_RESERVED, shared("a/c", NODE1, 0), shared("b/c", NODE1, 0), mixed)
    assert [at(supply.unbooked_sharers, pool) for pool in (NODE1, "socket #0")] == [2, 0]
    assert (supply.reserved_users, str(CpuSet(supply.owned))) == (1, "4-5")


def test_what_is_booked_on_the_reserved_cpus_is_summed_up() -> None:
    overflowed = replace(shared("a/c", NODE1, 700), reserved_mcpu=700)
    supply = supply_of(TREE, ON_RESERVED, overflowed)
    assert (supply.reserved_mcpu, supply.reserved_free_mcpu()) == (500, 500)
    assert supply.minus(ON_RESERVED).reserved_free_mcpu() == 1000


def test_an_owner_takes_from_limits_in_its_pool_and_in_wider_ones() -> None:
    two, four, six = (
        Grant(request(f"{n}/c", 100, BURSTABLE, cpu_limit_mcpu=limit), pool, CpuKind.SHARED, shared_mcpu=100)
        for n, limit, pool in ((2, 1600, NODE1), (4, 4000, NODE1), (6, 6000, "socket #0"))
    )
    supply = supply_of(TREE, two, four, six)
    node = TREE.named(NODE1).index

    def squeezed(supply: Supply, owned: int) -> int:
        path = TREE.pools[node].path
        return sum(supply.squeezed_here(pool, owned, with_unlimited=False) for pool in path)

    assert [squeezed(supply, owned) for owned in (1, 2, 3)] == [2, 4, 7]
    assert squeezed(supply.minus(four, six), 2) == 0


def test_free_capacity_is_bounded_by_every_pool_above() -> None:
    room = room_of(supply_of(TREE, shared("a/c", "socket #0", 5000)), keep_busy=True)
    assert at(room.free_mcpu, NODE1) == 1000  # 4000 of its own, but the package of 6 sharable CPUs owes 5000
    room = room_of(supply_of(TREE, shared("a/c", ROOT, 13500)), keep_busy=True)
    assert set(room.free_mcpu) == {500}  # the machine has 14 sharable CPUs


def test_a_busy_pool_keeps_a_cpu_of_those_below_it() -> None:
    supply = supply_of(TREE, owned("a/c", "socket #1", "8-15"), shared("b/c", ROOT, 0))
    assert at(room_of(supply, keep_busy=True).spare, "socket #0") == 5
    assert at(room_of(supply, keep_busy=False).spare, "socket #0") == 6


def test_a_pool_gives_no_cpu_that_a_share_below_it_needs() -> None:
    grants = [shared(f"{n}/c", f"NUMA node #{n}", 500) for n in range(4)]
    assert at(room_of(supply_of(TREE, *grants), keep_busy=True).inner, ROOT) == 1 + 3 + 3 + 3


def test_a_busy_pool_keeps_a_cpu_only_under_the_rule_that_says_so() -> None:
    supply = supply_of(TREE, shared("a/c", NODE1, 0))
    assert at(room_of(supply, keep_busy=True).give, NODE1) == 3
    assert at(room_of(supply, keep_busy=False).give, NODE1) == 4


def test_an_idle_pool_gives_its_last_cpu() -> None:
    assert at(room_of(supply_of(TREE), keep_busy=True).give, NODE1) == 4


def test_the_last_cpu_of_a_machine_without_reserved_ones_stays_while_someone_needs_it() -> None:
    tree = tree_of(four_nodes())
    assert room_of(supply_of(tree, shared("a/c", NODE1, 0)), keep_busy=False).give[:2] == (15, 8)
    assert room_of(supply_of(tree, ON_RESERVED), keep_busy=False).give[:2] == (15, 8)
    assert room_of(supply_of(tree), keep_busy=False).give[:2] == (16, 8)


def test_withheld_cpus_are_shared_but_not_given() -> None:
    supply = supply_of(TREE, withheld="4-6")
    assert str(CpuSet(at(supply.shared, NODE1))) == "4-7"
    assert at(room_of(supply, keep_busy=True).give, NODE1) == 1


def test_withheld_isolated_cpus_are_not_given_either() -> None:
    assert CpuSet(supply_of(TREE).free_isolated(0)) == CpuSet.parse("3")
    assert not supply_of(TREE, withheld="3").free_isolated(0)


def test_sharers_of_an_empty_set_use_the_nearest_one_above() -> None:
    assert str(CpuSet(at(supply_of(TREE, owned("a/c", NODE1, "4-7")).effective(), NODE1))) == "1-2"
    no_package = supply_of(TREE, owned("a/c", ROOT, "8-15")).effective()
    assert {str(CpuSet(at(no_package, pool))) for pool in ("socket #1", "NUMA node #3")} == {"1-2,4-7"}


def test_sharers_use_the_reserved_cpus_when_nothing_is_shared() -> None:
    supply = supply_of(TREE, owned("a/c", ROOT, "1-2,4-15"))
    assert {str(CpuSet(m)) for m in supply.effective()} == {"0"}


def test_what_does_not_cover_its_shares_does_not_hold() -> None:
    assert supply_of(TREE, shared("a/c", NODE0, 2000)).holds()
    assert not supply_of(TREE, shared("a/c", NODE0, 2001)).holds()
    assert not supply_of(TREE, shared("a/c", NODE0, 1500), owned("b/c", ROOT, "1")).holds()


def test_raised_shares_lower_what_a_pool_gives() -> None:
    supply = supply_of(TREE)
    granted = list(supply.granted_mcpu)
    granted[TREE.named(NODE1).index] = 1001
    _, give = givable(supply, granted, [0] * len(TREE.pools))
    assert give[TREE.named(NODE1).index] == 2


def test_someone_without_a_share_needs_a_cpu_that_nobody_owns() -> None:
    tree = tree_of(four_nodes())
    assert supply_of(tree, owned("a/c", ROOT, "0-14"), shared("b/c", ROOT, 0)).holds()
    assert not supply_of(tree, owned("a/c", ROOT, "0-15"), shared("b/c", ROOT, 0)).holds()


def random_grants(rng: random.Random) -> tuple[Grant, ...]:
    cpus = [c for c in range(1, 16) if c != 3 and rng.random() < 0.5]
    own = [owned(f"{c:02}/own", ROOT, str(c)) for c in cpus]
    shares = [shared(f"{i:02}/share", rng.choice(TREE.pools).name, rng.randrange(900)) for i in range(rng.randrange(9))]
    return tuple(sorted((_with_memory(g, rng) for g in own + shares), key=lambda g: g.container))


def _with_memory(grant: Grant, rng: random.Random) -> Grant:
    promised = replace(grant.request, memory_request_bytes=rng.randrange(3))
    return replace(grant, request=promised, mems=NodeSet(rng.randrange(16)))


def test_memory_is_counted_in_zones() -> None:
    promised = replace(request("a/c"), memory_request_bytes=5)
    grant = Grant(promised, NODE0, CpuKind.SHARED, mems=NodeSet.parse("0-1"))
    left_alone = Grant(replace(request("p/c", preserve_cpu=True), memory_request_bytes=3), "", CpuKind.PRESERVE)
    assert supply_of(TREE, grant, left_alone).memory.zones == ((0b11, 5), (0b1111, 3))
    assert supply_of(TREE, grant).minus(grant) == supply_of(TREE)


@given(st.integers(0, 1 << 32))
def test_following_a_change_gives_what_summing_up_gives(seed: int) -> None:
    rng = random.Random(seed)
    old = random_grants(rng)
    new = tuple(g for g in old if rng.random() < 0.8)
    assert updated_supply(supply_of(TREE, *old), old, new) == supply_of(TREE, *new)
    assert updated_supply(supply_of(TREE, *new), new, old) == supply_of(TREE, *old)


def test_grants_that_changed_their_place_in_the_order_are_booked_once() -> None:
    a, b, x = shared("a/c", NODE0, 100), shared("b/c", NODE1, 200), shared("x/c", ROOT, 400)
    for old, new in (((x, a), (a, b)), ((a, x), (b, a)), ((a, b, x), (a, x)), ((a, x), (a, b, x))):
        assert updated_supply(supply_of(TREE, *old), old, new) == supply_of(TREE, *new)


def test_every_cpu_may_be_owned_while_nobody_needs_one_to_share() -> None:
    all_owned = owned("a/c", ROOT, "1-2,4-15")
    assert supply_of(TREE, all_owned).holds()
    assert supply_of(TREE, all_owned, ON_RESERVED, shared("b/c", ROOT, 0)).holds()
