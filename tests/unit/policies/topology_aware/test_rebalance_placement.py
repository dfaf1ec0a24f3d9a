"""Sharers that lose CPUs to a container that comes move where they have enough, as they are updated anyway."""

from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, CpuKind, DeviceLocality, Grant, Placed, Request
from policies.preferences import BurstLevel, Threads
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, before, four_nodes, placed, request, topology_aware
from tests.unit.policies.memory.build import GIB

RIVALS = [(node, ContainerKey(f"t{node}", "c")) for node in (1, 2, 3)]
POLICY = topology_aware(four_nodes())  # four nodes of four CPUs and 2 GiB


def sharer(name: str, mcpu: int, limit_mcpu: int | None, node: int = 0, **keys: object) -> Grant:
    qos = BURSTABLE if mcpu else BEST_EFFORT
    wanted = request(f"{name}/c", mcpu, qos, cpu_limit_mcpu=limit_mcpu, burst_level=BurstLevel.NUMA, **keys)
    mems = NodeSet.of([node])
    return Grant(wanted, f"NUMA node #{node}", CpuKind.SHARED, shared_mcpu=mcpu, mems=mems)


def owner(mcpu: int, node: int = 0) -> Request:
    """It is created again, and gets its earlier node."""
    return request("own/c", mcpu, previous=before(f"NUMA node #{node}"))


def moved(decision: Placed) -> dict[str, tuple[str, str]]:
    return {grant.container.pod_uid: (grant.pool, str(grant.mems)) for grant in decision.moved}


def test_one_that_would_be_below_its_limit_goes_where_it_fits() -> None:
    decision = placed(POLICY.decide(Allocations((sharer("s", 500, 3000),)), owner(2000)))
    assert moved(decision) == {"s": ("NUMA node #2", "0,2")}
    assert [key.pod_uid for key in decision.rebalanced] == ["s"]
    assert [(update.container.pod_uid, str(update.pinning.cpus)) for update in decision.updates] == [("s", "8-11")]
    (reason,) = (reason for reason in decision.reasons if reason.code == "rebalanced")
    text = "1 container with too few of the CPUs left here moved with the same update: s/c to NUMA node #2"
    assert reason.text == text


@pytest.mark.parametrize(
    ("mcpu", "limit_mcpu", "owned_mcpu", "moves"),
    [
        (500, 2000, 2000, False),  # it has as many as its limit
        (500, 2001, 2000, True),
        (500, None, 1000, False),
        (500, None, 2000, True),  # without a limit, two are few
        (0, None, 1000, False),
        (0, None, 2000, False),  # no other place is quieter by as much as a move is worth
        (0, None, 3000, True),
        (0, None, 4000, False),  # its node is used up: it shares the other of the socket
    ],
)
def test_one_stays_that_has_enough(mcpu: int, limit_mcpu: int | None, owned_mcpu: int, moves: bool) -> None:
    decision = placed(POLICY.decide(Allocations((sharer("s", mcpu, limit_mcpu),)), owner(owned_mcpu)))
    assert bool(decision.moved) is moves


def test_one_whose_limit_fits_no_other_node_goes_to_a_wider_pool() -> None:
    others = [sharer(f"o{node}", 3500, 4000, node) for node in range(1, 4)]
    assert moved(placed(POLICY.decide(Allocations((sharer("s", 1000, 3000), *others)), owner(2000)))) == {
        "s": ("socket #0", "0-1")
    }


def test_no_more_move_than_at_a_slow_check_and_those_that_ask_for_most_go_first() -> None:
    held = Allocations(tuple(sharer(f"s{n}", 100 * n, 4000) for n in range(1, 5)))
    assert moved(placed(POLICY.decide(held, owner(1000)))).keys() == {"s4", "s3"}
    none = topology_aware(four_nodes(), moves_per_check=0)
    assert placed(none.decide(held, owner(1000))).moved == ()


def test_none_moves_whose_cpus_are_not_written() -> None:
    held = Allocations((sharer("s", 500, 3000),))
    policy = topology_aware(four_nodes(), pin_cpu=False)
    assert placed(policy.decide(held, owner(2000))).moved == ()


def test_none_moves_for_one_that_grows_while_it_runs() -> None:
    held = Allocations((sharer("s", 500, 3000), placed(POLICY.decide(Allocations(), owner(1000))).grant))
    grown = owner(2000)
    own = held.grants[-1]
    decision = placed(POLICY.decide(held, replace(grown, previous=own.as_previous)))
    assert (len(decision.grant.owned), decision.moved) == (2, ())


def test_none_moves_for_one_that_shares() -> None:
    decision = placed(POLICY.decide(Allocations((sharer("s", 500, 4000),)), request("t/c", 500, BURSTABLE)))
    assert decision.moved == ()


def test_its_memory_is_where_it_goes_too() -> None:
    full = [sharer(f"f{node}", 100, 100, node, memory_request_bytes=2 * GIB) for node in (1, 2)]
    held = Allocations((sharer("s", 500, 3000, memory_request_bytes=GIB), *full))
    assert moved(placed(POLICY.decide(held, owner(2000)))) == {"s": ("NUMA node #3", "0,3")}


@pytest.mark.parametrize("strict", [False, True])
def test_one_on_a_thread_of_each_core_moves_where_it_has_the_cores_that_it_asks_for(strict: bool) -> None:
    hider = sharer("s", 2000, 2000, threads=Threads.HIDE, strict_threads=strict)
    decision = placed(POLICY.decide(Allocations((hider,)), owner(2000)))
    assert [(update.container.pod_uid, str(update.pinning.cpus)) for update in decision.updates] == [("s", "8,10")]
    assert "others-too-few-cores" not in {reason.code for reason in decision.reasons}


def test_one_on_a_thread_of_each_core_that_has_too_few_is_named_where_no_place_has_them() -> None:
    hider = sharer("s", 2000, 2000, threads=Threads.HIDE)
    taken = [placed(POLICY.decide(Allocations(), replace(owner(4000, n), container=key))).grant for n, key in RIVALS]
    decision = placed(POLICY.decide(Allocations((hider, *taken)), owner(2000)))
    assert decision.reasons[-2].text == (
        "1 container on one thread of each core now shares fewer cores than it asks for: s/c (2000m)"
    )
    again = replace(owner(1000), container=RIVALS[0][1])
    after = Allocations((hider, decision.grant))
    assert "others-too-few-cores" not in {reason.code for reason in placed(POLICY.decide(after, again)).reasons}


@pytest.mark.parametrize(
    ("limit_mcpu", "owned_mcpu", "moves"), [(None, 3000, True), (None, 1000, False), (1000, 3000, False)]
)
def test_one_leaves_its_device_where_an_owner_leaves_it_few_cpus(
    limit_mcpu: int | None, owned_mcpu: int, moves: bool
) -> None:
    """By the rule of placement: its limit, or half as many as elsewhere."""
    near = (DeviceLocality("/dev/nic0", CpuSet.parse("0-3"), NodeSet.of([0])),)
    held = Allocations((sharer("s", 500, limit_mcpu, localities=near),))
    assert bool(placed(POLICY.decide(held, owner(owned_mcpu))).moved) is moves
