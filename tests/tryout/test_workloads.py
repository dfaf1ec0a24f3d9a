import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri_client.pods import ContainerSpec
from policies.base import QosClass
from tests.tryout.workloads import LABEL, PREFER_SHARED, DemoPod, demo_pods, omitted_pods, reserved_cpus

CPUS = st.integers(1, 64)


def exclusive(demo_pod: DemoPod) -> int:
    if demo_pod.pod.qos is not QosClass.GUARANTEED or dict(demo_pod.pod.annotations).get(PREFER_SHARED):
        return 0
    return sum(c.cpu_limit_mcpu // 1000 for c in demo_pod.pod.containers)


def shared_mcpu(demo_pod: DemoPod) -> int:
    if demo_pod.pod.namespace == "kube-system":
        return 0
    return sum(c.effective_cpu_request_mcpu for c in demo_pod.pod.containers) - 1000 * exclusive(demo_pod)


@given(CPUS)
def test_what_is_asked_for_fits_beside_the_reserved_cpus(cpu_count: int) -> None:
    pods = demo_pods(cpu_count, run="r")
    free_mcpu = 1000 * (cpu_count - reserved_cpus(cpu_count) - sum(map(exclusive, pods)))
    assert sum(map(shared_mcpu, pods)) <= free_mcpu


@given(CPUS)
def test_every_pod_carries_the_label_by_which_it_is_removed(cpu_count: int) -> None:
    assert {demo_pod.pod.labels for demo_pod in demo_pods(cpu_count, run="r")} == {((LABEL, "r"),)}


@pytest.mark.parametrize("cpu_count", [3, 4, 16])
def test_a_machine_with_room_shows_every_class_and_wish(cpu_count: int) -> None:
    pods = demo_pods(cpu_count, run="r")
    assert {demo_pod.pod.qos for demo_pod in pods} == set(QosClass)
    assert {"database", "report", "pair", "node-agent"} <= {demo_pod.pod.name for demo_pod in pods}
    assert omitted_pods(cpu_count) == ""


@pytest.mark.parametrize(("cpus", "own", "left"), [(2, 1, "web"), (1, 0, "database")])
def test_few_cpus_show_as_many_exclusive_ones_as_they_can(cpus: int, own: int, left: str) -> None:
    assert sum(map(exclusive, demo_pods(cpus, run="r"))) == own
    assert left in omitted_pods(cpus)


def test_only_a_machine_with_cores_to_spare_shows_whole_cores() -> None:
    assert [any(demo_pod.pod.name == "trading" for demo_pod in demo_pods(n, run="r")) for n in (8, 9)] == [False, True]


def test_the_pair_wants_to_sit_together() -> None:
    pair = next(demo_pod.pod for demo_pod in demo_pods(4, run="r") if demo_pod.pod.name == "pair")
    assert pair.annotations == (("cri-proxy.io/affinity", "back: [front]"),)
    assert isinstance(pair.containers[0], ContainerSpec)
