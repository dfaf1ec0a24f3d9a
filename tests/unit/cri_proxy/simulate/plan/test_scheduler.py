import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.simulate.plan.scheduler import (
    EVICTION_BYTES,
    PODS_PER_NODE,
    NodeLoad,
    PodRequests,
    Strategy,
    allocatable_of,
    choose_node,
)
from sysfs.descriptions.machine import describe

GIB = 1 << 30


def pod(mcpu: int, memory_bytes: int = GIB) -> PodSpec:
    return PodSpec("p", (guaranteed("c", mcpu, memory_bytes=memory_bytes),))


def nodes(*used_mcpu: int) -> list[NodeLoad]:
    found = [NodeLoad(f"n{number}", PodRequests(8000, 16 * GIB)) for number in range(len(used_mcpu))]
    for node, mcpu in zip(found, used_mcpu, strict=True):
        if mcpu:
            node.add(pod(mcpu), "other")
    return found


@pytest.mark.parametrize(("strategy", "chosen"), [("spread", 1), ("pack", 2)])
def test_the_emptiest_or_the_fullest_that_fits_is_taken(strategy: Strategy, chosen: int) -> None:
    assert choose_node(nodes(2000, 1000, 4000, 8000), pod(1000), "web", strategy) == chosen


def test_of_equal_nodes_the_one_with_the_fewest_of_the_workload_then_the_first() -> None:
    there = nodes(0, 0, 0)
    assert choose_node(there, pod(1000), "web", "spread") == 0
    there[0].by_workload["web"] = 1
    assert choose_node(there, pod(1000), "web", "spread") == 1


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (pod(9000), "0/2 nodes are available: 2 Insufficient cpu"),
        (pod(1000, 17 * GIB), "0/2 nodes are available: 2 Insufficient memory"),
        (pod(7000, 17 * GIB), "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient memory"),
    ],
)
def test_a_pod_without_a_node_is_told_what_lacks(asked: PodSpec, why: str) -> None:
    assert choose_node(nodes(2000, 0), asked, "web", "spread") == why


def test_a_node_takes_no_more_pods_than_its_kubelet() -> None:
    (node,) = nodes(0)
    node.pods = PODS_PER_NODE
    assert choose_node([node], pod(1), "web", "spread") == "0/1 nodes are available: 1 Too many pods"


def test_what_asks_for_nothing_fits_anywhere_and_counts_in_scores() -> None:
    there, nothing = nodes(0, 0), PodSpec("p", (ContainerSpec("c"),))
    there[0].add(nothing, "best effort")
    assert there[0].requested == PodRequests()
    assert choose_node(there, nothing, "web", "spread") == 1
    assert choose_node(nodes(8000), nothing, "web", "spread") == 0


def test_a_kubelet_reports_what_is_not_reserved() -> None:
    machine = describe({"nodes": 2, "cores": 4, "memory": "4Gi"})
    assert allocatable_of(machine, 750) == PodRequests(7250, 8 * GIB - EVICTION_BYTES)
