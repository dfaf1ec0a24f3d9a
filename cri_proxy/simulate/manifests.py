"""Read the pods of Kubernetes manifests: their annotations with line and column, containers, QoS class. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cri_proxy.bounded_yaml import Dialect, Item, Listing, Mapping, Tree, parse_documents, tree_at, word_at
from policies.base import QosClass
from sysfs.quantity import QuantityError, parse_bytes, parse_mcpu

DIALECT: Final = Dialect(max_bytes=16 << 20, max_depth=60, max_nodes=1_000_000, has_aliases=True)
# The way from a workload to the pods that it makes.
_TEMPLATES: Final = {
    "pod": (),
    "cronjob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("daemonset", "deployment", "job", "replicaset", "replicationcontroller", "statefulset"), ("spec", "template")
    ),
}
_READ: Final = (("cpu", parse_mcpu), ("memory", parse_bytes))


@dataclass(frozen=True, slots=True)
class ContainerManifest:
    """A container; what it requests and its limits of CPU (thousandths) and memory (bytes), None where it has none."""

    name: str
    line: int
    requests: tuple[int | None, int | None] = (None, None)
    limits: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A pod, or the template of a workload's pods: ``workload`` is its kind and name.

    ``annotations`` are as written, a value that is no scalar included. ``whole`` stands for the resources of the pod
    itself (``spec.resources``), None where it has none. ``line`` is that of the workload.
    """

    workload: str
    namespace: str
    line: int
    annotations: tuple[Item, ...]
    containers: tuple[ContainerManifest, ...]
    whole: ContainerManifest | None = None


def read_manifests(text: str) -> Iterator[PodManifest]:
    """Yield the pods of a text of one or more documents; others of its objects are passed over. Raises YamlError."""
    for tree in parse_documents(text, DIALECT):
        yield from _pods_of(tree)


def _pods_of(tree: Tree) -> Iterator[PodManifest]:
    kind = word_at(tree, "kind")
    if isinstance(items := tree_at(tree, "items"), Listing):
        for item in items.items:
            yield from _pods_of(item)
    if kind.casefold() not in _TEMPLATES:
        return
    template = tree_at(tree, *_TEMPLATES[kind.casefold()])
    containers = (*_containers(template, "initContainers"), *_containers(template, "containers"))
    found = tree_at(template, "metadata", "annotations")
    whole = tree_at(template, "spec", "resources")
    yield PodManifest(
        f"{kind} {word_at(tree, 'metadata', 'name') or word_at(tree, 'metadata', 'generateName')}".strip(),
        word_at(template, "metadata", "namespace") or word_at(tree, "metadata", "namespace"),
        tree.line,
        found.items if isinstance(found, Mapping) else (),
        containers,
        _container("", whole.line, whole) if whole is not None else None,
    )


def _containers(template: Tree | None, key: str) -> Iterator[ContainerManifest]:
    listed = tree_at(template, "spec", key)
    for item in listed.items if isinstance(listed, Listing) else ():
        yield _container(word_at(item, "name"), item.line, tree_at(item, "resources"))


def _container(name: str, line: int, resources: Tree | None) -> ContainerManifest:
    limits = _amounts(tree_at(resources, "limits"))
    requests = _amounts(tree_at(resources, "requests"))
    cpu, memory = (limit if request is None else request for request, limit in zip(requests, limits, strict=True))
    return ContainerManifest(name, line, (cpu, memory), limits)


def _amounts(tree: Tree | None) -> tuple[int | None, int | None]:
    """Return CPU and memory; a quantity that Kubernetes would refuse counts as none."""
    found: list[int | None] = []
    for key, read in _READ:
        try:
            found.append(read(word_at(tree, key)) or None if word_at(tree, key) else None)
        except QuantityError:
            found.append(None)
    return found[0], found[1]


def qos_of_pod(pod: PodManifest) -> tuple[QosClass, str]:
    """Return the class of the pod, and why it is not Guaranteed; '' where it is, or asks for nothing.

    Source: kubernetes.io, "Pod Quality of Service Classes"; of a pod with resources of its own these decide (KEP-2837).
    """
    parts = (pod.whole,) if pod.whole is not None else pod.containers
    if not any((*part.requests, *part.limits) != (None,) * 4 for part in parts):
        return QosClass.BEST_EFFORT, ""
    for part in parts:
        whose = f"container {part.name}" if part.name else "the pod"
        for what, request, limit in zip(("CPU", "memory"), part.requests, part.limits, strict=True):
            if limit is None:
                return QosClass.BURSTABLE, f"{whose} has no {what} limit"
            if request != limit:
                return QosClass.BURSTABLE, f"{whose} has another {what} request than limit"
    return QosClass.GUARANTEED, ""
