"""How containers that share are balanced: by the CPU time requested for each shared CPU, and by what they can use."""

from collections import Counter

import pytest

from policies.base import Allocations
from policies.preferences import BurstLevel
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, fill, four_nodes, placed, request, topology_aware

POLICY = topology_aware(four_nodes(), "0")
NOTHING = Allocations()


def test_sharers_go_where_less_is_requested_for_each_cpu() -> None:
    held = fill(POLICY, *(request(f"{n}/c", 500) for n in range(4)))
    assert {grant.pool for grant in held.grants} == {f"NUMA node #{n}" for n in range(4)}
    held = fill(POLICY, request("big/c", 2500), *(request(f"{n}/c", 100) for n in range(6)))
    *small, big = held.grants
    assert big.pool not in {grant.pool for grant in small}


def test_a_single_cpu_that_is_left_over_is_not_the_quiet_pool() -> None:
    held = fill(POLICY, request("own/c", 3000), *(request(f"{n}/c", 100) for n in range(3)))
    own, *others = [g.pool for g in reversed(held.grants)]
    assert own not in others
    assert placed(POLICY.decide(held, request("last/c", 100))).grant.pool != own


def test_best_effort_gets_the_level_of_burst_that_a_burstable_container_without_a_limit_gets() -> None:
    pools = [placed(POLICY.decide(NOTHING, request("a/c", 0, qos))).grant.pool for qos in (BEST_EFFORT, BURSTABLE)]
    assert pools == ["socket #1", "socket #1"]
    annotated = request("a/c", 0, BEST_EFFORT, burst_level=BurstLevel.NUMA)
    assert placed(POLICY.decide(NOTHING, annotated)).grant.pool == "NUMA node #1"


def test_an_owner_leaves_those_with_a_limit_their_width_where_it_can() -> None:
    wide = request("a/c", 100, BURSTABLE, cpu_limit_mcpu=4000)
    held = fill(POLICY, wide, *(request(f"b{n}/c", 900) for n in range(3)))
    decision = placed(POLICY.decide(held, request("own/c", 2000)))
    assert decision.grant.pool != held.grants[0].pool


@pytest.mark.parametrize(
    ("shape", "reserved", "mcpu", "limit_mcpu", "counts"),
    [
        pytest.param({"nodes": 2, "cores": 4}, "0", 2000, 4000, (1, 1), id="three idle CPUs beside four in use"),
        pytest.param({"nodes": 2, "cores": 4}, "0-1", 2000, 4000, (1, 1), id="half of a node is reserved"),
        pytest.param({"nodes": 2, "cores": 2}, "0", 1000, 2000, (1, 1), id="a machine of four CPUs"),
        pytest.param({"packages": 2, "cores": 8}, "0-2", 2000, 8000, (1, 3), id="most of a socket"),
        pytest.param({"packages": 2, "cores": 32, "threads": 2}, "0-1", 7000, 64000, (4, 4), id="eight JVMs"),
        pytest.param({"packages": 4, "cores": 16}, "0", 4000, 16000, (2, 2, 2, 2), id="four sockets"),
        pytest.param({"nodes": 4, "cores": 16}, "0", 4000, 16000, (2, 2, 2, 2), id="four nodes of one socket"),
    ],
)
def test_a_pool_that_reserved_cpus_make_narrow_is_used_where_as_much_can_be_expected(
    shape: dict[str, object], reserved: str, mcpu: int, limit_mcpu: int, counts: tuple[int, ...]
) -> None:
    policy = topology_aware(describe(shape), reserved)
    wanted = [request(f"{n}/c", mcpu, BURSTABLE, cpu_limit_mcpu=limit_mcpu) for n in range(sum(counts))]
    found = Counter(grant.pool for grant in fill(policy, *wanted).grants)
    assert sorted(found.values()) == sorted(counts)
    assert "root" not in found


def test_a_pool_that_reserved_cpus_make_narrow_is_not_used_where_less_can_be_expected() -> None:
    policy = topology_aware(describe({"nodes": 2, "cores": 8}), "0-4")
    wanted = [request(f"{n}/c", 2000, BURSTABLE, cpu_limit_mcpu=8000) for n in range(3)]
    assert {grant.pool for grant in fill(policy, *wanted).grants} == {"NUMA node #1"}
