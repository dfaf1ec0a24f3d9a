"""Resolve the words that ``explain`` is asked with, and find names that are near them. Pure.

Words are [NAMESPACE/]POD[/CONTAINER], a pod by name or uid. Whole names count first. Only where nothing has them, the
name of a static pod counts without the node's suffix, and then that of a workload, which means all of its pods.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from cri_proxy.node.status.workload import PodWorkload, workload_of
from cri_proxy.steps import Steps, bunches
from policies.base import ContainerKey, Pod
from policies.container_name import ContainerName

Names = Mapping[ContainerKey, ContainerName]

NEAR: Final = 0.7
"""From this ratio of ``difflib`` on a name is a candidate: one wrong letter in four, two in seven."""
MOST_CANDIDATES: Final = 5
_LONGEST_NAME: Final = 253  # of a pod (RFC 1123 subdomain); longer words are compared with nothing
# The kubelet makes a static pod's uid of an MD5 digest; the API server's are UUIDs, with dashes.
_STATIC_UID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Reading:
    """One meaning of the words; '' = any namespace, all containers."""

    pod: str
    namespace: str = ""
    container: str = ""

    def __str__(self) -> str:
        pod = f"pod {self.pod}" + f" of namespace {self.namespace}" * bool(self.namespace)
        return f"container {self.container} of {pod}" if self.container else pod

    def means(self, key: ContainerKey, name: ContainerName, pod: str = "") -> bool:
        """Return whether this container is meant; ``pod`` is its pod's name where another than its own is to count."""
        return (
            self.pod in (pod or name.pod, key.pod_uid)
            and self.namespace in ("", name.namespace)
            and self.container in ("", name.name)
        )


@dataclass(frozen=True, slots=True)
class Meant:
    """The containers that are meant, in order; ``read_as``: how, where words mean more than one whole name."""

    keys: tuple[ContainerKey, ...]
    read_as: tuple[str, ...] = ()


def readings_of(words: str, container: str = "") -> tuple[Reading, ...]:
    """Return the possible meanings of these words; none in another form. ``container`` is one that is given apart.

    >>> [str(reading) for reading in readings_of("shop/web")]
    ['container web of pod shop', 'pod web of namespace shop']
    """
    parts = words.split("/")
    if not all(parts):
        return ()
    match parts:
        case [pod]:
            return (Reading(pod, container=container),)
        case [namespace, pod] if container:
            return (Reading(pod, namespace, container),)
        case [first, second]:
            return (Reading(first, container=second), Reading(second, first))
        case [namespace, pod, name] if container in ("", name):
            return (Reading(pod, namespace, name),)
    return ()


def in_namespace(readings: Sequence[Reading], namespace: str) -> tuple[Reading, ...]:
    """Return the readings that can mean pods of this namespace, narrowed to it; '' means any."""
    chosen = (reading for reading in readings if not namespace or reading.namespace in ("", namespace))
    return tuple(replace(reading, namespace=reading.namespace or namespace) for reading in chosen)


def resolved(
    names: Names, readings: Sequence[Reading], node: str, pods: Mapping[str, Pod] = MappingProxyType({})
) -> Meant:
    """Return the containers that these words mean: every reading counts, whole names first, then short ones.

    ``node`` is the node's name, which the kubelet appends to the names of static pods. Last come names of workloads;
    ``pods`` are those whose labels are known, by uid.
    """
    keys, found = _meant(names, readings, {})
    if keys:
        return Meant(keys, tuple(map(str, found)) if len(found) > 1 else ())
    short = short_names(names, node)
    keys, found = _meant(names, readings, {key.pod_uid: short.get(name.pod, "") for key, name in names.items()})
    if keys:
        static = {key.pod_uid: names[key] for key in keys}
        return Meant(keys, tuple(dict.fromkeys(f"static pod {name.namespace}/{name.pod}" for name in static.values())))
    made = workloads_of(names, pods)
    keys, found = _meant(names, readings, {uid: workload.name for uid, workload in made.items()})
    texts = (f"{made[key.pod_uid].kind or 'workload'} {names[key].namespace}/{made[key.pod_uid].name}" for key in keys)
    return Meant(keys, tuple(dict.fromkeys(texts)))


def workloads_of(names: Names, pods: Mapping[str, Pod]) -> dict[str, PodWorkload]:
    """Return what made each pod that does not stand for itself, by the pod's uid."""
    labels = {uid: pod.labels for uid, pod in pods.items()}
    found = {key.pod_uid: workload_of(name.pod, labels.get(key.pod_uid, ())) for key, name in names.items()}
    return {uid: workload for uid, workload in found.items() if workload.kind != "Pod"}


def _meant(
    names: Names, readings: Sequence[Reading], short: Mapping[str, str]
) -> tuple[tuple[ContainerKey, ...], list[Reading]]:
    """Return the containers that are meant, in order, and the readings that mean any; ``short`` is by pod uid."""
    keys: set[ContainerKey] = set()
    found = []
    for reading in readings:
        meant = {key for key, name in names.items() if reading.means(key, name, short.get(key.pod_uid, ""))}
        keys |= meant
        if meant:
            found.append(reading)
    order = {key: (names[key].namespace, names[key].pod, names[key].name, key.pod_uid) for key in keys}
    return tuple(sorted(keys, key=order.__getitem__)), found


def short_names(names: Names, node: str) -> dict[str, str]:
    """Return the pods whose names end in the node's, with their names without it.

    Where the node has another name for us than for the kubelet (``--node-name``), the suffix that static pods share
    tells it.
    """
    static = sorted({name.pod for key, name in names.items() if _STATIC_UID.fullmatch(key.pod_uid)})
    short = {pod: pod.removesuffix(shared) for shared in (_shared_suffix(static),) if shared for pod in static}
    own = f"-{node}" if node else ""
    for pod in {name.pod for name in names.values()}:
        if own and pod.endswith(own) and pod != own:
            short[pod] = pod.removesuffix(own)
    return short


def _shared_suffix(pods: Sequence[str]) -> str:
    """Return the longest end, from a dash on, that the names of several static pods share; '' without one.

    >>> _shared_suffix(["etcd-cp-1.example", "kube-apiserver-cp-1.example"])
    '-cp-1.example'
    """
    if len(pods) < 2:
        return ""
    parts = [pod.split("-")[1:] for pod in pods]  # the first word is the pod's own, whatever others are called
    shared = 0
    while all(len(words) > shared for words in parts) and len({words[-1 - shared] for words in parts}) == 1:
        shared += 1
    return "".join(f"-{word}" for word in parts[0][len(parts[0]) - shared :])


def candidates(names: Names, readings: Sequence[Reading]) -> Steps[tuple[str, ...]]:
    """Return the nearest names to these words, best first, as NAMESPACE/POD[/CONTAINER]; none that is far from them."""
    if any(len(word) > _LONGEST_NAME for reading in readings for word in (reading.pod, reading.container)):
        return ()
    scores: dict[str, float] = {}
    for bunch in bunches(sorted(set(names.values()), key=str)):
        yield
        for name in bunch:
            for reading in readings:
                full = str(name) if reading.container else f"{name.namespace}/{name.pod}"
                scores[full] = max(scores.get(full, 0.0), nearness(reading, name))
    near = sorted((full for full, score in scores.items() if score >= NEAR), key=lambda full: (-scores[full], full))
    return tuple(near[:MOST_CANDIDATES])


def nearness(reading: Reading, name: ContainerName) -> float:
    """Return how near this container's name is to what was said, from 0 to 1.

    What follows the said part of a pod's name costs nothing: a hash of its ReplicaSet, an ordinal, a node's name.
    A pod whose name is right counts as near, whatever else is wrong.
    """
    from difflib import SequenceMatcher  # as in ``sysfs.known_words``: needed only after a mistake

    if reading.pod == name.pod:
        return 1.0
    words = reading.pod.count("-") + 1
    beginning = "-".join(name.pod.split("-")[:words])
    said = (reading.namespace, reading.pod, reading.container)
    forms = [
        "/".join(part for part, was_said in zip((name.namespace, pod, name.name), said, strict=True) if was_said)
        for pod in dict.fromkeys((name.pod, beginning))
    ]
    text = "/".join(filter(None, said)).lower()
    # Without autojunk: in texts of 200 letters and more difflib leaves out those that are frequent.
    return max(SequenceMatcher(None, text, form, autojunk=False).ratio() for form in forms)
