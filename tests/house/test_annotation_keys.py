"""The admission policy for keys of annotations, evaluated and held against what the daemon says of the same pods."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cri_proxy.cri.annotations.pod import parse_pod, select
from cri_proxy.cri.annotations.resource_managers import OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from tests.house.admission_policy import AdmissionPolicy, pod

POLICY = AdmissionPolicy("annotation-keys.yaml")
KEYS = [*(key for row in TABLE for key in row.keys), *sorted(OF_PEERS)]
WRONG = ["contaner.a", "prefer-shared", "isolated-cpus", "memory-typ", "grant", "cpu", "memory-type/x"]
FORMS = ["{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0", "{k}.{d}/container.C", "{k}.{d}/container."]
FORMS += ["{k}.{d}/contaner.c0", "{k}.{d}/x/pod", "{k}.{d}/", "x.{d}/{k}", "{k}.x.{d}", "{k}{d}", "{k}.{d}.org"]


def written() -> Iterator[str]:
    for domain in (*DOMAINS, "example.com"):
        for key in (*KEYS, *WRONG):
            yield from (form.format(d=domain, k=key) for form in FORMS)


def test_the_policy_says_of_every_key_and_form_what_the_daemon_says() -> None:
    # Others are no keys of Kubernetes.
    keys = [key for key in dict.fromkeys(written()) if key.count("/") < 2 and not key.endswith("/")]
    found = POLICY.variables(pod(dict.fromkeys(keys, "true"), ["c0", "C"]))
    refused = {*found["unknownKeys"], *found["unknownScopes"], *found["unknownContainers"]}
    assert len(refused) > 300
    assert len(keys) > len(refused) + 300
    for key in keys:
        parsed: Any = parse_pod(select({key: "true"}, DOMAINS), DOMAINS)
        assert (key in refused) == bool(parsed.problems), key


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"cri-proxy.io/prefer-shared": "true"}, "no such key"),
        ({"cri-proxy.io/isolated-cpus": "true"}, "no such key"),
        ({"memory-type.cri-proxy.io/contaner.a": "dram"}, "expected DOMAIN/KEY"),
        ({"affinity.cri-proxy.io/pod": "{}"}, "expected DOMAIN/KEY"),
        ({"prefer-shared-cpus.cri-proxy.io/container.zzz": "true"}, "the pod has no such container"),
        ({"prefer-shared-cpus.cri-proxy.io/container.init": "true"}, ""),
        ({"cri-proxy.io/grant": "v1"}, ""),
        ({"volcano.sh/numa-topology-policy": "best-effort", "example.com/prefer-shared": ""}, ""),
    ],
)
def test_the_author_is_told_the_key_and_why(annotations: Mapping[str, str], said: str) -> None:
    found = POLICY.problems(pod(annotations, ["a"], ["init"]))
    assert len(found) == bool(said)
    assert all(message.startswith(said) and message.endswith(next(iter(annotations))) for message in found)


def test_what_an_update_leaves_as_it_was_passes() -> None:
    old = {"cri-proxy.io/prefer-shared": "true"}
    assert POLICY.problems(pod(old), before=pod(old)) == []
    assert POLICY.problems(pod({"cri-proxy.io/prefer-shared": "false"}), before=pod(old)) != []
    assert POLICY.problems(pod(old), before=pod({})) != []
    assert POLICY.problems(pod({}), before=pod(old)) == POLICY.problems(pod({})) == []


def test_the_policy_is_bound_and_uses_each_of_its_variables() -> None:
    kinds = (POLICY.policy["kind"], POLICY.binding["kind"])
    assert kinds == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    name = POLICY.policy["metadata"]["name"]
    assert POLICY.binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}
    assert set(re.findall(r"variables\.(\w+)", POLICY.text)) == set(POLICY.expressions)
    assert ast.literal_eval(POLICY.expressions["domains"]) == list(DOMAINS)
