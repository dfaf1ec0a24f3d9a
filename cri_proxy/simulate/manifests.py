"""Read the pods of Kubernetes manifests: annotations with line and column, containers, QoS class, copies. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

from cri_proxy.bounded_yaml import (
    Dialect,
    Item,
    Listing,
    Mapping,
    Scalar,
    Tree,
    parse_documents,
    plain,
    tree_at,
    word_at,
)
from cri_proxy.cri.amounts import page_bytes_of
from cri_proxy.cri_client.pods import ContainerRole
from policies.base import Labels, QosClass
from sysfs.known_words import short_repr
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
# Where a workload says how many of its pods run at a time, the smallest of several figures; a DaemonSet (one a node)
# does not say. A pod may say so by ``count``, which Kubernetes does not know: a user means to start several of it.
_COPIES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "pod": (("count",),),
    "daemonset": (),
    "job": (("spec", "parallelism"), ("spec", "completions")),
    "cronjob": tuple(("spec", "jobTemplate", "spec", key) for key in ("parallelism", "completions")),
    **dict.fromkeys(("deployment", "replicaset", "replicationcontroller", "statefulset"), (("spec", "replicas"),)),
}
_PLANNED: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_MOST_COPIES: Final = (1 << 31) - 1  # an int32 in the Kubernetes API
_COUNT_CHARACTERS: Final = 16
_INIT: Final = {False: ContainerRole.INIT, True: ContainerRole.SIDECAR}


@dataclass(frozen=True, slots=True)
class ContainerManifest:
    """A container; what it requests and its limits of CPU (thousandths) and memory (bytes), None where it has none.

    ``huge_pages`` are pairs of a page's size as CRI has it and a limit in bytes. ``others`` are the names of other
    resources that it asks for. A ``sidecar`` is an init container that keeps running.
    """

    name: str
    line: int
    requests: tuple[int | None, int | None] = (None, None)
    limits: tuple[int | None, int | None] = (None, None)
    role: ContainerRole = ContainerRole.REGULAR
    huge_pages: tuple[tuple[str, int], ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A pod, or the template of a workload's pods: ``workload`` is its kind and name.

    ``annotations`` are as written, a value that is no scalar included. ``whole`` stands for the resources of the pod
    itself (``spec.resources``), None where it has none. ``line`` is that of the workload. ``labels`` are the pods'.
    ``copies`` is how many run at a time, None: one on every node. ``problems`` are the figures that Kubernetes refuses,
    each with its line; they count as not given.
    """

    workload: str
    namespace: str
    line: int
    annotations: tuple[Item, ...]
    containers: tuple[ContainerManifest, ...]
    whole: ContainerManifest | None = None
    labels: Labels = ()
    copies: int | None = 1
    problems: tuple[tuple[int, str], ...] = ()


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
        _labels(tree_at(template, "metadata", "labels")),
        _copies(tree, kind.casefold()),
        (*_problems_of_copies(tree, kind.casefold()), *_problems_of_amounts(template)),
    )


def _labels(tree: Tree | None) -> Labels:
    items = tree.items if isinstance(tree, Mapping) else ()
    return tuple(sorted((item.key, item.value.text) for item in items if isinstance(item.value, Scalar)))


def _copies(tree: Tree, kind: str) -> int | None:
    """Return how many pods of a workload run at a time: as it says, by default one; None: one on every node.

    A Job runs no more at a time than it has completions left (kubernetes.io, "Jobs").
    """
    if kind == "daemonset":
        return None
    first, *bounds = (_count(tree_at(tree, *path)) for path in _COPIES[kind])
    return min([1 if first is None else first, *(bound for bound in bounds if bound is not None)])


def _count(tree: Tree | None) -> int | None:
    """Return a number of pods, None where there is none or Kubernetes refuses it."""
    if not isinstance(tree, Scalar) or tree.kind != "int" or len(tree.text) > _COUNT_CHARACTERS:
        return None
    value = plain(tree)
    return value if isinstance(value, int) and 0 <= value <= _MOST_COPIES else None


def _problems_of_copies(tree: Tree, kind: str) -> Iterator[tuple[int, str]]:
    for path in _COPIES[kind]:
        found = tree_at(tree, *path)
        if _is_given(found) and _count(found) is None:
            problem = f"{'.'.join(path)}: expected a whole number from 0 to {_MOST_COPIES}, got {_shown(found)}"
            yield found.line, problem


def _problems_of_amounts(template: Tree | None) -> Iterator[tuple[int, str]]:
    """Yield the quantities in the resources of the pod and its containers that Kubernetes refuses."""
    listed = [tree_at(template, "spec", key) for key in ("initContainers", "containers")]
    parts = [item for each in listed if isinstance(each, Listing) for item in each.items]
    for part in (tree_at(template, "spec"), *parts):
        for which in ("limits", "requests"):
            amounts = tree_at(part, "resources", which)
            for item in amounts.items if isinstance(amounts, Mapping) else ():
                problem = _problem_of_quantity(item)
                if problem:
                    yield item.value.line, f"resources.{which}.{item.key}: {problem}"


def _problem_of_quantity(item: Item) -> str:
    if not _is_given(item.value):
        return ""
    if not isinstance(item.value, Scalar):
        return f"expected a quantity, got {_shown(item.value)}"
    try:
        dict(_READ).get(item.key, parse_bytes)(item.value.text)
    except QuantityError as error:
        return str(error)
    return ""


def _is_given(tree: Tree | None) -> TypeGuard[Tree]:
    """Return whether a value is there; null is none in objects of Kubernetes."""
    return tree is not None and not (isinstance(tree, Scalar) and tree.is_null)


def _shown(tree: Tree) -> str:
    match tree:
        case Scalar():
            return short_repr(tree.text)
        case Listing():
            return "a list"
    return "a mapping"


def _containers(template: Tree | None, key: str) -> Iterator[ContainerManifest]:
    listed = tree_at(template, "spec", key)
    for item in listed.items if isinstance(listed, Listing) else ():
        found = _container(word_at(item, "name"), item.line, tree_at(item, "resources"))
        stays = word_at(item, "restartPolicy") == "Always"
        role = ContainerRole.REGULAR if key == "containers" else _INIT[stays]
        yield replace(found, role=role)


def _container(name: str, line: int, resources: Tree | None) -> ContainerManifest:
    limits = _amounts(tree_at(resources, "limits"))
    requests = _amounts(tree_at(resources, "requests"))
    # The API server makes a limit without a request the request too.
    cpu, memory = (limit if request is None else request for request, limit in zip(requests, limits, strict=True))
    asked = [tree_at(resources, part) for part in ("limits", "requests")]
    items = [item for part in asked if isinstance(part, Mapping) for item in part.items]
    pages = {item.key: page for item in items if (page := _huge_page(item)) is not None}
    others = {item.key for item in items} - set(_PLANNED) - pages.keys()
    return ContainerManifest(
        name, line, (cpu, memory), limits, huge_pages=tuple(sorted(pages.values())), others=tuple(sorted(others))
    )


def _huge_page(item: Item) -> tuple[str, int] | None:
    """Return the size as CRI has it and the bytes of ``hugepages-2Mi: 1Gi``; None for anything else."""
    page = f"{item.key.removeprefix(_HUGE_PAGES).removesuffix('i')}B"
    if not item.key.startswith(_HUGE_PAGES) or not page_bytes_of(page) or not isinstance(item.value, Scalar):
        return None
    try:
        return page, parse_bytes(item.value.text)
    except QuantityError:
        return None


def _amounts(tree: Tree | None) -> tuple[int | None, int | None]:
    """Return CPU and memory; a quantity that Kubernetes would refuse counts as none."""
    found: list[int | None] = []
    for key, read in _READ:
        try:
            # 0 is none, as where Kubernetes computes the QoS class.
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
