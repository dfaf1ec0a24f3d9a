from dataclasses import replace

import pytest

from policies.base import CpuKind, DeviceLocality, Grant, Request
from policies.preferences import Threads
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.cpus.retained import additions
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import before, context_of, four_nodes, request, supply_of, tree_of
from tests.unit.policies.giving import given, offered, owned

TREE = tree_of(four_nodes(isolated="3,7,11"), "0")


def offer(pool: str, wanted: Request, *grants: Grant) -> Offer:
    return offered(TREE, pool, wanted, *grants)


def taken(pool: str, wanted: Request) -> tuple[str, str] | None:
    found = given(TREE, pool, wanted)
    return None if found is None else (str(CpuSet(found.exclusive)), str(CpuSet(found.isolated)))


def test_earlier_cpus_are_kept_and_the_pool_ranks_above_those_over_it() -> None:
    wanted = request(mcpu=2000, previous=before("NUMA node #1", "5-6"))
    assert offer("NUMA node #1", wanted) == Offer(True, 3, 0b1100000, 2, 0)
    assert offer("socket #0", wanted).previous == 2
    assert offer("NUMA node #0", wanted).previous == 0


def test_earlier_cpus_that_another_took_are_not_waited_for() -> None:
    wanted = request(mcpu=2000, previous=before("NUMA node #1", "5-6"))
    found = offer("NUMA node #1", wanted, owned("o/c", "NUMA node #1", "6"))
    assert (found.previous, found.keep) == (0, 0)


def test_an_unknown_pool_without_cpus_of_its_own_is_no_earlier_place() -> None:
    assert offer("NUMA node #1", request(mcpu=2000, previous=before("socket #9"))).previous == 0


@pytest.mark.parametrize(("mcpu", "owned_before"), [(500, "5"), (2000, "")])
def test_the_earlier_pool_counts_where_no_cpus_are_kept(mcpu: int, owned_before: str) -> None:
    found = offer("NUMA node #1", request(mcpu=mcpu, previous=before("NUMA node #1", owned_before)))
    assert (found.previous, found.keep) == (3, 0)


def test_shrinking_keeps_what_is_free_if_that_is_enough() -> None:
    wanted = request(mcpu=2000, previous=before("NUMA node #1", "4-6"))
    found = [offer("NUMA node #1", wanted, owned("o/c", "NUMA node #1", cpus)) for cpus in ("4", "4-5")]
    assert [(one.previous, CpuSet(one.keep)) for one in found] == [(3, CpuSet.parse("5-6")), (0, CpuSet())]


def test_an_isolated_cpu_is_kept_though_the_shares_below_need_every_ordinary_one() -> None:
    share = Grant(request("s/c", 3000), "NUMA node #1", CpuKind.SHARED, shared_mcpu=3000)
    wanted = request(mcpu=1000, prefer_isolated=True, previous=before("socket #0", "7"))
    assert CpuSet(offer("socket #0", wanted, share).keep) == CpuSet.parse("7")


def test_earlier_cpus_that_are_withheld_now_are_not_kept() -> None:
    wanted = context_of(TREE, request(mcpu=2000, previous=before("NUMA node #1", "5-6")))
    supply = supply_of(TREE, withheld="5")
    room = room_of(supply, keep_busy=False)
    found = offers_of(replace(wanted, supply=supply), room, room)[TREE.named("NUMA node #1").index]
    assert (found.previous, found.keep) == (0, 0)


def test_earlier_cpus_that_a_share_below_needs_are_not_taken_back() -> None:
    share = Grant(request("s/c", 500), "NUMA node #2", CpuKind.SHARED, shared_mcpu=500)
    wanted = request(mcpu=3000, previous=before("socket #1", "8-10"))
    assert offer("socket #1", wanted).keep
    assert not offer("socket #1", wanted, share).keep


def test_shrinking_keeps_a_whole_core_of_the_earlier_cpus() -> None:
    assert taken("NUMA node #3", request(mcpu=2000, previous=before("NUMA node #3", "13-15"))) == ("14-15", "")


def test_shrinking_to_one_stays_on_ordinary_cpus_though_isolated_ones_are_free() -> None:
    assert taken("NUMA node #1", request(mcpu=1000, previous=before("NUMA node #1", "4-5"))) == ("4", "")


def test_a_strict_wish_drops_earlier_ordinary_cpus() -> None:
    wanted = request(mcpu=1000, require_isolated=True, previous=before("NUMA node #1", "4"))
    assert taken("NUMA node #1", wanted) == ("", "7")


def test_the_earlier_pool_is_wanted_again_by_sharers_too() -> None:
    wanted = request(mcpu=500, previous=before("NUMA node #3"))
    assert [offer(p, wanted).previous for p in ("NUMA node #3", "socket #1", "socket #0", "root")] == [3, 2, 0, 1]


def test_earlier_cpus_count_even_if_their_pool_is_gone() -> None:
    wanted = request(mcpu=2000, previous=before("socket #9", "5-6"))
    assert [offer(p, wanted).previous for p in ("NUMA node #1", "NUMA node #0")] == [3, 0]


@pytest.mark.parametrize(
    ("count", "kept"), [(1, "9"), (2, "9,14"), (3, "9,14-15"), (4, "9,12,14-15"), (5, "8-9,12,14-15")]
)
def test_shrinking_gives_back_what_was_added_last(count: int, kept: str) -> None:
    previous = before("socket #1", "8-10,12,14-15", "14", "12,15", "8,10")
    assert taken("socket #1", request(mcpu=1000 * count, previous=previous)) == (kept, "")


def test_shrinking_keeps_an_isolated_cpu_that_was_there_first() -> None:
    assert taken("NUMA node #1", request(mcpu=2000, previous=before("NUMA node #1", "5-7", "5-6"))) == ("6", "7")


def test_ages_of_cpus_that_are_no_longer_held_are_forgotten() -> None:
    assert additions(before("root", "1-3,5", "3-4", "4", "5")) == (0b110, 0b1000, 0b100000)


def test_shrinking_gives_back_whole_cores() -> None:
    wanted = request(mcpu=2000, threads=Threads.OWN_CORE, previous=before("NUMA node #3", "12-15"))
    assert taken("NUMA node #3", wanted) == ("12-13", "")
    wanted = request(mcpu=4000, threads=Threads.OWN_CORE, previous=before("socket #1", "8-10,12-14"))
    assert taken("socket #1", wanted) == ("8-9,12-13", "")


def test_threads_of_broken_cores_are_kept_by_one_that_wants_whole_ones() -> None:
    wanted = request(mcpu=2000, threads=Threads.OWN_CORE, previous=before("NUMA node #3", "12,14"))
    assert taken("NUMA node #3", wanted) == ("12,14", "")


@pytest.mark.parametrize(
    ("pool", "other", "owned_before", "kept"),
    [
        ("NUMA node #3", "13", "12,14-15", "14-15"),
        ("NUMA node #0", "0", "1-2", ""),
        ("NUMA node #2", "8", "9-10", ""),
    ],
)
def test_one_that_lost_cpus_and_wants_whole_cores_keeps_those_of_cores_that_are_whole_on_any_package(
    pool: str, other: str, owned_before: str, kept: str
) -> None:
    was = replace(before(pool, owned_before), only_there=True)
    wanted = request(mcpu=2000, threads=Threads.OWN_CORE, previous=was)
    assert CpuSet(offer(pool, wanted, owned("o/c", pool, other)).keep or 0) == CpuSet.parse(kept)


@pytest.mark.parametrize(
    ("prefers_isolated", "owned_before", "count", "kept"),
    [
        (False, "3,5", 1, "5"),
        (True, "3,5", 1, "3"),
        (True, "3,5-6", 2, "5-6"),  # one isolated CPU is not enough, and kinds are not mixed
        (True, "3,5,7", 2, "3,7"),
        (False, "3,5,7", 2, "5,7"),  # ordinary ones first, then isolated ones near them
    ],
)
def test_shrinking_keeps_isolated_cpus_only_where_they_are_preferred_and_enough(
    prefers_isolated: bool, owned_before: str, count: int, kept: str
) -> None:
    was = before("socket #0", owned_before)
    wanted = request(mcpu=1000 * count, prefer_isolated=prefers_isolated, previous=was)
    assert CpuSet(offer("socket #0", wanted).keep) == CpuSet.parse(kept)


def test_isolated_cpus_that_are_kept_count_when_more_of_them_are_wanted() -> None:
    wanted = request(mcpu=2000, prefer_isolated=True, previous=before("socket #0", "3"))
    found = offer("socket #0", wanted)
    assert (CpuSet(found.keep), found.isolated, found.sliced) == (CpuSet.parse("3"), 2, 0)
    ordinary = offer("NUMA node #1", replace(wanted, previous=before("NUMA node #1", "4")))
    assert (CpuSet(ordinary.keep), ordinary.isolated, ordinary.sliced) == (CpuSet.parse("4"), 0, 2)
    alone = offer("NUMA node #0", replace(wanted, previous=before("NUMA node #0", "3")))
    assert (CpuSet(alone.keep), alone.isolated, alone.sliced) == (CpuSet.parse("3"), 1, 1)


def test_shrinking_keeps_a_cpu_near_each_device_where_that_is_strict() -> None:
    hints = tuple(DeviceLocality(f"/dev/{cpus}", CpuSet.parse(cpus), NodeSet()) for cpus in ("0-3", "4-7"))
    earlier = before("root", "1,4-6", "1")
    kept = [
        CpuSet(offer("root", request(mcpu=2000, localities=hints, strict_locality=strict, previous=earlier)).keep)
        for strict in (False, True)
    ]
    assert kept == [CpuSet.parse("4-5"), CpuSet.parse("1,6")]
    assert taken("root", request(mcpu=2000, localities=hints, strict_locality=True, previous=earlier)) == ("1,6", "")


def test_shrinking_to_fewer_cpus_than_devices_keeps_the_oldest() -> None:
    hints = tuple(DeviceLocality(f"/dev/{cpus}", CpuSet.parse(cpus), NodeSet()) for cpus in ("0-3", "4-7"))
    wanted = request(
        mcpu=1000, prefer_isolated=False, localities=hints, strict_locality=True, previous=before("root", "1,5", "1")
    )
    assert CpuSet(offer("root", wanted).keep) == CpuSet.parse("5")
