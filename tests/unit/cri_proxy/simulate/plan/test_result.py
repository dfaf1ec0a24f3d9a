from cri_proxy.simulate.outcome import ContainerState
from cri_proxy.simulate.plan.result import PlacedContainer, PlannedNode, PlanRefusal, PlanResult
from policies.answers import LargestFit
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.show.cpu_map import cpu_map

MACHINE = describe({"packages": 2, "cores": 2})
MAP = cpu_map(MACHINE, available=MACHINE.online, reserved=CpuSet())


def placed(name: str, owned: str, nodes: str = "0", far: str = "") -> PlacedContainer:
    cpus = CpuSet.parse(owned)
    state = ContainerState("id", "running", cpus, NodeSet.parse(nodes), exclusive=cpus)
    packages = tuple(NodeSet.parse(nodes))
    return PlacedContainer(name, "Pod web", state, NodeSet.parse(nodes), packages, NodeSet.parse(far))


def node(*containers: PlacedContainer, fit: int = 1) -> PlannedNode:
    return PlannedNode("node-1", containers, len(containers), 2, 1000, 4000, LargestFit(1, 0, 1, fit), MAP)


def result(*nodes: PlannedNode, refused: tuple[PlanRefusal, ...] = ()) -> PlanResult:
    return PlanResult("", "1 node", "in order", 3, nodes, refused)


def test_spans_and_far_memory_count_owners_of_cpus() -> None:
    found = result(
        node(placed("a/c", "0,2", "0-1"), placed("b/c", "1", "0", far="1"), placed("s/c", "", "0-1", far="1"))
    )
    assert (found.spans, found.far_memory, found.moves) == ({"nodes": 1, "packages": 1}, 1, 2)


def test_a_pod_counts_once_however_many_of_its_containers_are_refused() -> None:
    twice = tuple(PlanRefusal("Pod web", "d/web", name, "node-1", "full") for name in "ab")
    found = result(refused=(*twice, PlanRefusal("Pod x", "d/x", "", "", "no node")))
    assert found.refused_pods == 2
    assert [refusal.name for refusal in found.refused] == ["d/web/a", "d/web/b", "d/x"]


def test_the_largest_fit_is_that_of_the_best_node() -> None:
    assert result(node(fit=3), node(fit=7)).largest_fit == 7
    assert result().largest_fit == 0


def test_the_json_has_figures_refusals_and_places() -> None:
    refusal = PlanRefusal("Pod x", "d/x", "", "", "no node")
    value = result(node(placed("a/c", "0")), refused=(refusal,)).json_value()
    assert (value["pods"], value["placed"], value["moves"]) == (3, 2, 2)
    assert value["refused"] == [{"workload": "Pod x", "pod": "d/x", "container": "", "node": "", "reason": "no node"}]
    shown = node(placed("a/c", "0")).json_value()
    assert value["nodes"] == [shown]
    assert placed("a/c", "0").json_value()["nodes"] == "0"
