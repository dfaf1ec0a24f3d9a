"""What one pool would give: counts, kept CPUs, isolated or sliced."""

import pytest

from policies.base import CpuKind, Grant, Request
from policies.keeping import additions
from policies.offer import Offer, offers_of
from policies.supply import room_of
from policies.taking import Taken, take
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BEST_EFFORT, before, case_of, four_nodes, request, tree_of

TREE = tree_of(four_nodes(isolated="3,7,11"), "0")


def owned(name: str, pool: str, cpus: str) -> Grant:
    return Grant(request(name), pool, CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(cpus))


def offer(pool: str, wanted: Request, *grants: Grant, keep_busy: bool = True) -> Offer:
    case = case_of(TREE, wanted, *grants, reserved="0")
    strict, lenient = room_of(case.supply, keep_busy=keep_busy), room_of(case.supply, keep_busy=False)
    return offers_of(case, strict, lenient)[TREE.named(pool).index]


def taken(pool: str, wanted: Request, *grants: Grant) -> tuple[str, str] | None:
    case = case_of(TREE, wanted, *grants, reserved="0")
    room = room_of(case.supply, keep_busy=False)
    i = TREE.named(pool).index
    found: Taken | None = take(case, TREE.pools[i], offers_of(case, room, room)[i], room.give)
    return None if found is None else (str(CpuSet(found.exclusive)), str(CpuSet(found.isolated)))


def test_one_cpu_is_isolated_where_one_is_free_and_sliced_where_none_is() -> None:
    assert offer("NUMA node #1", request(mcpu=1000)) == Offer(True, 0, 0, 0, 1)
    assert offer("NUMA node #3", request(mcpu=1000)) == Offer(True, 0, 0, 1, 0)


def test_several_isolated_cpus_are_all_or_nothing() -> None:
    wanted = request(mcpu=2000, prefer_isolated=True)
    assert offer("NUMA node #1", wanted) == Offer(True, 0, 0, 2, 0)
    assert offer("socket #0", wanted) == Offer(True, 0, 0, 0, 2)


def test_required_isolated_cpus_are_never_sliced() -> None:
    wanted = request(mcpu=2000, require_isolated=True)
    assert not offer("NUMA node #1", wanted).fits
    assert offer("socket #0", wanted).fits


def test_a_mixed_container_takes_isolated_cpus_and_shares_the_fraction() -> None:
    assert taken("NUMA node #1", request(mcpu=1500, prefer_isolated=True)) == ("", "7")


def test_a_container_without_a_share_needs_a_cpu_in_the_pool_while_others_have_one() -> None:
    full = owned("o/c", "NUMA node #1", "4-6")
    assert not offer("NUMA node #1", request(qos=BEST_EFFORT), full).fits
    assert offer("NUMA node #1", request(qos=BEST_EFFORT), full, keep_busy=False).fits


def test_earlier_cpus_are_kept_and_the_pool_ranks_above_those_over_it() -> None:
    wanted = request(mcpu=2000, previous=before("NUMA node #1", "5-6"))
    assert offer("NUMA node #1", wanted) == Offer(True, 3, 0b1100000, 2, 0)
    assert offer("socket #0", wanted).previous == 2
    assert offer("NUMA node #0", wanted).previous == 0


def test_earlier_cpus_that_another_took_are_not_waited_for() -> None:
    wanted = request(mcpu=2000, previous=before("NUMA node #1", "5-6"))
    found = offer("NUMA node #1", wanted, owned("o/c", "NUMA node #1", "6"))
    assert (found.previous, found.keep) == (0, 0)


def test_earlier_cpus_that_a_share_below_needs_are_not_taken_back() -> None:
    share = Grant(request("s/c", 500), "NUMA node #2", CpuKind.SHARED, shared_mcpu=500)
    wanted = request(mcpu=3000, previous=before("socket #1", "8-10"))
    assert offer("socket #1", wanted).keep
    assert not offer("socket #1", wanted, share).keep


def test_growing_adds_to_the_earlier_cpus() -> None:
    assert taken("NUMA node #2", request(mcpu=3000, previous=before("NUMA node #2", "9"))) == ("8-10", "")
    assert taken("NUMA node #3", request(mcpu=2000, previous=before("NUMA node #3", "13"))) == ("12-13", "")


def test_shrinking_keeps_a_whole_core_of_the_earlier_cpus() -> None:
    assert taken("NUMA node #3", request(mcpu=2000, previous=before("NUMA node #3", "13-15"))) == ("14-15", "")


def test_shrinking_to_one_stays_on_ordinary_cpus_though_isolated_ones_are_free() -> None:
    assert taken("NUMA node #1", request(mcpu=1000, previous=before("NUMA node #1", "4-5"))) == ("4", "")


def test_an_isolated_cpu_is_kept_when_more_are_asked() -> None:
    assert taken("NUMA node #1", request(mcpu=2000, previous=before("NUMA node #1", "7"))) == ("6", "7")


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
