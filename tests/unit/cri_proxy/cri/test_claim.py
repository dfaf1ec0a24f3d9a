import json
from dataclasses import replace

import pytest

from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.rules import AnnotationRules, Restriction
from cri_proxy.cri.claim import (
    MAX_ANNOTATION_CHARACTERS,
    MAX_NODES,
    of_annotation,
    of_variables,
    requested_mcpu,
    with_claim,
)
from cri_proxy.cri.kubelet_numbers import MAX_SHARES
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest
from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import request

READ = ReadRequest(request("web/main", 2000))


def sandbox(status: object = None, shares: int = 4096) -> pb.PodSandboxConfig:
    annotations = {} if status is None else {RESOURCE_STATUS: json.dumps(status)}
    config = pb.PodSandboxConfig(annotations=annotations)
    config.linux.resources.cpu_shares = shares
    return config


def claim_of(read: ReadRequest) -> str:
    return "" if read.request.claim is None else f"{read.request.claim.cpus} by {read.request.claim.source}"


def test_several_claims_are_one_set_that_names_all_of_them() -> None:
    found = of_variables((("DRA_CPUSET_a", "0-1"), ("DRA_CPUSET_b", "4,6")))
    assert found.claim == CpuClaim(CpuSet.parse("0-1,4,6"), "DRA_CPUSET_a, DRA_CPUSET_b")


def test_of_many_claims_the_first_are_named() -> None:
    found = of_variables(tuple((f"DRA_CPUSET_{n}", str(n)) for n in range(5)))
    assert found.claim is not None
    assert found.claim.source == "DRA_CPUSET_0, DRA_CPUSET_1, DRA_CPUSET_2 and 2 more"


def test_as_many_claims_as_are_named_stand_alone() -> None:
    found = of_variables(tuple((f"DRA_CPUSET_{n}", str(n)) for n in range(3)))
    assert found.claim is not None
    assert found.claim.source == "DRA_CPUSET_0, DRA_CPUSET_1, DRA_CPUSET_2"


def test_the_longest_annotation_and_the_last_node_count() -> None:
    text = f'{{"cpuset": "0", "numaNodeResources": [{{"node": {MAX_NODES - 1}}}]}}'
    found = of_annotation(text.ljust(MAX_ANNOTATION_CHARACTERS), 1000)
    assert found.claim is not None and found.claim.mems == NodeSet.of([MAX_NODES - 1])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0-", "'' is not a number"),
        ("dynamic", "expected a list"),
        ("", "it names no CPU"),
        ("99999999", "larger than"),
    ],
)
def test_a_variable_that_names_no_cpus_is_a_problem_and_none_of_them_counts(value: str, words: str) -> None:
    found = of_variables((("DRA_CPUSET_a", "0-1"), ("DRA_CPUSET_b", value)))
    assert found.claim is None
    assert str(found.problems[0]).startswith(f"variable DRA_CPUSET_b of a CDI device: {value!r}:")
    assert words in str(found.problems[0])


def test_koordinators_status_names_cpus_and_nodes() -> None:
    status = {"cpuset": "4-7", "numaNodeResources": [{"node": 1, "resources": {"cpu": "4"}}, {"resources": {}}]}
    found = of_annotation(json.dumps(status), 4000)
    assert found.claim == CpuClaim(CpuSet.parse("4-7"), RESOURCE_STATUS, NodeSet.parse("0-1"))


@pytest.mark.parametrize("text", ["", "{}", '{"numaNodeResources": [{"node": 1}]}', '{"cpuset": ""}'])
def test_a_status_without_a_cpuset_claims_nothing(text: str) -> None:
    found = of_annotation(text, 4000)
    assert (found.claim, found.problems) == (None, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "expected a map as the status"),
        ('{"cpuset": 3}', "expected a CPU list as cpuset, got 3"),
        ('{"cpuset": "0-"}', "expected a list"),
        ('{"cpuset": "0", "numaNodeResources": {"a": 1}}', "expected a list as numaNodeResources"),
        ('{"cpuset": "0", "numaNodeResources": [1]}', "expected a map as an entry of numaNodeResources"),
        ('{"cpuset": "0", "numaNodeResources": [{"node": -1}]}', "the number of a NUMA node, got -1"),
        ('{"cpuset": "0", "numaNodeResources": [{"node": 1024}]}', "the number of a NUMA node, got 1024"),
        ('{"cpuset": "0", "numaNodeResources": [{"node": "1"}]}', "the number of a NUMA node, got '1'"),
        ('{"cpuset": "0", "numaNodeResources": [{"node": true}]}', "the number of a NUMA node, got True"),
        ("[" * 100_000, "characters"),
        (" " * (MAX_ANNOTATION_CHARACTERS + 1), "characters"),
    ],
)
def test_a_status_that_cannot_be_read_is_a_problem_that_names_the_annotation(text: str, words: str) -> None:
    found = of_annotation(text, 4000)
    assert found.claim is None
    assert words in str(found.problems[0]) and RESOURCE_STATUS in str(found.problems[0])


@pytest.mark.parametrize(("requested", "counts"), [(3001, True), (4000, True), (3000, False), (0, False)])
def test_a_status_counts_up_to_what_the_pod_requests(requested: int, *, counts: bool) -> None:
    found = of_annotation('{"cpuset": "0-3"}', requested)
    assert (found.claim is not None, bool(found.problems)) == (counts, not counts)


def test_the_pods_request_is_that_of_its_sandbox_or_of_a_container_that_has_more() -> None:
    asked = request("web/main", 2000)
    saturated = pb.LinuxContainerResources(cpu_shares=MAX_SHARES, cpu_quota=30_000_000, cpu_period=100_000)
    pods = (saturated, sandbox().linux.resources, pb.LinuxContainerResources())
    assert [requested_mcpu(asked, pod) for pod in pods] == [300_000, 4000, 2000]


def test_a_pod_that_requests_nothing_makes_no_status_count() -> None:
    requested = requested_mcpu(request("web/main", 0), pb.LinuxContainerResources(cpu_shares=2))
    assert (requested, of_annotation('{"cpuset": "0"}', requested).claim) == (0, None)


@pytest.mark.parametrize("shares", [102, 2, 0])
def test_a_limit_above_the_request_makes_no_status_count(shares: int) -> None:
    """Else the author of a pod that requests 100m and is limited to 64 CPUs would own 64."""
    pod = pb.LinuxContainerResources(cpu_shares=shares, cpu_quota=6_400_000, cpu_period=100_000)
    requested = requested_mcpu(request("web/main", 100), pod)
    assert requested == 100
    assert of_annotation('{"cpuset": "0-3"}', requested).claim is None


def test_devices_come_before_the_annotation() -> None:
    read = with_claim(READ, (("DRA_CPUSET_a", "8-9"),), sandbox({"cpuset": "0-1"}), AnnotationRules())
    assert claim_of(read) == "8-9 by DRA_CPUSET_a"
    assert ("claim", "DRA_CPUSET_a") in read.request.origins


def test_without_devices_the_annotation_counts() -> None:
    read = with_claim(READ, (), sandbox({"cpuset": "0-1"}), AnnotationRules())
    assert claim_of(read) == f"0-1 by {RESOURCE_STATUS}"


def test_an_annotation_that_counts_is_not_without_effect() -> None:
    origins = (("qos", "the cgroup"), (f"without effect: {RESOURCE_STATUS}", RESOURCE_STATUS))
    read = replace(READ, request=replace(READ.request, origins=origins))
    found = with_claim(read, (), sandbox({"cpuset": "0-1"}), AnnotationRules()).request
    assert found.origins == (("qos", "the cgroup"), ("claim", RESOURCE_STATUS))
    assert with_claim(read, (), sandbox({}), AnnotationRules()).request.origins == origins


def test_where_it_is_restricted_the_annotation_is_a_problem_that_names_the_option() -> None:
    rules = AnnotationRules(restricted=(Restriction((RESOURCE_STATUS,), ("koord-*",)),))
    read = with_claim(READ, (), sandbox({"cpuset": "0-1"}), rules)
    assert claim_of(read) == ""
    assert "restrictedAnnotations lets it count in koord-* only" in str(read.problems[0])


def test_a_container_for_which_nobody_chose_is_read_as_before() -> None:
    assert with_claim(READ, (), sandbox(), AnnotationRules()) is READ
