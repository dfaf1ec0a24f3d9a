"""Which of the pools that suit equally a container gets."""

import pytest

from policies.base import Allocations, CpuKind, Grant, QosClass
from policies.preferences import PoolStrategy
from policies.topology_aware.options import PoolWeight
from policies.topology_aware.packing import filling_of
from policies.topology_aware.policy import TopologyAware
from policies.topology_aware.supply.load import load_of
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    context_of,
    fill,
    four_nodes,
    placed,
    request,
    topology_aware,
    tree_of,
)

PACK, BALANCED = PoolStrategy.PACK, PoolStrategy.BALANCED
GIB = 1 << 30


def policy(strategy: PoolStrategy) -> TopologyAware:
    return topology_aware(four_nodes(), pool_choice=strategy)


def pools(held: Allocations) -> list[str]:
    return [grant.pool for grant in held.grants]


def test_packed_containers_fill_a_node_before_the_next_and_a_package_before_the_other() -> None:
    packing = policy(PACK)
    held = fill(packing, *(request(f"{n}/c", 1000) for n in range(8)))
    assert sorted(pools(held)) == ["NUMA node #0"] * 4 + ["NUMA node #1"] * 4


def test_the_tightest_node_that_has_room_gets_a_packed_container() -> None:
    packing = policy(PACK)
    held = fill(packing, request("a/c", 3000), request("b/c", 2000))
    assert pools(held) == ["NUMA node #0", "NUMA node #1"]
    assert placed(packing.decide(held, request("c/c", 1000))).grant.pool == "NUMA node #0"
    assert placed(packing.decide(held, request("c/c", 2000))).grant.pool == "NUMA node #1"


def test_a_packed_container_without_a_request_leaves_an_untouched_package_alone() -> None:
    packing = policy(PACK)
    held = fill(packing, request("a/c", 2000), *(request(f"{n}/c", 0, BEST_EFFORT) for n in range(3)))
    assert pools(held) == ["socket #0"] * 3 + ["NUMA node #0"]


def test_an_annotation_decides_for_one_container() -> None:
    spreading = policy(PoolStrategy.SPREAD)
    held = fill(spreading, request("a/c", 2000))
    packed = placed(spreading.decide(held, request("b/c", 2000, pool_choice=PACK)))
    spread = placed(spreading.decide(held, request("b/c", 2000)))
    assert packed.grant.pool == held.grants[0].pool != spread.grant.pool
    assert "suits the pool choice less" in packed.reasons[-1].text


@pytest.mark.parametrize(("weights", "beside"), [({"cpu": 1, "memory": 1}, "b"), ({"cpu": 3, "memory": 0}, "a")])
def test_balanced_weighs_what_is_left_of_cpus_and_of_memory(weights: dict[str, int], beside: str) -> None:
    """Container a has one CPU of its node and half the memory, b two CPUs and no memory."""
    entries = tuple(PoolWeight(name, weight) for name, weight in weights.items())
    two = topology_aware(
        small_machine(packages=1, nodes=2, cores=4, threads=1), pool_choice=BALANCED, pool_weights=entries
    )
    held = fill(two, request("a/c", 1000, memory_request_bytes=GIB), request("b/c", 2000))
    home = {grant.request.pod.name: grant.pool for grant in held.grants}
    assert home["a"] != home["b"]
    assert placed(two.decide(held, request("c/c", 1000))).grant.pool == home[beside]


@pytest.mark.parametrize(
    ("strategy", "before_mcpu", "asked_mcpu", "chosen", "next_would_be"),
    [
        pytest.param(
            PACK,
            [3000],
            2000,
            "NUMA node #1",
            "NUMA node #2, which lies where more is left, which stays whole for larger containers",
            id="pack looks above",
        ),
        pytest.param(
            PoolStrategy.SPREAD,
            [2000],
            2000,
            "NUMA node #2",
            "NUMA node #3, which is equal but comes later",
            id="equal",
        ),
        pytest.param(
            PoolStrategy.SPREAD,
            [2000, 2000, 2000],
            2000,
            "NUMA node #3",
            "NUMA node #2, which lies where more is in use",
            id="half of the machine",
        ),
        pytest.param(
            PoolStrategy.SPREAD,
            [3000, 3000, 2000],
            1000,
            "NUMA node #2",
            "NUMA node #0, which has fewer CPUs, in it or around it",
            id="more than half, the emptier package",
        ),
        pytest.param(
            PoolStrategy.SPREAD,
            [3000, 3000, 2000],
            2000,
            "NUMA node #1",
            "NUMA node #3, which lies where more is left, which stays whole for larger containers",
            id="more than half, the fullest that has room",
        ),
    ],
)
def test_the_explanation_has_what_decided(
    strategy: PoolStrategy, before_mcpu: list[int], asked_mcpu: int, chosen: str, next_would_be: str
) -> None:
    held = fill(policy(strategy), *(request(f"{n}/c", mcpu) for n, mcpu in enumerate(before_mcpu)))
    why = placed(policy(strategy).decide(held, request("x/c", asked_mcpu))).reasons[-1].text
    assert why.partition(" gives ")[0] == chosen
    assert why.partition("next would be ")[2] == next_would_be


def test_a_pool_that_is_smaller_for_its_reserved_cpus_is_not_said_to_be_in_use() -> None:
    decision = placed(topology_aware(four_nodes(), "0").decide(Allocations(), request("x/c", 2000)))
    others = [dict(row.key) for row in decision.ranking if row.pool in ("NUMA node #0", "NUMA node #1")]
    assert [(key["used"], key["left"]) for key in others] == [("0/0", "4"), ("0/0", "3")]


@pytest.mark.parametrize(
    ("owned", "isolated", "mcpu", "qos", "is_tight"),
    [
        ("0-6", "", 1000, GUARANTEED, False),  # half of the 16 CPUs
        ("0-7", "", 1000, GUARANTEED, True),
        ("0-6", "", 1001, GUARANTEED, True),
        ("0-7", "", 1000, BURSTABLE, False),
        ("0-7", "", 0, BEST_EFFORT, False),
        ("0-5", "12-15", 1000, GUARANTEED, False),  # isolated ones are of the machine
        ("0-5", "12-15", 3000, GUARANTEED, True),
    ],
)
def test_a_machine_is_tight_for_an_owner_with_which_more_than_half_of_it_is_in_use(
    owned: str, isolated: str, mcpu: int, qos: QosClass, *, is_tight: bool
) -> None:
    other = Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(owned))
    context = context_of(tree_of(four_nodes(isolated=isolated)), request("a/c", mcpu, qos), other)
    assert filling_of(context, load_of(context.supply)).is_tight is is_tight
