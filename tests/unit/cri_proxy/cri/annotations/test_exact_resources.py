import json

import pytest

from cri_proxy.cri.amounts import figures_of
from cri_proxy.cri.annotations.exact_resources import KEYS, ExactFigures, Sent, exact_figures
from cri_proxy.cri.annotations.values import ReadText
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass

NRI, SEED = KEYS
GIB = 1 << 30


def written(part: str = "containers", /, **resources: dict[str, str]) -> str:
    return json.dumps({part: {"c0": resources}})


def exact(
    text: str, key: str = NRI, qos: QosClass = QosClass.BURSTABLE, *, node: int = 10 * GIB, **sent: int
) -> ExactFigures:
    """What counts for a container that was sent 200m of CPU and 1Gi of memory, unless told otherwise."""
    resources = pb.LinuxContainerResources(**{"cpu_shares": 204, "oom_score_adj": 900} | sent)  # type: ignore[arg-type]
    figures = figures_of(qos, resources, node)
    return exact_figures({key: ReadText.of(text)}, "c0", Sent(qos, resources, figures, node))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_requests_that_agree_with_the_kubelets_figures_are_taken(key: str, part: str) -> None:
    found = exact(written(part, requests={"cpu": "200m", "memory": "1030Mi"}), key)
    assert found == ExactFigures(key, (("cpu_request_mcpu", 200), ("memory_request_bytes", 1030 << 20)))


@pytest.mark.parametrize("qos", [QosClass.BURSTABLE, QosClass.GUARANTEED])
def test_beyond_256_cpus_and_without_a_quota_nothing_confirms_the_annotation(qos: QosClass) -> None:
    """Else a pod that requests 256 CPUs would have as many as it writes down."""
    found = exact(written(requests={"cpu": "300"}), qos=qos, cpu_shares=262144)
    assert (found.figures, "300000m is more than cpu_shares can confirm" in found.problem) == ((), True)


def test_a_quota_tells_a_guaranteed_request_and_needs_no_annotation() -> None:
    text = written(requests={"cpu": "300"}, limits={"cpu": "300"})
    found = exact(text, qos=QosClass.GUARANTEED, cpu_shares=262144, cpu_quota=30_000_000)
    assert (found.figures, found.problem) == ((("cpu_limit_mcpu", 300_000),), "")


def test_a_request_below_the_least_shares_is_known_from_the_annotation() -> None:
    assert exact(written(requests={"cpu": "1m"}), cpu_shares=2).figures == (("cpu_request_mcpu", 1),)


@pytest.mark.parametrize("quota", [0, -1])
def test_without_a_quota_the_annotations_limit_is_the_limit(quota: int) -> None:
    assert exact(written(limits={"cpu": "2"}), cpu_quota=quota).figures == (("cpu_limit_mcpu", 2000),)


def test_a_limit_below_the_least_quota_is_known_from_the_annotation() -> None:
    assert exact(written(limits={"cpu": "5m"}), cpu_shares=2, cpu_quota=1000).figures == (("cpu_limit_mcpu", 5),)


@pytest.mark.parametrize(
    ("requirements", "problem"),
    [
        ({"requests": {"cpu": "64"}}, "a CPU request of 64000m does not give the cpu_shares of 204"),
        ({"requests": {"memory": "9Gi"}}, "does not give the oom_score_adj of 900"),
        ({"limits": {"cpu": "3"}}, "a CPU limit of 3000m does not give the cpu_quota of 50000"),
        ({"limits": {"cpu": "0"}}, "a CPU limit of 0m does not give the cpu_quota of 50000"),
        ({"limits": {"memory": "1Gi"}}, "a memory limit of 1073741824 bytes is not the 5 that were sent"),
    ],
)
def test_a_pod_cannot_claim_what_the_kubelet_did_not_grant(
    requirements: dict[str, dict[str, str]], problem: str
) -> None:
    found = exact(written(**requirements), cpu_quota=50_000, memory_limit_in_bytes=5)
    assert found.figures == ()
    assert problem in found.problem


def test_a_limit_below_the_request_is_none() -> None:
    assert "a CPU limit of 100m is less than the request" in exact(written(limits={"cpu": "100m"})).problem


def test_one_wrong_figure_does_not_spoil_the_others() -> None:
    found = exact(written(requests={"cpu": "200m", "memory": "9Gi"}))
    assert (found.figures, bool(found.problem)) == ((("cpu_request_mcpu", 200),), True)


def test_a_sidecar_may_have_a_lower_score_than_its_own_request_gives() -> None:
    sidecar = exact(written("initContainers", requests={"memory": "100Mi"}))
    assert (sidecar.figures, sidecar.problem) == ((("memory_request_bytes", 100 << 20),), "")
    assert exact(written("initContainers", requests={"memory": "2Gi"})).figures == ()
    assert exact(written("containers", requests={"memory": "100Mi"})).figures == ()


def test_without_the_nodes_memory_a_memory_request_is_not_confirmed() -> None:
    assert exact(written(requests={"memory": "1Gi"}), node=0) == ExactFigures(NRI)


def test_a_best_effort_container_claims_nothing() -> None:
    found = exact(written(requests={"cpu": "1"}), qos=QosClass.BEST_EFFORT, cpu_shares=2, oom_score_adj=1000)
    assert (found.figures, bool(found.problem)) == ((), True)


@pytest.mark.parametrize(
    "text",
    ["[]", '{"containers": 3}', written(requests={"cpu": "lots"}), "{", '{"containers": {"c0": [1]}}',
     '{"containers": {"c0": {"limits": 1}}}', written(limits={"memory": "-1"}), "null", "x" * 70_000],
)  # fmt: skip
def test_a_malformed_annotation_is_a_problem_and_nothing_else(text: str) -> None:
    found = exact(text)
    assert (found.figures, bool(found.problem)) == ((), True)


@pytest.mark.parametrize("text", ["{}", '{"containers": {"c1": {}}}', '{"containers": {"c0": {"limits": {}}}}'])
def test_an_annotation_that_says_nothing_of_the_container_is_no_problem(text: str) -> None:
    assert exact(text) == ExactFigures(NRI)


def test_without_the_annotation_nothing_is_told() -> None:
    resources = pb.LinuxContainerResources()
    sent = Sent(QosClass.BURSTABLE, resources, figures_of(QosClass.BURSTABLE, resources, GIB), GIB)
    assert exact_figures({}, "c0", sent) == ExactFigures()
