"""The admission policies of packaging/kubernetes, evaluated by a CEL library as the API server does.

Kubernetes' own libraries for lists and texts are not part of CEL: ``split`` and ``join`` of them are given here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import cel
import yaml

from tests.house.tree import ROOT


class AdmissionPolicy:
    """A policy with its binding; ``spec`` is that of the policy, ``expressions`` are those of its variables by name."""

    def __init__(self, file: str) -> None:
        self.text = (ROOT / "packaging" / "kubernetes" / file).read_text()
        self.policy, self.binding = yaml.safe_load_all(self.text)
        self.spec: dict[str, Any] = self.policy["spec"]
        self.expressions: dict[str, str] = {each["name"]: each["expression"] for each in self.spec["variables"]}
        self._programs = {text: cel.compile(text) for text in self._texts()}

    def _texts(self) -> Iterable[str]:
        yield from self.expressions.values()
        for each in self.spec["validations"]:
            yield from (each["expression"], each["messageExpression"])

    def variables(
        self, pod: Mapping[str, Any], *, before: Mapping[str, Any] | None = None, user: str = ""
    ) -> dict[str, Any]:
        """What each variable is when this user makes the pod, or edits what it was before."""
        context, found = _context(pod, before, user), dict[str, Any]()
        for name, expression in self.expressions.items():
            context.add_variable("variables", found)
            found[name] = self._programs[expression].execute(context)
        return found

    def problems(self, pod: Mapping[str, Any], *, before: Mapping[str, Any] | None = None, user: str = "") -> list[str]:
        """The messages of the validations that fail then."""
        context = _context(pod, before, user)
        context.add_variable("variables", self.variables(pod, before=before, user=user))
        failed = [each for each in self.spec["validations"] if not self._programs[each["expression"]].execute(context)]
        return [str(self._programs[each["messageExpression"]].execute(context)) for each in failed]


def pod(
    annotations: Mapping[str, str], containers: Iterable[str] = ("c0",), init: Iterable[str] = ()
) -> dict[str, Any]:
    """A pod as the API server has it: what it does not have is left out."""
    spec: dict[str, Any] = {"containers": [{"name": name} for name in containers]}
    if init:
        spec["initContainers"] = [{"name": name} for name in init]
    return {"metadata": {"name": "p", **({"annotations": dict(annotations)} if annotations else {})}, "spec": spec}


def _context(pod: Mapping[str, Any], before: Mapping[str, Any] | None, user: str) -> cel.Context:
    context = cel.Context()
    context.add_function("split", lambda text, separator: text.split(separator))
    context.add_function("join", lambda texts, separator: separator.join(texts))
    context.add_variable("object", dict(pod))
    context.add_variable("oldObject", before)
    context.add_variable("request", {"userInfo": {"username": user}})
    return context
