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
    with_claim,
)
from cri_proxy.cri.read_request import ReadRequest
from policies.claims import CpuClaim
from policies.pod_share import PodTotals
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import BURSTABLE, request

READ = ReadRequest(request("web/main", 2000))
FOUR = request("web/main", 4000)


def status(cpus: str = "") -> dict[str, str]:
    """A pod's annotations."""
    return {RESOURCE_STATUS: json.dumps({"cpuset": cpus} if cpus else {})}


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
    found = of_annotation(text.ljust(MAX_ANNOTATION_CHARACTERS), request("web/main", 1000))
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
    text = json.dumps(
        {"cpuset": "4-7", "numaNodeResources": [{"node": 1, "resources": {"cpu": "4"}}, {"resources": {}}]}
    )
    claim = CpuClaim(CpuSet.parse("4-7"), RESOURCE_STATUS, NodeSet.parse("0-1"), by_pod=True)
    assert of_annotation(text, FOUR).claim == claim


@pytest.mark.parametrize("text", ["", "{}", '{"numaNodeResources": [{"node": 1}]}', '{"cpuset": ""}'])
def test_a_status_without_a_cpuset_claims_nothing(text: str) -> None:
    found = of_annotation(text, FOUR)
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
    found = of_annotation(text, FOUR)
    assert found.claim is None
    assert words in str(found.problems[0]) and RESOURCE_STATUS in str(found.problems[0])


@pytest.mark.parametrize(
    ("own_mcpu", "pod_mcpu", "problem"),
    [
        (4000, 0, ""),  # what the pod requests is not known
        (4000, 4000, ""),
        (2000, 4000, ""),
        (0, 4000, ""),
        (10, 10, "the CPU request is 10m: only whole CPUs can be"),
        (3001, 3001, "the CPU request is 3001m"),
        (500, 4000, "the CPU request is 500m"),
        (3000, 3000, "it names 4 CPUs, more than the 3000m that the pod requests"),
        (3000, 3999, "more than the 3999m"),
        (64_000, 100, "more than the 100m"),  # as the limit of a pod, which a container without a request has
        (0, 0, "the pod requests no CPU, as far as that is known"),
    ],
)
def test_a_status_counts_where_its_cpus_are_paid_for(own_mcpu: int, pod_mcpu: int, problem: str) -> None:
    found = of_annotation('{"cpuset": "0-3"}', request("web/main", own_mcpu, pod_request_mcpu=pod_mcpu))
    assert (found.claim is None) is bool(problem)
    assert problem in "".join(map(str, found.problems))


def test_without_the_request_of_the_pod_a_burstable_container_claims_nothing() -> None:
    """Its own figures may be those of the pod's limit: a runtime may keep nothing of the sandbox."""
    found = of_annotation('{"cpuset": "0-3"}', request("web/main", 4000, BURSTABLE))
    assert "the pod requests no CPU, as far as that is known" in str(found.problems[0])


@pytest.mark.parametrize(("pod_mcpu", "counts"), [(4000, True), (4500, False), (3000, False)])
def test_a_container_without_a_request_pays_with_that_of_its_pod(pod_mcpu: int, *, counts: bool) -> None:
    """Its own figures are those of the pod's limit."""
    totals = PodTotals(pod_mcpu, 6500, shares_cpu=True)
    asked = request("web/main", 6500, cpu_limit_mcpu=6500, pod_totals=totals, pod_request_mcpu=pod_mcpu)
    assert (of_annotation('{"cpuset": "0-3"}', asked).claim is not None) is counts


def test_devices_come_before_the_annotation() -> None:
    read = with_claim(READ, (("DRA_CPUSET_a", "8-9"),), status("0-1"), AnnotationRules())
    assert claim_of(read) == "8-9 by DRA_CPUSET_a"
    assert ("claim", "DRA_CPUSET_a") in read.request.origins


def test_without_devices_the_annotation_counts() -> None:
    read = with_claim(READ, (), status("0-1"), AnnotationRules())
    assert claim_of(read) == f"0-1 by {RESOURCE_STATUS}"


def test_an_annotation_that_counts_is_not_without_effect() -> None:
    origins = (("qos", "the cgroup"), (f"without effect: {RESOURCE_STATUS}", RESOURCE_STATUS))
    read = replace(READ, request=replace(READ.request, origins=origins))
    found = with_claim(read, (), status("0-1"), AnnotationRules()).request
    assert found.origins == (("qos", "the cgroup"), ("claim", RESOURCE_STATUS))
    assert with_claim(read, (), status(), AnnotationRules()).request.origins == origins


def test_where_it_is_restricted_the_annotation_is_a_problem_that_names_the_option() -> None:
    rules = AnnotationRules(restricted=(Restriction((RESOURCE_STATUS,), ("koord-*",)),))
    read = with_claim(READ, (), status("0-1"), rules)
    assert claim_of(read) == ""
    assert "restrictedAnnotations lets it count in koord-* only" in str(read.problems[0])


def test_a_container_for_which_nobody_chose_is_read_as_before() -> None:
    assert with_claim(READ, (), {}, AnnotationRules()) is READ
