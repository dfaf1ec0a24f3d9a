"""The admission policy that restricts annotations, evaluated and held against the example for a shared node."""

import ast
import re

import pytest

from cri_proxy.config.load import load_config
from cri_proxy.cri.annotations.foreign_rows import EVERY_ROW, FOREIGN_TABLE
from tests.house.admission_policy import AdmissionPolicy, pod
from tests.house.tree import ROOT

POLICY = AdmissionPolicy("admission-policy.yaml")
EXAMPLE = load_config(ROOT / "configs" / "shared-node.yaml").config
KEYS = {key for entry in EXAMPLE.restricted_annotations for key in entry.keys}
ROWS = [row for row in EVERY_ROW if row.stands_for in KEYS]


def test_it_refuses_what_the_example_restricts() -> None:
    """In every spelling and domain, when a pod is made and when it is edited, and outside the same namespaces."""
    assert (POLICY.policy["kind"], POLICY.binding["kind"]) == (
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
    assert POLICY.binding["spec"] == {"policyName": POLICY.policy["metadata"]["name"], "validationActions": ["Deny"]}
    (rule,) = POLICY.spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE", "UPDATE"])
    said = {name: ast.literal_eval(POLICY.expressions[name]) for name in ("domains", "keys", "schedulerKeys")}
    assert {*said["keys"], *said["schedulerKeys"]} == {spelling for row in ROWS for spelling in row.keys}
    assert set(said["schedulerKeys"]) == {row.key for row in ROWS if row in FOREIGN_TABLE}
    assert tuple(said["domains"]) == EXAMPLE.annotation_domains
    (namespaces,) = {entry.namespaces for entry in EXAMPLE.restricted_annotations}
    selector = POLICY.spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*namespaces]} in selector
    assert set(re.findall(r"variables\.(\w+)", POLICY.text)) == set(POLICY.expressions)


@pytest.mark.parametrize("form", ["{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c"])
def test_it_knows_every_form_of_every_key_and_no_other(form: str) -> None:
    for domain in EXAMPLE.annotation_domains:
        for key in (spelling for row in ROWS if row not in FOREIGN_TABLE for spelling in row.keys):
            full_key = form.format(d=domain, k=key)
            (said,) = POLICY.problems(pod({full_key: "true", "example.com/a": "b"}))
            assert said.endswith(f": {full_key}")
            assert POLICY.problems(pod({form.format(d=domain, k=f"x{key}"): "true"})) == []
            assert POLICY.problems(pod({form.format(d="example.com", k=key): "true"})) == []


@pytest.mark.parametrize(
    ("user", "is_refused"),
    [
        ("jane", True),
        ("system:serviceaccount:kube-system:replicaset-controller", True),
        ("system:serviceaccount:shop:koord-scheduler", True),
        ("system:serviceaccount:koordinator-system:koord-scheduler", False),
    ],
)
def test_it_leaves_koordinators_keys_to_its_scheduler(user: str, *, is_refused: bool) -> None:
    """A pod that a controller makes of a template says what a person wrote there."""
    for key in ast.literal_eval(POLICY.expressions["schedulerKeys"]):
        assert bool(POLICY.problems(pod({key: "{}"}), user=user)) is is_refused
        assert POLICY.problems(pod({"cri-proxy.io/cpu.preserve": "true"}), user=user) != []


def test_what_an_update_leaves_as_it_was_passes() -> None:
    """Else a controller could not remove a finalizer from a pod that is older than the policy."""
    old = {"cri-proxy.io/cpu.preserve": "true"}
    assert POLICY.problems(pod(old), before=pod(old)) == []
    assert POLICY.problems(pod(old), before=pod({})) != []
    assert POLICY.problems(pod({"cri-proxy.io/cpu.preserve": "false"}), before=pod(old)) != []
    assert POLICY.problems(pod({}), before=pod(old)) == []
