"""Owned CPUs near each of several places."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.topology_aware.cpus.allocate import pick_near
from policies.topology_aware.cpus.picker import CandidateCpus
from policies.topology_aware.locality.devices import Locality
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import machines
from tests.unit.policies.build import four_nodes, tree_of

TREE = tree_of(four_nodes())
PLENTY = [1 << 20] * len(TREE.pools)


def places(*cpus: str) -> list[Locality]:
    return [Locality((), CpuSet.parse(one).mask) for one in cpus]


def picked(count: int, *near: str, held: str = "", **keys: object) -> str:
    free = TREE.root.cpus & ~CpuSet.parse(held).mask
    candidates = CandidateCpus(TREE, free, PLENTY, CpuSet.parse(held).mask, **keys)  # type: ignore[arg-type]  # its fields
    return str(CpuSet(pick_near(candidates, TREE.root, count, places(*near), CpuSet.parse(held).mask)))


@pytest.mark.parametrize(
    ("count", "expected"), [(2, ""), (3, "0,4,8"), (6, "0-1,4-5,8-9"), (4, "0-1,4,8"), (5, "0,2-4,8")]
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
    assert picked(2, "0-3", "4-7", whole=True) == ""


def test_limits_hold_for_all_shares_together() -> None:
    limits = list(PLENTY)
    limits[TREE.named("socket #0").index] = 3
    candidates = CandidateCpus(TREE, TREE.root.cpus, limits)
    assert CpuSet(pick_near(candidates, TREE.root, 4, places("0-3", "4-7"))) == CpuSet.parse("0,4,8-9")


@settings(max_examples=settings().max_examples // 3)
@given(machines(max_packages=2, max_cpus=32), st.randoms(use_true_random=False))
def test_each_place_gets_its_share_wherever_so_many_are_free(machine: Machine, rng: random.Random) -> None:
    tree = tree_of(machine)
    free = tree.root.cpus & sum(1 << cpu for cpu in machine.online if rng.random() < 0.7)
    nodes = [n.cpus.mask & free for n in machine.nodes if n.cpus.mask & free]
    near = [Locality((), cpus) for cpus in rng.sample(nodes, rng.randint(0, len(nodes)))]
    share = min((place.cpus.bit_count() for place in near), default=0)
    found = pick_near(CandidateCpus(tree, free, [PLENTY[0]] * len(tree.pools)), tree.root, share * len(near), near)
    assert [(found & place.cpus).bit_count() for place in near] == [share] * len(near)
    assert found.bit_count() == share * len(near)
