import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.topology_aware.supply.memory_nodes import memory_nodes_of, node_ids
from policies.topology_aware.supply.memory_packing import Packing, first_overflow, in_order, promised_inside
from tests.fakes.machines import small_machine
from tests.unit.policies.memory.build import FEW, GIB, can_be_kept, mask, packed

NODES = memory_nodes_of(small_machine(packages=4))  # 4 nodes of 2 GiB
SMALL = memory_nodes_of(small_machine(packages=4, memory=4))  # 4 nodes of 4 bytes: an error of one is seen


def test_zones_that_cross_can_be_too_small_together_though_each_is_large_enough() -> None:
    crossing = in_order([(mask("0-1"), 3 * GIB), (mask("1-2"), 3 * GIB), (mask("0,2"), GIB)])
    assert all(amount <= NODES.capacity(zone) for zone, amount in crossing)
    overflow = first_overflow(NODES, crossing)
    assert overflow is not None
    assert (overflow.zone, overflow.excess_bytes) == (mask("0-2"), GIB)


def test_a_promise_moves_others_within_their_zones() -> None:
    packing = Packing(NODES)
    assert not packing.add(mask("0-1"), 2 * GIB)
    assert not packing.add(mask("1-2"), 2 * GIB)
    assert packing.takes(mask("0"), 2 * GIB)
    assert not packing.add(mask("0"), 2 * GIB)
    assert packing.add(mask("0-2"), GIB) == GIB


def test_what_is_taken_away_leaves_room_for_as_much() -> None:
    packing = Packing(NODES)
    assert not packing.add(mask("0-1"), 4 * GIB)
    packing.remove(mask("0-1"), 3 * GIB)
    assert packing.takes(mask("1"), 2 * GIB)
    assert not packing.takes(mask("0-1"), 3 * GIB + 1)
    assert not packing.add(mask("0-1"), 3 * GIB)
    assert packing.reach(mask("0")) == mask("0-1")


def test_asking_changes_nothing() -> None:
    packing = Packing(NODES)
    packing.add(mask("0-1"), 3 * GIB)
    assert [packing.takes(mask("0-1"), n * GIB) for n in (1, 2, 1)] == [True, False, True]


def test_where_no_move_could_help_none_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most zones of a machine whose memory is nearly all promised are of this kind, and each decision asks for all."""
    packing = Packing(NODES)
    for zone in ("0-1", "1-2", "0,2"):
        packing.add(mask(zone), 2 * GIB)
    monkeypatch.delattr(Packing, "_augment")
    assert not packing.takes(mask("0"), GIB)
    assert not packing.takes(mask("0-2"), GIB)
    assert packing.takes(mask("3"), 2 * GIB)


def test_a_narrow_zone_that_overflows_is_named_before_a_wide_one() -> None:
    overflow = first_overflow(NODES, in_order([(mask("0"), 3 * GIB), (mask("0-1"), 4 * GIB)]))
    assert overflow is not None
    assert (overflow.zone, overflow.excess_bytes) == (mask("0"), GIB)
    elsewhere = first_overflow(SMALL, in_order([(mask("0-1"), 9), (mask("3"), 5)]))
    assert elsewhere is not None
    assert elsewhere.zone == mask("3")


def test_an_overflow_that_is_tolerated_hides_no_other_and_does_not_count_for_it() -> None:
    promises = in_order([(mask("0"), 3 * GIB), (mask("0-1"), 2 * GIB + 5)])
    overflow = first_overflow(NODES, promises, frozenset({mask("0")}))
    assert overflow is not None
    assert (overflow.zone, overflow.excess_bytes) == (mask("0-1"), 5)
    assert first_overflow(NODES, promises, frozenset({mask("0"), mask("0-1")})) is None


def random_burdens(rng: random.Random) -> list[tuple[int, int]]:
    return [(rng.randrange(1, 16), rng.randrange(1, 5)) for _ in range(rng.randrange(1, 7))]


@FEW
@given(st.integers(0, 1 << 32))
def test_the_packing_agrees_with_a_flow_of_every_single_promise(seed: int) -> None:
    promises = random_burdens(random.Random(seed))
    sums: dict[int, int] = {}
    for zone, amount in promises:
        sums[zone] = sums.get(zone, 0) + amount
    found = packed(SMALL, in_order(sums.items()))
    assert (found is not None) == can_be_kept(dict(SMALL.capacity_bytes), promises)


@FEW
@given(st.integers(0, 1 << 32))
def test_by_halls_theorem_promises_can_be_kept_when_no_union_has_too_many(seed: int) -> None:
    promises = in_order(dict(random_burdens(random.Random(seed))).items())
    fine = all(promised_inside(promises, union) <= SMALL.capacity(union) for union in range(16))
    overflow = first_overflow(SMALL, promises)
    assert (overflow is None) == fine
    if overflow is not None:
        assert promised_inside(promises, overflow.zone) - SMALL.capacity(overflow.zone) == overflow.excess_bytes > 0


@FEW
@given(st.integers(0, 1 << 32))
def test_what_overflows_does_not_depend_on_the_order_of_equal_zones(seed: int) -> None:
    rng = random.Random(seed)
    promises = list(dict(random_burdens(rng)).items())
    first = first_overflow(SMALL, in_order(promises))
    rng.shuffle(promises)
    assert first_overflow(SMALL, in_order(promises)) == first


def test_what_is_laid_out_lies_in_its_zone_and_fits() -> None:
    packing = packed(NODES, in_order([(mask("0-1"), 3 * GIB), (mask("1-3"), 4 * GIB)]))
    assert packing is not None
    assert [packing.takes(1 << node, GIB) for node in node_ids(NODES.every)] == [True] * 4
    assert not packing.takes(NODES.every, GIB + 1)


def test_what_was_moved_twice_is_found_where_it_lies_now() -> None:
    packing = Packing(NODES)
    assert not packing.add(mask("0-2"), 2 * GIB)  # on node 0
    assert not packing.add(mask("0"), GIB // 2)  # moves a part to node 1
    assert not packing.add(mask("0"), GIB // 2)  # and another
    assert not packing.add(mask("1"), 2 * GIB)  # moves both on to node 2
    assert not packing.add(mask("2"), GIB)
    assert packing.add(mask("2"), 1) == 1
    assert packing.reach(mask("0")) == mask("0-2")


def test_no_more_is_moved_than_there_is() -> None:
    packing = Packing(SMALL)
    assert not packing.add(mask("0-2"), 4)  # on node 0
    assert not packing.add(mask("0"), 2)  # moves 2 bytes to node 1
    assert packing.add(mask("1"), 5) == 1  # moves them on to node 2
    assert packing.add(mask("0"), 3) == 1  # moves the other 2


def test_what_came_in_the_place_of_another_can_be_moved_itself() -> None:
    packing = Packing(SMALL)
    assert not packing.add(mask("2-3"), 4)  # on node 2
    assert not packing.add(mask("0-1"), 4)  # on node 0
    assert not packing.add(mask("0,2"), 2)  # on node 0, from which 2 bytes move to node 1
    assert not packing.add(mask("0"), 2)  # the others follow
    assert not packing.add(mask("0"), 2)  # moves those of 0,2 to node 2, and as many from there to node 3


def test_who_can_be_moved_for_a_zone_is_found_over_several_zones() -> None:
    packing = Packing(NODES)
    for zone in ("0-1", "1-2", "2-3"):
        assert not packing.add(mask(zone), 2 * GIB)
    assert packing.reach(mask("0")) == mask("0-3")
    assert packing.reach(mask("3")) == mask("3")
