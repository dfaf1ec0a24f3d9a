from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Request
from policies.policy import BetterPlaces
from policies.preferences import BurstLevel
from policies.topology_aware.policy import TopologyAware
from policies.topology_aware.rebalance import LOOKED_AT
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    before,
    fill,
    four_nodes,
    placed,
    request,
    topology_aware,
    wish_for,
)
from tests.unit.policies.memory.build import GIB

POLICY = topology_aware(four_nodes())  # four nodes of four CPUs and 2 GiB


def burst(name: str, mcpu: int, limit_mcpu: int | None = None, **keys: object) -> Request:
    return request(name, mcpu, BURSTABLE, cpu_limit_mcpu=limit_mcpu or mcpu, **keys)


def idle(name: str, **keys: object) -> Request:
    """Best effort that is to be in a NUMA node."""
    return request(name, 0, BEST_EFFORT, burst_level=BurstLevel.NUMA, **keys)


def in_pool(wanted: Request, pool: str, mems: str, mcpu: int | None = None) -> Grant:
    """A grant that an earlier time has left there."""
    booked = wanted.cpu_request_mcpu if mcpu is None else mcpu
    return Grant(wanted, pool, CpuKind.SHARED, shared_mcpu=booked, mems=NodeSet.parse(mems))


def moves(policy: TopologyAware, held: Allocations, after: ContainerKey | None = None) -> dict[str, tuple[str, str]]:
    """Who moves: pool and memory nodes afterwards."""
    return {g.container.pod_uid: (g.pool, str(g.mems)) for g in policy.better_places(held, after).grants}


def test_a_container_that_was_lifted_comes_home() -> None:
    held = fill(POLICY, *(burst(f"s{n}/c", 500) for n in range(4)))
    lifted = placed(POLICY.decide(held, request("own/c", 14000)))
    assert {g.pool for g in lifted.moved} == {"socket #0", "socket #1"}
    back = POLICY.better_places(held.with_grants(*lifted.moved)).grants
    assert [g.container for g in back] == [g.container for g in lifted.moved][:2]
    assert all(grant.pool.startswith("NUMA node") for grant in back)


def test_its_memory_grows_first_and_is_narrowed_later() -> None:
    held = Allocations((in_pool(burst("a/c", 500), "root", "0-3"),))
    assert moves(POLICY, held) == {"a": ("NUMA node #0", "0-3")}
    there = held.with_grants(*POLICY.better_places(held).grants)
    assert [str(g.mems) for g in POLICY.narrowed(there)] == ["0"]


def test_one_that_grew_over_its_node_goes_to_one_with_room() -> None:
    other = in_pool(burst("b/c", 3500), "NUMA node #0", "0")
    grown = in_pool(burst("a/c", 1500), "socket #0", "0-1")
    assert moves(POLICY, Allocations((grown, other))) == {"a": ("NUMA node #2", "0-2")}


def test_one_that_is_squeezed_goes_where_its_limit_fits() -> None:
    here = [in_pool(burst(f"{name}/c", 1500, 4000), "NUMA node #0", "0") for name in "ab"]
    assert list(moves(POLICY, Allocations(tuple(here)))) == ["a"]


def limits_in_every_node(limit_mcpu: int) -> tuple[Grant, ...]:
    return tuple(in_pool(burst(f"x{n}/c", 500, limit_mcpu), f"NUMA node #{n}", str(n)) for n in range(4))


def test_one_with_a_larger_limit_keeps_no_other_from_its_node() -> None:
    small = in_pool(burst("a/c", 200), "root", "0-3")
    assert moves(POLICY, Allocations((small, *limits_in_every_node(4000))))["a"] == ("NUMA node #0", "0-3")


def test_crowded_ones_spread_without_changing_places_for_ever() -> None:
    crowd = [in_pool(idle(f"e{n}/c"), "NUMA node #0", "0") for n in range(8)]
    held, rounds = Allocations(tuple(crowd)), 0
    while found := POLICY.better_places(held).grants:
        held, rounds = held.with_grants(*found), rounds + 1
    assert sorted(sum(g.pool == f"NUMA node #{n}" for g in held.grants) for n in range(4)) == [1, 2, 2, 3]
    assert rounds == 3


def beside_owners(owned: str, *sharers: Grant) -> Allocations:
    """The sharers where owners have these CPUs, one in each node that is named."""
    owners = []
    for cpus in map(CpuSet.parse, owned.split()):
        n = min(cpus) // 4
        grant = in_pool(request(f"o{n}/c", 1000 * len(cpus)), f"NUMA node #{n}", str(n), 0)
        owners.append(replace(grant, kind=CpuKind.EXCLUSIVE, exclusive=cpus))
    return Allocations((*owners, *sharers))


def test_a_large_one_goes_to_quieter_cpus_though_it_crowds_a_small_one_which_leaves() -> None:
    large, small = in_pool(burst("s/c", 2000), "NUMA node #0", "0"), in_pool(idle("z/c"), "NUMA node #1", "1")
    held = beside_owners("0-1 4 8-11 12-15", large, small)
    assert moves(POLICY, held) == {"s": ("NUMA node #1", "0-1"), "z": ("NUMA node #0", "0-1")}


@pytest.mark.parametrize(("mcpu", "found"), [(900, {}), (1000, {"s": ("NUMA node #1", "0-1")})])
def test_one_of_less_than_a_cpu_crowds_no_other_for_quieter_cpus(mcpu: int, found: dict[str, tuple[str, str]]) -> None:
    policy = topology_aware(four_nodes(), moves_per_check=1)
    here = in_pool(burst("s/c", mcpu), "NUMA node #0", "0"), in_pool(burst("z/c", 600), "NUMA node #1", "1")
    assert moves(policy, beside_owners("0-2 4-5 8-10 12-14", *here)) == found


def test_a_large_one_does_not_come_where_large_ones_make_more_load() -> None:
    """Small ones are why it is quieter there, and they may move themselves."""
    small = [in_pool(idle(f"e{n:02}/c"), "NUMA node #0", "0") for n in range(14)]
    here = in_pool(burst("s/c", 1000), "NUMA node #0", "0"), in_pool(burst("y/c", 1000, 3000), "NUMA node #1", "1")
    held = beside_owners("0 4 8-11 12-15", *small, *here)
    assert moves(POLICY, held).keys() == {"e00", "e01"}
    assert moves(POLICY, held, small[-1].container) == {}


def test_a_large_one_does_not_come_where_it_crowds_another_large_one() -> None:
    here = in_pool(burst("s/c", 2000), "NUMA node #0", "0"), in_pool(burst("y/c", 1000, 4000), "NUMA node #1", "1")
    assert moves(POLICY, beside_owners("0-1 8-10 12-14", *here)) == {}


def test_one_whose_node_is_used_up_goes_to_one_with_cpus() -> None:
    held = beside_owners("0-3", in_pool(idle("e/c"), "NUMA node #0", "0"))
    assert moves(POLICY, held) == {"e": ("NUMA node #2", "0,2")}


def test_equal_places_move_no_container() -> None:
    held = Allocations(tuple(in_pool(burst(f"a{n}/c", 500), "NUMA node #3", "3") for n in range(1)))
    assert moves(POLICY, held) == {}


def test_one_goes_to_the_container_that_it_wants_to_be_near() -> None:
    held = fill(POLICY, request("p/db", 1000, previous=before("NUMA node #3")))
    wishing = in_pool(burst("p/web", 500, affinities=wish_for("db", 5)), "NUMA node #0", "0")
    assert moves(POLICY, held.with_grants(wishing)) == {"p": ("NUMA node #3", "0,3")}


def test_no_container_runs_from_one_that_follows_it() -> None:
    """The option draws web to db, which has wishes of its own and so is not drawn to web."""
    policy = topology_aware(four_nodes(), colocate_pods=True)
    db = in_pool(idle("p/db", affinities=wish_for("nothing")), "NUMA node #0", "0")
    web = in_pool(idle("p/web"), "NUMA node #0", "0")
    assert moves(policy, Allocations((db, web))) == {}


def test_no_place_is_taken_whose_memory_is_full() -> None:
    full = in_pool(burst("b/c", 100, memory_request_bytes=2 * GIB), "NUMA node #0", "0")
    wide = in_pool(burst("a/c", 100, memory_request_bytes=GIB), "root", "0-3")
    assert moves(POLICY, Allocations((wide, full))) == {"a": ("NUMA node #2", "0-3")}
    others = [in_pool(burst(f"x{n}/c", 100, memory_request_bytes=2 * GIB), f"NUMA node #{n}", str(n)) for n in (1, 2)]
    last = in_pool(burst("y/c", 100, memory_request_bytes=3 * GIB // 2), "NUMA node #3", "3")
    assert moves(POLICY, Allocations((wide, full, *others, last))) == {}


def test_one_that_wants_levels_above_the_best_pool_only_comes_down() -> None:
    up = burst("a/c", 100, prefer_shared=True, levels_up=1)
    assert moves(POLICY, Allocations((in_pool(up, "root", "0-3"),))) == {"a": ("socket #0", "0-3")}
    crowd = [in_pool(burst(f"x{n}/c", 100), "socket #0", "0-1") for n in range(1)]
    assert moves(POLICY, Allocations((in_pool(up, "socket #0", "0-1"), *crowd))).keys() == {"x0"}


def test_one_that_wants_more_levels_than_there_are_stays_in_the_root() -> None:
    up = burst("a/c", 100, prefer_shared=True, levels_up=5)
    assert moves(POLICY, Allocations((in_pool(up, "root", "0-3"),))) == {}


def test_owners_and_what_is_overcommitted_are_not_for_it() -> None:
    owner = replace(in_pool(request("a/c", 1000), "root", "0-3", 0), kind=CpuKind.EXCLUSIVE)
    overcommitted = in_pool(burst("b/c", 500), "root", "0-3", 0)
    assert moves(POLICY, Allocations((owner, overcommitted))) == {}


def test_one_of_a_reserved_namespace_goes_back_to_the_reserved_cpus() -> None:
    policy = topology_aware(four_nodes(), "0-1")
    held = Allocations((in_pool(burst("a/c", 500, namespace="kube-system"), "NUMA node #2", "2"),))
    (back,) = policy.better_places(held).grants
    assert (back.kind, back.pool, back.reserved_mcpu, back.request) == (
        CpuKind.RESERVED, "root", 500, held.grants[0].request,
    )  # fmt: skip


def test_containers_leave_reserved_cpus_that_are_promised_more_than_they_have_until_they_are_not() -> None:
    """As after an owner was placed in their stead, or fewer CPUs are reserved."""
    policy = topology_aware(four_nodes(), "0", moves_per_check=9)
    asked = {"a": 600, "b": 300, "d": 500, "e": 0}
    held = Allocations(
        tuple(
            Grant(burst(f"{n}/c", mcpu, namespace="kube-system"), "root", CpuKind.RESERVED, reserved_mcpu=mcpu)
            for n, mcpu in asked.items()
        )
    )
    (away,) = policy.better_places(held).grants
    assert (away.container.pod_uid, away.kind, away.shared_mcpu, away.reserved_mcpu) == ("a", CpuKind.SHARED, 600, 600)
    settled = held.with_grants(away)
    assert policy.better_places(settled).grants == ()
    (back,) = policy.better_places(settled.without(ContainerKey("d", "c"))).grants
    assert (back.container.pod_uid, back.kind, back.shared_mcpu) == ("a", CpuKind.RESERVED, 0)


def test_one_that_overflowed_stays_where_it_is_while_neither_kind_has_room() -> None:
    policy = topology_aware(four_nodes(), "0")
    held = fill(policy, *(burst(f"{n}/c", 900, namespace="kube-system") for n in "ab"), request("own/c", 14000))
    assert policy.better_places(held).grants == ()


@pytest.mark.parametrize("most", [0, 1, 3])
def test_as_many_move_at_once_as_the_option_says(most: int) -> None:
    policy = topology_aware(four_nodes(), moves_per_check=most)
    held = Allocations(tuple(in_pool(burst(f"a{n}/c", 100), "root", "0-3") for n in range(5)))
    found = policy.better_places(held)
    assert len(found.grants) == most
    assert found.last == (ContainerKey(f"a{most - 1}", "c") if most else None)


def test_a_round_goes_on_where_the_call_before_it_ended() -> None:
    policy = topology_aware(four_nodes())
    names = [f"a{n:03}" for n in range(LOOKED_AT + 1)]
    held = Allocations(tuple(in_pool(idle(f"{name}/c"), "NUMA node #0", "0") for name in names[:-1]))
    held = held.with_grants(*(replace(g, pool=f"NUMA node #{i % 4}") for i, g in enumerate(held.grants)))
    held = held.with_grants(in_pool(burst("z/c", 100), "root", "0-3"))
    first = policy.better_places(held)
    assert first == BetterPlaces((), ContainerKey(names[-2], "c"))
    assert moves(policy, held, first.last).keys() == {"z"}
