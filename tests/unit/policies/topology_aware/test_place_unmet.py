"""A wish to be near a device or another container costs nothing where its neighbourhood is full."""

from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, DeviceLocality, Grant, QosClass, Request
from policies.preferences import Preferences
from policies.topology_aware.cpus.allocate import take
from policies.topology_aware.explain import PoolChoice, choice_reasons
from policies.topology_aware.keys.pool_keys import FixedScores
from policies.topology_aware.ranking import rank
from policies.topology_aware.reason_codes import ReasonCode
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BURSTABLE,
    before,
    context_of,
    fill,
    four_nodes,
    placed,
    rejected,
    request,
    topology_aware,
    tree_of,
    wish_for,
)

POLICY = topology_aware(four_nodes())  # sockets of nodes 0-1 and 2-3, of four CPUs each
GPU = DeviceLocality("/dev/gpu", CpuSet(), NodeSet.parse("0"))
NIC = DeviceLocality("/dev/nic", CpuSet(), NodeSet.parse("2"))


def owners(*cpus: str) -> Allocations:
    """These CPUs have owners."""
    sets = [CpuSet.parse(text) for text in cpus]
    wanted = (request(f"o{n}/c", 1000 * len(s), previous=before("root", str(s))) for n, s in enumerate(sets))
    return fill(POLICY, *wanted)


def place(held: Allocations, wanted: Request) -> tuple[str, str, str]:
    grant = placed(POLICY.decide(held, wanted)).grant
    return grant.pool, str(grant.owned), str(grant.mems)


def shares(name: str, mcpu: int, **keys: object) -> Request:
    return request(name, mcpu, BURSTABLE, cpu_limit_mcpu=mcpu, **keys)


def test_near_its_device_where_there_is_room() -> None:
    assert place(Allocations(), request("a/c", 2000, localities=(GPU,))) == ("NUMA node #0", "0-1", "0")
    assert place(Allocations(), shares("a/c", 500, localities=(GPU,)))[0] == "NUMA node #0"


def test_in_the_next_node_of_the_socket_where_the_node_of_the_device_is_full() -> None:
    held = owners("0-2")
    assert place(held, request("a/c", 2000, localities=(GPU,))) == ("NUMA node #1", "4-5", "1")
    assert place(held, shares("a/c", 1500, localities=(GPU,))) == ("NUMA node #1", "", "1")


@pytest.mark.parametrize("wanted", [request("a/c", 2000), shares("a/c", 1500)])
def test_in_one_node_of_the_other_socket_where_the_socket_of_the_device_is_full(wanted: Request) -> None:
    held = owners("0-3", "4-6")
    pool, owned, mems = place(held, replace(wanted, localities=(GPU,)))
    assert (pool, owned, mems) == place(held, wanted)
    assert pool.startswith("NUMA node")


def test_in_the_nearest_socket_that_has_room() -> None:
    rows = [[10, 31, 21], [31, 10, 31], [21, 31, 10]]
    policy = topology_aware(small_machine(packages=3, distances=rows))
    near = request("a/c", 2000, localities=(GPU,))
    width = len(policy.machine.online) // 3
    full = fill(policy, request("o/c", 1000 * width, previous=before("socket #0", f"0-{width - 1}")))
    assert placed(policy.decide(full, near)).grant.pool == "socket #2"


def test_between_two_devices_while_there_is_room_near_each() -> None:
    wanted = request("a/c", 2000, localities=(GPU, NIC))
    assert place(Allocations(), wanted)[:2] == ("root", "0,8")
    pool, owned, _ = place(owners("0-3"), wanted)
    assert (pool, owned) == ("NUMA node #2", "8-9")


def test_more_cpus_than_the_device_has_near_it_take_those_and_the_next() -> None:
    assert place(Allocations(), request("a/c", 6000, localities=(GPU,)))[:2] == ("socket #0", "0-5")


def neighbour(held: Allocations) -> Allocations:
    return fill(POLICY, shares("p/db", 500, previous=before("NUMA node #0")), held=held)


def test_near_the_other_container_where_there_is_room() -> None:
    near = shares("p/web", 500, affinities=wish_for("db", 5))
    assert place(neighbour(Allocations()), near)[0] == "NUMA node #0"


def test_in_one_node_where_the_neighbourhood_of_the_other_container_is_full() -> None:
    near = request("p/web", 2000, affinities=wish_for("db", 5))
    assert place(neighbour(owners("1-3")), near) == ("NUMA node #1", "4-5", "1")
    far: Grant = placed(POLICY.decide(neighbour(owners("1-3", "4-6")), near)).grant
    assert (far.pool, str(far.mems)) == ("NUMA node #2", "2")


def best_effort(name: str, **keys: object) -> Request:
    return request(name, 0, QosClass.BEST_EFFORT, localities=(GPU,), **keys)


def test_best_effort_is_not_pressed_onto_the_cpu_that_owners_near_its_device_have_left_over() -> None:
    assert place(owners("0-2"), best_effort("a/c"))[0] == "socket #0"
    assert place(owners("0-1"), best_effort("a/c"))[0] == "NUMA node #0"
    # Where owners have most of the machine, it is not worse off there than elsewhere.
    assert place(owners("0-2", "4-6", "8-10", "12-13"), best_effort("a/c"))[0] == "NUMA node #0"


def test_best_effort_leaves_a_crowded_neighbourhood_of_its_device_to_others() -> None:
    crowd = fill(POLICY, shares("b/c", 3000, previous=before("NUMA node #0")))
    assert place(crowd, best_effort("a/c"))[0] != "NUMA node #0"
    assert place(crowd, shares("a/c", 500, localities=(GPU,)))[0] == "NUMA node #0"  # its CPU time is kept for it there


def test_a_burstable_container_is_near_its_device_where_its_limit_is_met() -> None:
    wanted = request("a/c", 100, BURSTABLE, cpu_limit_mcpu=2000, localities=(GPU,))
    assert place(owners("0-2"), wanted)[0] == "NUMA node #1"
    assert place(owners("0-2"), replace(wanted, cpu_limit_mcpu=1000))[0] == "NUMA node #0"


def test_a_strict_wish_refuses_a_container_without_a_request_where_nothing_near_is_shared() -> None:
    strict = best_effort("a/c", strict_locality=True)
    assert placed(POLICY.decide(owners("0-2"), strict)).grant.pool == "NUMA node #0"
    assert rejected(POLICY.decide(owners("0-3"), strict)).reason.code == ReasonCode.STRICT_HINTS
    policy = topology_aware(four_nodes(), "0")
    full = fill(policy, *(request(f"o{n}/c", 1000 * count) for n, count in enumerate((4, 4, 4, 3))))
    alone = request("a/c", 0, QosClass.BEST_EFFORT, single_node=True)
    assert placed(policy.decide(full, replace(alone, preferences=Preferences()))).grant.kind is CpuKind.SHARED
    assert rejected(policy.decide(full, alone)).reason.code == ReasonCode.STRICT_NODE


def why(held: Allocations, wanted: Request, code: ReasonCode) -> list[str]:
    return [reason.text for reason in placed(POLICY.decide(held, wanted)).reasons if reason.code == code]


def test_the_explanation_says_which_device_it_is_not_near_and_why() -> None:
    def told(held: Allocations, wanted: Request) -> list[str]:
        return why(held, wanted, ReasonCode.HINTS_UNMET)

    assert told(Allocations(), request("a/c", 2000, localities=(GPU, NIC))) == []
    assert told(owners("0-1"), best_effort("a/c")) == []
    text = "it is not near /dev/gpu (NUMA node #0): there is no room for it there"
    assert told(owners("0-2"), request("a/c", 2000, localities=(GPU,))) == [text]
    assert told(owners("0-2"), best_effort("a/c")) == [text]
    assert told(Allocations(), request("a/c", 1000, localities=(GPU, NIC))) == [
        "it is not near /dev/nic (NUMA node #2)"
    ]
    drawn = shares("p/web", 500, localities=(NIC,), affinities=wish_for("db", 5))
    assert told(neighbour(Allocations()), drawn) == [
        "it is not near /dev/nic (NUMA node #2): NUMA node #2 attracts less by affinity"
    ]


def test_the_explanation_says_why_affinity_is_not_followed() -> None:
    near = request("p/web", 3000, affinities=wish_for("db", 5))
    held = neighbour(owners("1"))
    assert why(held, near, ReasonCode.AFFINITY_UNMET) == [
        "affinity draws it most to NUMA node #0, which is too small: 2500m free, of which 2 CPUs can be owned"
    ]
    assert why(held, replace(near, cpu_request_mcpu=2000), ReasonCode.AFFINITY_UNMET) == []


def test_the_explanation_is_a_sentence_where_the_pool_is_ruled_out_and_not_full() -> None:
    held = fill(POLICY, request("p/db", 500, BURSTABLE, previous=before("socket #0")))
    wanted = request("p/web", 2000, affinities=wish_for("db", 5), single_node=True)
    assert why(held, wanted, ReasonCode.AFFINITY_UNMET) == [
        "affinity draws it most to socket #0, which is wider than one NUMA node"
    ]


def test_a_pool_that_ranks_higher_and_could_not_give_its_cpus_is_not_said_to_attract_less() -> None:
    wanted = context_of(
        tree_of(four_nodes()), request("p/web", 1000, affinities=wish_for("db", 5)), *neighbour(Allocations()).grants
    )
    room = room_of(wanted.supply, keep_busy=True)
    ranking = rank(wanted, FixedScores(wanted), room, room)
    second = ranking.order[1]
    pool, offer = wanted.tree.pools[second], ranking.offers[second]
    taken = take(wanted, pool, offer, room.give)
    assert taken is not None
    found = choice_reasons(wanted, ranking, PoolChoice(pool, second, offer, taken, (), ()))
    assert [reason.text for reason in found if reason.code == ReasonCode.AFFINITY_UNMET] == [
        "affinity draws it most to NUMA node #0, which could not give what is asked after all"
    ]
