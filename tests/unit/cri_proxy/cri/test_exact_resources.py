import json

import pytest

from cri_proxy.cri.exact_resources import KEYS, ExactRequests, exact_requests
from cri_proxy.cri.proto import cri_v1_pb2 as pb

NRI, SEED = KEYS
GIB = 1 << 30
SENT = pb.LinuxContainerResources(cpu_shares=204, oom_score_adj=900)


def written(part: str = "containers", **requests: str) -> str:
    return json.dumps({part: {"c0": {"requests": requests}}})


def exact(text: str, *, key: str = NRI, sent: pb.LinuxContainerResources = SENT, node: int = 10 * GIB) -> ExactRequests:
    return exact_requests({key: text}, "c0", sent, node_memory_bytes=node)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_figures_that_agree_with_the_kubelets_are_taken(key: str, part: str) -> None:
    found = exact(written(part, cpu="200m", memory="1030Mi"), key=key)
    assert found == ExactRequests(key, 200, 1030 << 20)


def test_beyond_256_cpus_only_the_annotation_knows() -> None:
    sent = pb.LinuxContainerResources(cpu_shares=262144)
    assert exact(written(cpu="300"), sent=sent).cpu_request_mcpu == 300_000


def test_a_pod_cannot_claim_more_than_the_kubelet_granted() -> None:
    found = exact(written(cpu="64", memory="9Gi"))
    assert (found.cpu_request_mcpu, found.memory_request_bytes) == (None, None)
    assert "64000m does not give the cpu_shares of 204" in found.problem
    assert "oom_score_adj of 900" in found.problem


def test_without_the_nodes_memory_a_memory_request_is_not_confirmed() -> None:
    assert exact(written(cpu="200m", memory="1Gi"), node=0) == ExactRequests(NRI, 200, None)


@pytest.mark.parametrize("text", ["[]", '{"containers": 3}', written(cpu="lots"), "{", '{"containers": {"c0": [1]}}'])
def test_a_malformed_annotation_is_a_problem_and_nothing_else(text: str) -> None:
    found = exact(text)
    assert (found.cpu_request_mcpu, found.memory_request_bytes, bool(found.problem)) == (None, None, True)


@pytest.mark.parametrize("text", ["{}", '{"containers": {"c1": {}}}', '{"containers": {"c0": {"limits": {}}}}'])
def test_an_annotation_that_says_nothing_of_the_container_is_no_problem(text: str) -> None:
    assert exact(text) == ExactRequests(NRI)


def test_without_the_annotation_nothing_is_told() -> None:
    assert exact_requests({}, "c0", SENT, node_memory_bytes=GIB) == ExactRequests()
