"""The scheduler's own messages: read what it asks, and write what it takes for an answer.

Source: k8s.io/kube-scheduler/extender/v1. Its types have no names of their own for JSON, so that fields are written
``Pod`` and ``NodeNames``; older versions wrote ``pod`` and ``nodenames``, and Go reads any case.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from cri_proxy.extender.demand import GPU_RESOURCE, GpuDemand, QuestionError, count_at, demand_of, items_at, mapping_at
from cri_proxy.foreign_text import admit
from policies.devices.links import ANNOTATION, joined_labels, read_free_gpus

MAX_NODES: Final = 20_000
# An empty array takes 20 times its text in memory; what Kubernetes sends has an object or array for some 40 bytes.
_BYTES_A_BRACKET: Final = 8
_FREE_BRACKETS: Final = 1000
# A namespace has 63 characters at most, a name 253.
_MAX_POD_NAME: Final = 320
_FORM: Final = "expected ExtenderArgs, as kube-scheduler sends them"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may run the pod: its name, the word of its links ('' = none), and how many GPUs it counts.

    ``gpus`` is its capacity as the device plugin reports it, None where only names are sent. ``free`` are those of its
    GPUs that are free, None where it does not publish them. ``problem`` is why the word is not known, where that is an
    error.
    """

    name: str
    published: str = ""
    gpus: int | None = None
    problem: str = ""
    free: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The scheduler's question: a pod and the nodes that passed so far, whole or by name."""

    pod: str
    demand: GpuDemand
    candidates: tuple[Candidate, ...]
    whole: Mapping[str, object] | None = field(default=None, repr=False)


def read_question(body: bytes) -> Question:
    """Return the question of a request. Raises QuestionError."""
    if body.count(b"[") + body.count(b"{") > _FREE_BRACKETS + len(body) // _BYTES_A_BRACKET:
        raise QuestionError("body", f"hardly anything but brackets; {_FORM}")
    try:
        plain = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise QuestionError("body", f"nested too deeply; {_FORM}") from None
    except ValueError as error:
        raise QuestionError("body", f"{str(error)[:200]}; {_FORM}") from None
    fields = {key.lower(): value for key, value in mapping_at(plain, "body").items()}
    if not fields.get("pod"):
        raise QuestionError("Pod", f"missing; {_FORM}")
    pod = mapping_at(fields["pod"], "Pod")
    name = _pod_name(mapping_at(pod.get("metadata"), "Pod.metadata"))
    demand = demand_of(mapping_at(pod.get("spec"), "Pod.spec"))
    if fields.get("nodenames") is not None:
        names = _bounded(items_at(fields["nodenames"], "NodeNames"), "NodeNames")
        return Question(name, demand, tuple(Candidate(_text(name, "NodeNames")) for name in names))
    if fields.get("nodes") is None:
        raise QuestionError("Nodes", f"neither they nor NodeNames are there; {_FORM}")
    whole = mapping_at(fields["nodes"], "Nodes")
    items = _bounded(items_at(whole.get("items"), "Nodes.items"), "Nodes.items")
    return Question(name, demand, tuple(_candidate(node, f"Nodes.items[{i}]") for i, node in enumerate(items)), whole)


def filter_answer(question: Question, failed: Mapping[str, str]) -> bytes:
    """Return an ExtenderFilterResult: the nodes in the form in which they came, without the failed ones.

    Those are unresolvable: to evict pods adds no GPU to a node, so the scheduler need not try.
    """
    answer: dict[str, object] = {"Nodes": None, "NodeNames": None}
    if question.whole is None:
        answer["NodeNames"] = [node.name for node in question.candidates if node.name not in failed]
    elif not failed:
        answer["Nodes"] = question.whole
    else:
        items = zip(question.candidates, items_at(question.whole["items"], "Nodes.items"), strict=True)
        answer["Nodes"] = {**question.whole, "items": [item for node, item in items if node.name not in failed]}
    return _written({**answer, "FailedNodes": {}, "FailedAndUnresolvableNodes": dict(failed), "Error": ""})


def error_answer(error: QuestionError) -> bytes:
    """Return an ExtenderFilterResult with the reason why nothing was filtered."""
    return _written({"Error": str(error)})


def priority_answer(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return a HostPriorityList. Rows may have more keys than ``Host`` and ``Score``: Go passes over unknown ones."""
    return _written(rows)


def _pod_name(metadata: Mapping[str, object]) -> str:
    """Return namespace and name, for the log."""
    words = {key: word for key in ("namespace", "name", "generateName") if isinstance(word := metadata.get(key), str)}
    name = f"{words.get('namespace') or 'default'}/{words.get('name') or words.get('generateName') or ''}"
    return admit(name, _MAX_POD_NAME)


def _candidate(value: object, where: str) -> Candidate:
    node = mapping_at(value, where)
    metadata = mapping_at(node.get("metadata"), f"{where}.metadata")
    annotations = mapping_at(metadata.get("annotations"), f"{where}.metadata.annotations")
    labels = mapping_at(metadata.get("labels"), f"{where}.metadata.labels")
    capacity = mapping_at(mapping_at(node.get("status"), f"{where}.status").get("capacity"), f"{where}.status.capacity")
    gpus = count_at(capacity[GPU_RESOURCE], f"{where}.status.capacity") if GPU_RESOURCE in capacity else None
    published = annotations.get(ANNOTATION)
    if not isinstance(published, str) or not published:
        published = joined_labels({key: text for key, text in labels.items() if isinstance(text, str)})
    name = _text(metadata.get("name"), f"{where}.metadata.name")
    return Candidate(name, published, gpus, free=read_free_gpus({**labels, **annotations}))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise QuestionError(where, f"expected the name of a node, got {str(value)[:40]!r}")
    return value


def _bounded(items: Sequence[object], where: str) -> Sequence[object]:
    if len(items) > MAX_NODES:
        raise QuestionError(where, f"{len(items)} nodes; at most {MAX_NODES} are read")
    return items


def _written(value: object) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"
    except RecursionError:
        raise QuestionError("body", f"nested too deeply; {_FORM}") from None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    # Nodes are sent back as they came, and json writes a number that is out of range as Infinity, which is no JSON.
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number
