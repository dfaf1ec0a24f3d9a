import random

from hypothesis import given
from hypothesis import strategies as st

from policies.base import QosClass
from policies.topology_aware.memory.widen import widened
from policies.topology_aware.supply.memory_account import Promise, promise_of
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from sysfs.cpuset import NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, GUARANTEED, request
from tests.unit.policies.memory.build import FEW, GIB, PMEM, at, can_be_kept, mask, tiered, wanting

FOUR = memory_nodes_of(small_machine(nodes=2))  # 2 GiB each; 0-1 and 2-3 in a package
TIERED = memory_nodes_of(tiered())


def promise(name: str, gibibytes: float, zone: str, priority: int = 1, *, is_new: bool = False) -> Promise:
    key = request(f"{name}/c").container
    return Promise(key, priority, mask(zone), FOUR.every, int(gibibytes * GIB), is_new)


def moved(*promises: Promise) -> dict[str, str]:
    return {
        key.pod_uid: str(NodeSet(zone))
        for key, zone in widened(FOUR, {each.container: each for each in promises}).items()
    }


def test_nobody_moves_while_there_is_room() -> None:
    assert moved(promise("a", 2, "0"), promise("b", 2, "1")) == {}


def test_the_container_that_comes_widens_before_its_equals() -> None:
    assert moved(promise("a", 0.5, "0"), promise("b", 2, "0", is_new=True)) == {"b": "0-1"}


def test_a_lower_class_widens_before_the_container_that_comes() -> None:
    assert moved(promise("a", 1.5, "0"), promise("b", 1, "0", 2, is_new=True)) == {"a": "0-1"}


def test_small_ones_widen_before_large_ones_and_equals_by_name() -> None:
    assert moved(promise("c", 1.5, "0"), promise("b", 0.5, "0"), promise("a", 0.5, "0")) == {"a": "0-1"}


def test_small_ones_stay_when_a_large_one_must_go_anyway() -> None:
    assert moved(promise("a", 0.5, "0"), promise("b", 3, "0")) == {"b": "0-1"}


def test_of_the_small_ones_only_so_many_stay_as_the_large_one_makes_room_for() -> None:
    small = (promise("a", 0.5, "0"), promise("b", 0.5, "0"))
    assert moved(*small, promise("c", 1, "0"), promise("d", 1.5, "0", 2)) == {"a": "0-1", "c": "0-1"}


def test_a_zone_is_widened_again_where_the_wider_one_overflows_too() -> None:
    full = [promise("a", 2, "0", 2), promise("b", 2, "1", 2)]
    assert moved(*full, promise("c", 1, "0")) == {"c": "0-2"}


def test_others_make_room_where_the_widened_zone_is_full() -> None:
    assert moved(promise("a", 2, "0", 2), promise("b", 2, "1", 0), promise("c", 2, "2"), promise("d", 1, "0", 2)) == {
        "b": "0-1,3",
        "d": "0-1",
    }


def test_other_kinds_are_drawn_in_last_and_pmem_before_hbm() -> None:
    grants = [at("socket #0", wanting(name, 3), "0") for name in "abc"]
    found = widened(TIERED, {g.container: promise_of(TIERED, g) for g in grants})
    assert sorted(str(NodeSet(zone)) for zone in found.values()) == ["0-1", "0-2"]


def test_strict_wishes_stay_within_their_kinds_and_others_leave_them_the_room() -> None:
    strict = at("socket #0", wanting("a", 16, GUARANTEED, memory_kinds=(PMEM,), strict_memory=True), "2")
    other = at("socket #0", wanting("b", 5, GUARANTEED), "0,2")
    assert widened(TIERED, {g.container: promise_of(TIERED, g) for g in (strict, other)}) == {
        other.container: mask("0-2")
    }


def test_nobody_moves_for_what_cannot_be_cured() -> None:
    """All of it is more than the machine has; only the node that can be relieved is."""
    assert moved(promise("a", 9, "0-3"), promise("b", 1, "0")) == {}
    assert moved(promise("a", 9, "0-3"), promise("b", 3, "0")) == {"b": "0-3"}


def test_the_order_of_the_claims_does_not_matter() -> None:
    promises = [promise(name, 0.5 * n, "0" if n % 2 else "0-1", n % 3) for n, name in enumerate("abcdefg", 1)]
    first = moved(*promises)
    assert first
    for seed in range(5):
        random.Random(seed).shuffle(promises)
        assert moved(*promises) == first


def random_claims(rng: random.Random) -> list[Promise]:
    kinds = list(QosClass)
    grants = [
        at("root", wanting(str(n), rng.randrange(1, 12) / 2, rng.choice(kinds)), str(NodeSet(rng.randrange(1, 32))))
        for n in range(rng.randrange(2, 14))
    ]
    return [promise_of(TIERED, grant) for grant in grants]


@FEW
@given(st.integers(0, 1 << 32))
def test_whatever_can_be_kept_is_kept_by_widening_alone(seed: int) -> None:
    promises = random_claims(random.Random(seed))
    zones = widened(TIERED, {each.container: each for each in promises})
    now = [(zones.get(c.container, c.zone), c.promised_bytes) for c in promises]
    assert all(not c.zone & ~zone & c.widest for c, (zone, _) in zip(promises, now, strict=True))
    room = dict(TIERED.capacity_bytes)
    assert can_be_kept(room, now) == can_be_kept(room, [(c.widest, c.promised_bytes) for c in promises])


def test_classes_are_told_apart_in_the_order_of_kubernetes() -> None:
    classes = (BEST_EFFORT, BURSTABLE, GUARANTEED)
    assert [promise_of(FOUR, at("root", wanting("a", 1, qos), "0")).priority for qos in classes] == [0, 1, 2]
