import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.alignment import TopologyOptions, TopologyPolicy
from policies.answers import LargestFit, NodeFit
from policies.base import Allocations, Decision, DeviceLocality, Placed
from policies.policy import Policy
from policies.preferences import Threads
from policies.topology_aware.capacity.largest_fit import ASKING
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import NodeSet
from sysfs.descriptions.machine import describe
from sysfs.model import NumaNode
from tests.property.random_requests import random_request
from tests.unit.policies.build import request, topology_aware

FOUR: Mapping[str, object] = {"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "4Gi"}
SHAPES: tuple[Mapping[str, object], ...] = (
    FOUR,
    {"cores": 8, "memory": "4Gi"},
    {"nodes": 3, "cores": 3, "isolated": "5,8", "memory": "1Gi"},
)

OPTIONS: tuple[dict[str, object], ...] = ({}, {"threads": Threads.OWN_CORE, "strict_threads": True})


def policy_on(shape: Mapping[str, object], **options: object) -> Policy:
    return topology_aware(describe(shape), "0", **options)


def filled(policy: Policy, *mcpus: int) -> Allocations:
    held = Allocations()
    for n, mcpu in enumerate(mcpus):
        decision = policy.decide(held, request(f"p{n}/c", mcpu))
        assert isinstance(decision, Placed)
        held = held.with_grants(*decision.moved, decision.grant)
    return held


def fit_of(policy: Policy, held: Allocations) -> LargestFit:
    found = policy.largest_fit(held)
    assert found is not None
    return found


def dry(policy: Policy, held: Allocations, count: int, node: NumaNode) -> Decision:
    """Decide on a container of so many CPUs that may own none beyond this node."""
    near = (DeviceLocality("node", node.cpus, NodeSet.of([node.id])),)
    wishes = replace(ASKING.preferences, strict_locality=True)
    return policy.decide(held, replace(ASKING, cpu_request_mcpu=1000 * count, localities=near, preferences=wishes))


def makes_room(decision: Decision) -> bool:
    codes = {reason.code for reason in decision.reasons} if isinstance(decision, Placed) else set()
    lifts = ReasonCode.LIFTED in codes and ReasonCode.KEPT_TOGETHER not in codes
    return lifts or ReasonCode.RESERVED_RETURNED in codes


def test_an_empty_machine_gives_all_but_its_reserved_cpus() -> None:
    found = fit_of(policy_on(FOUR), Allocations())
    nodes = tuple(NodeFit(node, cpus, cpus) for node, cpus in enumerate((3, 4, 4, 4)))
    assert found == LargestFit(free_cpus=15, free_isolated=0, cpus=15, cpus_with_moves=15, nodes=nodes)


def test_sharers_that_can_move_leave_more() -> None:
    policy = policy_on(FOUR)
    found = fit_of(policy, filled(policy, 500, 500, 500, 500))
    assert [(node.cpus, node.cpus_with_moves) for node in found.nodes] == [(2, 3), (3, 4), (3, 4), (3, 4)]
    assert (found.free_cpus, found.cpus, found.cpus_with_moves) == (11, 11, 13)


def test_isolated_cpus_are_counted_apart() -> None:
    found = fit_of(policy_on({**FOUR, "isolated": "14-15"}), Allocations())
    assert (found.free_isolated, found.free_cpus, found.nodes[3].cpus) == (2, 13, 2)


@pytest.mark.parametrize(
    "options", [{"single_node": True}, {"topology": TopologyOptions(TopologyPolicy.SINGLE_NUMA_NODE)}]
)
def test_where_one_node_must_have_all_the_largest_is_that_of_a_node(options: dict[str, object]) -> None:
    found = fit_of(policy_on(FOUR, **options), Allocations())
    assert (found.free_cpus, found.cpus) == (15, 4)


@given(st.sampled_from(SHAPES), st.sampled_from(OPTIONS), st.integers(0, 1 << 32))
def test_so_many_are_granted_and_no_more(shape: Mapping[str, object], options: dict[str, object], seed: int) -> None:
    policy, rng, held = policy_on(shape, **options), random.Random(seed), Allocations()
    for number in range(rng.randrange(14)):
        decision = policy.decide(held, random_request(policy.machine, rng, number))
        if isinstance(decision, Placed):
            held = held.with_grants(*decision.moved, decision.grant)
    for fit, node in zip(fit_of(policy, held).nodes, policy.machine.nodes, strict=True):
        assert isinstance(dry(policy, held, fit.cpus_with_moves, node), Placed) or not fit.cpus_with_moves
        assert not isinstance(dry(policy, held, fit.cpus_with_moves + 1, node), Placed)
        assert not makes_room(dry(policy, held, fit.cpus, node)) or not fit.cpus
        if fit.cpus < fit.cpus_with_moves:
            assert makes_room(dry(policy, held, fit.cpus + 1, node))
