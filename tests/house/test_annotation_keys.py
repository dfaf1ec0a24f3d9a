"""The admission policy for keys of annotations, evaluated and held against what the daemon says of the same pods.

Its CEL is turned into Python: the operators and the macros have the same meaning, and texts get CEL's methods.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cri_proxy.cri.annotations.pod import parse_pod, select
from cri_proxy.cri.annotations.resource_managers import OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from tests.house.tree import ROOT

POLICY, BINDING = yaml.safe_load_all((ROOT / "packaging" / "kubernetes" / "annotation-keys.yaml").read_text())
SPEC = POLICY["spec"]
GIVEN = ("annotations", "before", "containers")  # what these read of the object is a test's own
KEYS = [*(key for row in TABLE for key in row.keys), *sorted(OF_PEERS)]
WRONG = ["contaner.a", "prefer-shared", "isolated-cpus", "memory-typ", "grant", "cpu", "memory-type/x"]
FORMS = ["{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0", "{k}.{d}/container.C", "{k}.{d}/container."]
FORMS += ["{k}.{d}/contaner.c0", "{k}.{d}/x/pod", "{k}.{d}/", "x.{d}/{k}", "{k}.x.{d}", "{k}{d}", "{k}.{d}.org"]


class Text(str):
    """A text of CEL."""

    __slots__ = ()

    def startsWith(self, prefix: str) -> bool:
        return self.startswith(prefix)

    def endsWith(self, suffix: str) -> bool:
        return self.endswith(suffix)

    def contains(self, part: str) -> bool:
        return part in self

    def matches(self, pattern: str) -> bool:
        return re.search(pattern, self, re.ASCII) is not None

    def split(self, separator: str) -> "Several":  # type: ignore[override] # CEL has no other parameter
        return Several(str.split(self, separator))


class Several(list[Text]):
    """A list of CEL, or the keys of a map."""

    def __init__(self, items: Iterable[str]) -> None:
        super().__init__(map(Text, items))

    def exists(self, holds: Callable[[Text], bool]) -> bool:
        return any(map(holds, self))

    def filter(self, holds: Callable[[Text], bool]) -> "Several":
        return Several(each for each in self if holds(each))

    def join(self, separator: str) -> str:
        return separator.join(self)

    def size(self) -> int:
        return len(self)


class Annotations(dict[str, str]):
    """A map of CEL: its macros go over the keys."""

    def filter(self, holds: Callable[[Text], bool]) -> Several:
        return Several(self).filter(holds)


def in_python(expression: str) -> str:
    python = re.sub(r"\.(exists|filter)\((\w+),", r".\1(lambda \2:", expression)
    return re.sub(r"!(?!=)", " not ", python.replace("&&", " and ").replace("||", " or ")).strip()


def problems(
    annotations: Mapping[str, str], before: Mapping[str, str] = {}, containers: Iterable[str] = ()
) -> list[str]:
    """The messages of the validations that fail."""
    variables = SimpleNamespace(
        annotations=Annotations(annotations), before=Annotations(before), containers=Several(containers)
    )
    for each in SPEC["variables"]:
        if each["name"] not in GIVEN:
            value = eval(in_python(each["expression"]), {"variables": variables})
            setattr(variables, each["name"], Several(value))
    failed = [each for each in SPEC["validations"] if not eval(in_python(each["expression"]), {"variables": variables})]
    return [eval(in_python(each["messageExpression"]), {"variables": variables}) for each in failed]


def written() -> Iterator[str]:
    for domain in (*DOMAINS, "example.com"):
        for key in (*KEYS, *WRONG):
            yield from (form.format(d=domain, k=key) for form in FORMS)


def test_the_policy_says_of_every_key_and_form_what_the_daemon_says() -> None:
    seen = {True: 0, False: 0}
    for full_key in dict.fromkeys(written()):
        if full_key.count("/") > 1 or full_key.endswith("/"):  # no key of Kubernetes
            continue
        annotations = {full_key: "true"}
        pod: Any = parse_pod(select(annotations, DOMAINS), DOMAINS)
        assert bool(problems(annotations, containers=["c0", "C"])) == bool(pod.problems), full_key
        seen[bool(pod.problems)] += 1
    assert min(seen.values()) > 300


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
    found = problems(annotations, containers=["a", "init"])
    assert len(found) == bool(said)
    assert all(message.startswith(said) and message.endswith(next(iter(annotations))) for message in found)


def test_what_an_update_leaves_as_it_was_passes() -> None:
    old = {"cri-proxy.io/prefer-shared": "true"}
    assert problems(old, before=old) == []
    assert problems({"cri-proxy.io/prefer-shared": "false"}, before=old) != []


def test_the_policy_is_bound_and_uses_each_of_its_variables() -> None:
    assert (POLICY["kind"], BINDING["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert BINDING["spec"] == {"policyName": POLICY["metadata"]["name"], "validationActions": ["Deny"]}
    texts = [*SPEC["variables"], *SPEC["validations"]]
    used = set(re.findall(r"variables\.(\w+)", " ".join(" ".join(each.values()) for each in texts)))
    assert used == {each["name"] for each in SPEC["variables"]}
    domains = next(each for each in SPEC["variables"] if each["name"] == "domains")
    assert eval(domains["expression"]) == list(DOMAINS)
