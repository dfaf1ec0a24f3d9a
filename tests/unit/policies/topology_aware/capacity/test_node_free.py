from collections.abc import Mapping
from dataclasses import replace

import pytest

from policies.answers import FreeOnNode
from policies.base import Allocations, HugePageLimit, Request
from policies.policy import Policy
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import BURSTABLE, placed, request, topology_aware

GI = 1 << 30
SHAPE: Mapping[str, object] = {"packages": 2, "cores": 4, "memory": "4Gi", "hugepages": {"2Mi": 256}}


def policy_on(**more: object) -> Policy:
    return topology_aware(describe({**SHAPE, **more}), "0")


def figures(policy: Policy, held: Allocations) -> list[tuple[int, int]]:
    return [(room.cpu_mcpu, room.memory_bytes >> 20) for room in policy.node_free(held)]


def filled(policy: Policy, *requests: Request) -> Allocations:
    held = Allocations()
    for asked in requests:
        decision = placed(policy.decide(held, asked))
        held = held.with_grants(*decision.moved, decision.grant)
    return held


def test_an_idle_node_has_all_but_what_is_reserved() -> None:
    room = policy_on().node_free(Allocations())
    assert [(r.node, r.cpu_mcpu) for r in room] == [(0, 3000), (1, 4000)]
    assert room[0] == FreeOnNode(0, room[0].mems, 3000, 4 * GI - (512 << 20), ((2 << 20, 512 << 20),))


def test_sharers_that_can_move_take_nothing_that_an_owner_could_have() -> None:
    policy = policy_on()
    assert figures(policy, filled(policy, request("p/c", 500)))[0][0] >= 3000


def test_memory_of_a_guaranteed_pod_is_taken_where_it_is() -> None:
    policy = policy_on()
    held = filled(policy, request("p/c", 1000, memory_limit_bytes=GI))
    assert sorted(memory for _, memory in figures(policy, held)) == [3584 - 1024, 3584]


def test_memory_of_a_burstable_pod_that_can_be_elsewhere_is_available() -> None:
    policy = policy_on()
    held = filled(policy, request("p/c", 100, BURSTABLE, memory_request_bytes=GI))
    assert [memory for _, memory in figures(policy, held)] == [3584, 3584]


def test_huge_pages_that_are_taken_are_not_there() -> None:
    policy = policy_on()
    held = filled(policy, replace(request("p/c", 1000), huge_pages=(HugePageLimit(2 << 20, 64 << 20),)))
    left = sorted(room.huge_pages[0][1] >> 20 for room in policy.node_free(held))
    assert left == [448, 512]


@pytest.mark.parametrize(("isolated", "expected"), [("3", 2000), ("1-3", 1000)])
def test_isolated_cpus_are_for_a_container_of_one(isolated: str, expected: int) -> None:
    """Two ordinary CPUs and one isolated are for an owner of two; of three isolated ones one is."""
    assert figures(policy_on(isolated=isolated), Allocations())[0][0] == expected
