from cri_proxy.node.status.remedies import narrower, remedies
from cri_proxy.steps import at_once
from policies.base import Allocations, CpuKind, Grant, Placed, Request
from policies.topology_aware import TopologyAware
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BURSTABLE, fill, four_nodes, request, topology_aware


def found(policy: TopologyAware, held: Allocations, asked: Request) -> tuple[str, ...]:
    return at_once(remedies(policy, held, asked))


def test_a_smaller_request_and_a_container_to_end_are_named() -> None:
    policy = topology_aware(four_nodes(), "0")
    held = fill(policy, request("small/c", 1000), request("large/c", 6000))
    assert found(policy, held, request("new/c", 12000)) == (
        "with a request of 8 CPUs it would be placed in root",
        "without default/large/c (CPUs 8-13) it would be placed in root",
    )


def test_the_container_to_end_is_the_smallest_that_leaves_enough() -> None:
    policy = topology_aware(four_nodes(), "0")
    held = fill(policy, *(request(f"p{cpus}/c", 1000 * cpus) for cpus in (1, 2, 3, 4)))
    (_, without) = found(policy, held, request("new/c", 7000))
    assert without.startswith("without default/p2/c ")


def test_a_strict_wish_that_alone_is_in_the_way_is_named() -> None:
    policy = topology_aware(four_nodes(), "0")
    isolated = found(policy, Allocations(), request("new/c", 2000, require_isolated=True))
    assert isolated[0].startswith("with require-isolated-cpus: false it would be placed in NUMA node #")
    wide = found(policy, Allocations(), request("new/c", 6000, single_node=True))
    assert wide[0].startswith("with strict.single-numa-node: false it would be placed in socket #")


def test_every_proposal_is_a_decision_that_places_it() -> None:
    policy = topology_aware(four_nodes(), "0")
    held = fill(policy, request("a/c", 9000, BURSTABLE), request("b/c", 3000))
    asked = request("new/c", 5000)
    without = next(text for text in found(policy, held, asked) if text.startswith("without"))
    gone = next(grant for grant in held.grants if str(grant.request.full_name) in without)
    assert isinstance(policy.decide(held.without(gone.container), asked), Placed)


def test_sharers_are_told_in_tenths_and_of_the_option() -> None:
    policy = topology_aware(four_nodes(), "0")
    held = fill(policy, request("a/c", 14000, BURSTABLE))
    smaller, without, option = found(policy, held, request("new/c", 3000, BURSTABLE))
    assert smaller == "with a request of 1000m it would be placed in socket #1"
    assert without == "without default/a/c (14000m shared) it would be placed in socket #1"
    assert option == "with onShortage: admit it would share in root without a reservation"


def test_one_that_would_be_placed_by_now_is_told_so() -> None:
    policy = topology_aware(four_nodes(), "0")
    assert found(policy, Allocations(), request("new/c", 2000)) == ("created now, it would be placed in NUMA node #1",)


def owner(name: str, cpus: str) -> Grant:
    owned = CpuSet.parse(cpus)
    return Grant(request(name, 1000 * len(owned)), "root", CpuKind.EXCLUSIVE, exclusive=owned)


def narrower_for(policy: TopologyAware, held: Allocations, name: str) -> tuple[str, ...]:
    return at_once(narrower(policy, held, request(name, 1000).container))


def test_a_container_that_would_be_on_one_node_by_now_is_told_so() -> None:
    policy, held = topology_aware(four_nodes(), "0"), Allocations((owner("wide/c", "2-3,6-7"),))
    (again,) = narrower_for(policy, held, "wide/c")
    assert again.startswith("created again now, its own CPUs would be ")
    assert " in NUMA node #" in again


def test_what_keeps_own_cpus_on_several_nodes_is_named() -> None:
    grants = [owner("wide/c", "2-3,6-7"), owner("a/c", "4-5"), owner("b/c", "8-9"), owner("d/c", "12-13")]
    policy, held = topology_aware(four_nodes(), "0"), Allocations().with_grants(*grants)
    smaller, without = narrower_for(policy, held, "wide/c")
    assert smaller == "with a request of 3 CPUs it would be placed in NUMA node #0"
    assert without.startswith("without default/")
    assert without.endswith(" it would be placed in NUMA node #1") or " in NUMA node #" in without


def test_nothing_narrows_what_is_on_one_node_or_holds_nothing() -> None:
    policy, held = topology_aware(four_nodes(), "0"), Allocations((owner("a/c", "4-7"),))
    assert narrower_for(policy, held, "a/c") == ()
    assert narrower_for(policy, held, "unknown/c") == ()
