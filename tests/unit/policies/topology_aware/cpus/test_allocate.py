import functools
import operator
import random

import pytest
from hypothesis import given as given_randomly
from hypothesis import settings
from hypothesis import strategies as st

from policies.base import CpuKind, DeviceLocality, Grant, Request
from policies.preferences import CpuPriority, Threads
from policies.topology_aware.cpus.allocate import pick_near
from policies.topology_aware.cpus.picker import CandidateCpus
from policies.topology_aware.locality.devices import Locality
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import machines, small_machine
from tests.unit.policies.build import GUARANTEED, before, four_nodes, request, tree_of
from tests.unit.policies.giving import given, given_cpus, offered, owned

TREE = tree_of(four_nodes(isolated="3,7,11"), "0")


def taken(pool: str, wanted: Request) -> tuple[str, str] | None:
    found = given(TREE, pool, wanted)
    return None if found is None else (str(CpuSet(found.exclusive)), str(CpuSet(found.isolated)))


def test_a_mixed_container_takes_isolated_cpus_and_shares_the_fraction() -> None:
    assert taken("NUMA node #1", request(mcpu=1500, prefer_isolated=True)) == ("", "7")


def test_growing_adds_to_the_earlier_cpus() -> None:
    assert taken("NUMA node #2", request(mcpu=3000, previous=before("NUMA node #2", "9"))) == ("8-10", "")
    assert taken("NUMA node #3", request(mcpu=2000, previous=before("NUMA node #3", "13"))) == ("12-13", "")


def test_an_isolated_cpu_is_kept_when_more_are_asked() -> None:
    assert taken("NUMA node #1", request(mcpu=2000, previous=before("NUMA node #1", "7"))) == ("6", "7")


def test_isolated_cpus_that_are_kept_are_not_taken_twice() -> None:
    wanted = request(mcpu=2000, prefer_isolated=True, previous=before("socket #0", "3"))
    assert taken("socket #0", wanted) == ("", "3,7")


PLAIN = tree_of(four_nodes())


def whole(mcpu: int, *grants: Grant, pool: str = "root", threads: Threads = Threads.OWN_CORE, **keys: object) -> str:
    return given_cpus(PLAIN, pool, request("w/c", mcpu, GUARANTEED, threads=threads, **keys), *grants)


def test_owned_cores_are_whole() -> None:
    assert whole(1000, owned("a/c", "NUMA node #0", "0")) == "2-3"
    assert whole(3000, owned("a/c", "NUMA node #0", "0"), threads=Threads.HIDE) == "4-7"


def test_a_pool_without_enough_whole_cores_gives_none_though_it_has_the_threads() -> None:
    half = owned("a/c", "root", "0,2,4,6,8,10,12")
    assert whole(2000, half) == "14-15"
    assert whole(4000, half) == "-"
    assert whole(4000, half, threads=Threads.ANY) != "-"


def test_growing_completes_cores_that_are_held_in_part_before_it_takes_new_ones() -> None:
    assert whole(4000, pool="NUMA node #0", previous=before("NUMA node #0", "0,2")) == "0-3"
    assert whole(2000, pool="NUMA node #1", previous=before("NUMA node #1", "5")) == "4-5"
    assert whole(4000, pool="NUMA node #0", previous=before("NUMA node #0", "1")) == "0-3"
    assert whole(4000, previous=before("root", "0-1,4,6")) == "0-1,4,6"


def test_growing_takes_the_sibling_of_its_own_thread_also_where_whole_cores_are_not_asked_for() -> None:
    assert whole(3000, pool="NUMA node #0", threads=Threads.ANY, previous=before("NUMA node #0", "1")) == "0-2"


def test_what_is_completed_keeps_within_the_limits_too() -> None:
    share = Grant(request("s/c", 500), "NUMA node #0", CpuKind.SHARED, shared_mcpu=500)
    assert whole(4000, share, pool="socket #0", previous=before("socket #0", "0,2")) == "0,2,4-5"


def at(*places: str) -> tuple[DeviceLocality, ...]:
    return tuple(DeviceLocality(f"/dev/{'abcd'[n]}", CpuSet.parse(cpus), NodeSet()) for n, cpus in enumerate(places))


def near(mcpu: int, *places: str, pool: str = "root", used: str = "", **keys: object) -> str:
    grants = (owned("a/c", "root", used),) if used else ()
    return given_cpus(PLAIN, pool, request("w/c", mcpu, GUARANTEED, localities=at(*places), **keys), *grants)


@pytest.mark.parametrize(
    ("mcpu", "expected"), [(1000, "4"), (2000, "4,12"), (4000, "4-5,12-13"), (3000, "4-5,12"), (8000, "4-7,12-15")]
)
def test_cpus_are_owned_near_each_device_as_many(mcpu: int, expected: str) -> None:
    assert near(mcpu, "4-7", "12-15") == expected


def test_devices_at_the_same_cpus_count_once() -> None:
    assert near(4000, "4-7", "12-15", "4-7") == "4-5,12-13"


def test_where_there_are_too_few_near_a_device_one_near_each_will_do() -> None:
    assert near(4000, "4-7", "12-15", used="4-6") == "7,12-14"


def test_what_lies_near_two_devices_counts_for_both_where_no_more_is_free() -> None:
    assert near(2000, "0-1", "0-3", used="1-3") == "0,4"


def test_what_does_not_divide_stays_near_the_devices_where_it_can() -> None:
    assert near(3000, "0-3", "4-7", used="1-2,5-7") == "0,3-4"


def test_where_there_is_none_near_a_device_plain_picking_decides() -> None:
    assert near(4000, "4-7", "12-15", used="4-7") == "0-3"


def test_devices_elsewhere_or_near_all_of_the_pool_do_not_count() -> None:
    assert near(2000, "0-7", "12-15", pool="socket #0") == "0-1"
    assert near(2000, "4-7", "12-15", pool="NUMA node #1") == "4-5"


def test_spreading_can_be_declined() -> None:
    assert near(4000, "4-7", "12-15", spread_by_locality=False) == "0-3"


def test_whole_cores_are_spread_whole() -> None:
    assert near(4000, "4-7", "12-15", used="4", threads=Threads.OWN_CORE) == "6-7,12-13"
    assert near(2000, "4-7", "12-15", threads=Threads.OWN_CORE) == "4-5"  # near one of them at least


def test_kept_cpus_count_where_they_are() -> None:
    assert near(4000, "4-7", "12-15", previous=before("root", "4-5")) == "4-5,12-13"
    assert near(4000, "4-7", "12-15", previous=before("root", "4-6")) == "4-6,12"


def test_isolated_cpus_are_spread_too() -> None:
    tree = tree_of(four_nodes(isolated="4-7,12-15"))
    wanted = request("w/c", 2000, localities=at("4-7", "12-15"), prefer_isolated=True)
    assert given_cpus(tree, "root", wanted) == "4,12"


def test_a_strict_wish_takes_no_isolated_cpu_far_from_the_devices() -> None:
    tree = tree_of(four_nodes(isolated="0-1,4-5,8-9,12"))
    hints = at("0-3", "8-11", "12-15")
    wanted = request("w/c", 5000, localities=hints, prefer_isolated=True, strict_locality=True)
    assert given_cpus(tree, "root", wanted) == "0-1,8-9,12"


def test_a_strict_wish_takes_nothing_far_from_the_devices() -> None:
    assert near(3000, "4-7", "12-15", used="4-5", strict_locality=True) == "6-7,12"
    assert near(3000, "4-7", "12-15", used="4-7", strict_locality=True) == "-"
    assert near(1000, "4-7", "12-15", strict_locality=True) == "-"  # one CPU cannot be near both
    assert near(2500, "4-7", "12-15", strict_locality=True) == "-"
    assert near(500, "4-7", pool="NUMA node #0", strict_locality=True) == "-"
    assert near(2500, "4-7", "0-3", pool="socket #0", strict_locality=True) == "0,4"


def test_a_strict_wish_spreads_even_if_spreading_is_declined() -> None:
    assert near(2000, "4-7", "12-15", strict_locality=True, spread_by_locality=False) == "4,12"


def test_a_strict_wish_drops_earlier_cpus_far_from_the_devices() -> None:
    assert near(2000, "4-7", strict_locality=True, previous=before("root", "0-1")) == "4-5"


def test_the_lowest_frequency_is_left_to_those_who_want_it() -> None:
    tree = tree_of(small_machine(packages=1, cores=8, threads=1, efficiency="0-3"))
    assert given_cpus(tree, "root", request("w/c", 2000)) == "4-5"
    assert given_cpus(tree, "root", request("w/c", 2000, priority=CpuPriority.LOW)) == "0-1"


def test_how_cpus_were_picked_is_told_with_them() -> None:
    found = given(PLAIN, "root", request("w/c", 4000, localities=at("4-7", "12-15")))
    assert found is not None
    assert found.why.startswith("2 near each of /dev/a, /dev/b")


def pool_is_near(usable: int, near: list[int]) -> bool:
    return not usable & ~functools.reduce(operator.or_, near) and all(usable & cpus for cpus in near)


@settings(max_examples=settings().max_examples // 3)
@given_randomly(machines(max_packages=2, max_cpus=32), st.randoms(use_true_random=False))
def test_what_is_taken_is_what_was_offered(machine: Machine, rng: random.Random) -> None:
    tree = tree_of(machine)
    hints = at(*(str(c.cpus) for c in rng.sample(machine.cores, rng.randrange(min(3, len(machine.cores)) + 1))))
    strict, threads = rng.random() < 0.3, rng.choice(list(Threads))
    wanted = request("w/c", 1000 * rng.randint(1, 8), localities=hints, strict_locality=strict, threads=threads)
    used = CpuSet.of(c for c in machine.online - machine.isolated if rng.random() < 0.3)
    for pool in tree.pools:
        offer = offered(tree, pool.name, wanted, owned("a/c", "root", str(used)))
        found = given(tree, pool.name, wanted, owned("a/c", "root", str(used))) if offer.fits else None
        if found is None:
            continue
        mine = found.exclusive | found.isolated
        assert (found.exclusive.bit_count(), found.isolated.bit_count()) == (offer.sliced, offer.isolated)
        assert not mine & ~(pool.sharable | pool.isolated) and not mine & used.mask
        near = [h.cpus.mask for h in hints if h.cpus != machine.online]
        if strict and near and not pool_is_near(pool.sharable | pool.isolated, near):
            assert not mine & ~functools.reduce(operator.or_, near)
            assert mine.bit_count() < len(set(near)) or all(mine & cpus for cpus in near)
        if threads is not Threads.ANY:
            assert all(core.cpus.mask & mine in (0, core.cpus.mask) for core in machine.cores)


PLENTY = [1 << 20] * len(PLAIN.pools)


def places(*cpus: str) -> list[Locality]:
    return [Locality((), CpuSet.parse(one).mask) for one in cpus]


def picked(count: int, *near: str, held: str = "", **keys: object) -> str:
    free = PLAIN.root.cpus & ~CpuSet.parse(held).mask
    candidates = CandidateCpus(PLAIN, free, PLENTY, CpuSet.parse(held).mask, **keys)  # type: ignore[arg-type]  # its fields
    return str(CpuSet(pick_near(candidates, PLAIN.root, count, places(*near), CpuSet.parse(held).mask)))


@pytest.mark.parametrize(
    ("count", "expected"), [(2, "8-9"), (3, "0,4,8"), (6, "0-1,4-5,8-9"), (4, "0-1,4,8"), (5, "0-1,4-5,8")]
)
def test_each_place_gets_as_many_or_one_and_the_rest_lies_beside(count: int, expected: str) -> None:
    assert picked(count, "0-3", "4-7", "8-11") == expected


def test_without_places_nothing_is_spread() -> None:
    assert picked(2) == ""


def test_what_is_near_two_devices_counts_for_both() -> None:
    assert picked(4, "0-1", "0-7") == "0-3"


def test_cpus_that_are_held_count() -> None:
    assert picked(2, "0-3", "4-7", held="0-1") == "4-5"
    assert picked(1, "0-3", "4-7", held="0-2") == "4"
    assert picked(1, "0-3", "4-7", "8-11", held="0-2") == ""


def test_whole_cores_go_to_each_place_whole() -> None:
    assert picked(4, "0-3", "4-7", whole=True) == "0-1,4-5"
    assert picked(6, "0-3", "4-7", whole=True) == "0-5"
    assert picked(8, "0-7", "8-15", whole=True) == "0-3,8-11"
    assert picked(2, "0-3", "4-7", whole=True) == "0-1"


def test_where_fewer_are_free_than_asked_none_are_picked() -> None:
    candidates = CandidateCpus(PLAIN, CpuSet.parse("0,4,8").mask, PLENTY)
    assert pick_near(candidates, PLAIN.root, 4, places("0-3", "4-7")) == 0


def test_limits_hold_for_all_shares_together() -> None:
    limits = list(PLENTY)
    limits[PLAIN.named("socket #0").index] = 3
    candidates = CandidateCpus(PLAIN, PLAIN.root.cpus, limits)
    assert CpuSet(pick_near(candidates, PLAIN.root, 4, places("0-3", "4-7"))) == CpuSet.parse("0,4,8-9")


@settings(max_examples=settings().max_examples // 3)
@given_randomly(machines(max_packages=2, max_cpus=32), st.randoms(use_true_random=False))
def test_each_place_gets_its_share_wherever_so_many_are_free(machine: Machine, rng: random.Random) -> None:
    tree = tree_of(machine)
    free = tree.root.cpus & sum(1 << cpu for cpu in machine.online if rng.random() < 0.7)
    nodes = [n.cpus.mask & free for n in machine.nodes if n.cpus.mask & free]
    near = [Locality((), cpus) for cpus in rng.sample(nodes, rng.randint(0, len(nodes)))]
    share = min((place.cpus.bit_count() for place in near), default=0)
    found = pick_near(CandidateCpus(tree, free, [PLENTY[0]] * len(tree.pools)), tree.root, share * len(near), near)
    assert [(found & place.cpus).bit_count() for place in near] == [share] * len(near)
    assert found.bit_count() == share * len(near)
