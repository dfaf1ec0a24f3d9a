import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.simulate.plan.nodes import Cluster, plan
from cri_proxy.simulate.plan.pods import PlannedPod, arrivals_of, read_workloads
from cri_proxy.yaml_fields import DocumentError
from sysfs.descriptions.machine import describe

MACHINE = describe({"packages": 2, "cores": 4, "memory": "8Gi"})


def pods(count: int, cpu: str, name: str = "web") -> str:
    resources = f"{{limits: {{cpu: {cpu!r}, memory: 64Mi}}}}"
    template = f"{{spec: {{containers: [{{name: c, resources: {resources}}}]}}}}"
    return f"kind: Deployment\nmetadata: {{name: {name}}}\nspec: {{replicas: {count}, template: {template}}}\n"


def arriving(*texts: str, nodes: int = 1) -> tuple[PlannedPod, ...]:
    return arrivals_of(read_workloads("---\n".join(texts), "m.yaml", "default"), nodes)


def test_pods_are_spread_over_nodes_and_placed_on_cpus_of_their_own() -> None:
    found = plan(Cluster(MACHINE, nodes=2), arriving(pods(4, "2"), nodes=2))
    assert [(node.name, node.pods, node.requested_mcpu) for node in found.nodes] == [
        *(("node-1", 2, 4000), ("node-2", 2, 4000)),
    ]
    assert [len(container.state.owned) for _, container in found.containers()] == [2, 2, 2, 2]
    assert (found.refused, found.refused_pods, found.spans) == ((), 0, {"nodes": 0, "packages": 0})


def test_packed_pods_fill_one_node_before_the_next() -> None:
    found = plan(Cluster(MACHINE, nodes=2, strategy="pack"), arriving(pods(4, "2"), nodes=2))
    assert [node.pods for node in found.nodes] == [4, 0]


def test_a_pod_that_no_node_has_room_for_is_refused_by_the_scheduler() -> None:
    found = plan(Cluster(MACHINE), arriving(pods(3, "3")))
    (refusal,) = found.refused
    assert (refusal.name, refusal.node) == ("default/web-2", "")
    assert refusal.reason == "0/1 nodes are available: 1 Insufficient cpu"


def test_a_pod_that_fits_by_requests_may_be_refused_by_the_node() -> None:
    half = {"reservedResources": {"cpu": "500m"}}  # of which a whole CPU is kept
    (refusal,) = plan(Cluster(MACHINE, config=half), arriving(pods(1, "7500m"))).refused
    assert (refusal.name, refusal.node) == ("default/web-0/c", "node-1")
    assert "wanted 7 exclusive CPUs and 500m shared" in refusal.reason


def test_who_owns_cpus_of_two_packages_spans_them() -> None:
    found = plan(Cluster(MACHINE), arriving(pods(1, "6")))
    ((_, container),) = found.containers()
    assert (str(container.nodes), container.packages, found.spans) == ("0-1", (0, 1), {"nodes": 1, "packages": 1})
    assert found.badness[:3] == (0, 1, 1)


def test_shared_cpus_of_other_nodes_are_no_span() -> None:
    found = plan(Cluster(MACHINE), arriving(pods(1, "4500m")))
    ((_, container),) = found.containers()
    assert (str(container.state.owned), str(container.state.cpus)) == ("0-3", "0-7")
    assert (str(container.nodes), container.packages, found.spans) == ("0", (0,), {"nodes": 0, "packages": 0})


def test_the_largest_fit_is_what_a_further_pod_gets() -> None:
    left = plan(Cluster(MACHINE), arriving(pods(1, "3"))).largest_fit
    assert left == 5
    assert not plan(Cluster(MACHINE), arriving(pods(1, "3"), pods(1, str(left), "more"))).refused
    assert plan(Cluster(MACHINE), arriving(pods(1, "3"), pods(1, str(left + 1), "more"))).refused


def test_a_wrong_configuration_is_named() -> None:
    with pytest.raises((DocumentError, ConfigError), match="reservedResources"):
        plan(Cluster(MACHINE, config={"reservedResources": {"cpu": "99"}}, source="c.yaml"), arriving(pods(1, "1")))
