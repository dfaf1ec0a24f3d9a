"""Find the workload of a pod, from the labels that its controller sets, else from its name's generated end. Pure.

Sources: kubernetes.io, "Well-Known Labels, Annotations and Taints"; generated ends are of the letters of
k8s.io/apimachinery ``util/rand``, five for a pod, up to ten for a ReplicaSet.
"""

import re
from dataclasses import dataclass
from typing import Final

from policies.base import Labels

_LETTERS: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_OF_POD: Final = re.compile(f"(?P<name>.+)-{_LETTERS}{{5}}")
_OF_REPLICA: Final = re.compile(f"(?P<name>.+)-{_LETTERS}{{5,10}}-{_LETTERS}{{5}}")
_ORDINAL: Final = re.compile(r"(?P<name>.+)-[0-9]+")
_DIGIT: Final = re.compile("[0-9]")
_JOB_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")


@dataclass(frozen=True, slots=True)
class PodWorkload:
    """The owner of a pod: its kind, as Kubernetes spells it, and its name. '' = a kind that cannot be told."""

    kind: str
    name: str


def workload_of(pod: str, labels: Labels = ()) -> PodWorkload:
    """Return the workload of this pod; one that stands for itself is a Pod.

    >>> workload_of("web-5d4f9c7b8-x2x7k"), workload_of("db-0", (("apps.kubernetes.io/pod-index", "0"),))
    (PodWorkload(kind='Deployment', name='web'), PodWorkload(kind='StatefulSet', name='db'))
    """
    known = dict(labels)
    if digest := known.get("pod-template-hash"):
        replica = re.fullmatch(f"(.+)-{re.escape(digest)}-{_LETTERS}{{5}}", pod)
        return PodWorkload("Deployment", replica[1] if replica else pod)
    job = next((known[label] for label in _JOB_LABELS if known.get(label)), "")
    if job:
        return PodWorkload("Job", job)
    if "statefulset.kubernetes.io/pod-name" in known or "apps.kubernetes.io/pod-index" in known:
        return _named("StatefulSet", _ORDINAL, pod)
    if "controller-revision-hash" in known:
        return _named("DaemonSet", _OF_POD, pod)
    return _by_name(pod)


def _named(kind: str, pattern: re.Pattern[str], pod: str) -> PodWorkload:
    match = pattern.fullmatch(pod)
    return PodWorkload(kind, match["name"] if match else pod)


def _by_name(pod: str) -> PodWorkload:
    """Return the workload by the name alone; a generated end has a digit, or else it may well be a word."""
    replica, plain = _OF_REPLICA.fullmatch(pod), _OF_POD.fullmatch(pod)
    if replica and _DIGIT.search(pod[len(replica["name"]) :]):
        return PodWorkload("Deployment", replica["name"])
    if plain and _DIGIT.search(pod[len(plain["name"]) :]):
        return PodWorkload("", plain["name"])
    return PodWorkload("Pod", pod)
