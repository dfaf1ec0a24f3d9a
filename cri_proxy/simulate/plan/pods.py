"""Make the pods of manifests: a name and a create step for each copy of a workload, in the order of their arrival."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from random import Random
from typing import Final

from cri_proxy.bounded_yaml import Scalar, YamlError, plain
from cri_proxy.simulate.manifests import ContainerManifest, PodManifest, read_manifests
from cri_proxy.simulate.pods import created_pod
from cri_proxy.simulate.scenario.amounts import Amounts, DeclaredPod, pod_amounts
from cri_proxy.simulate.scenario.model import Create, NewContainer
from cri_proxy.yaml_fields import DocumentError

MOST_PODS: Final = 50_000


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """A workload of a manifest: its kind and name, and the create step of one of its pods.

    ``copies`` None: one on every node. ``others`` are resources that are not planned here, as those of device plugins.
    """

    name: str
    create: Create
    copies: int | None
    others: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The kind and name with the namespace, as ``Deployment shop/web``: no two workloads have the same one."""
        kind, _, name = self.name.partition(" ")
        return f"{kind} {self.create.namespace}/{name or self.create.pod}"


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that arrives; ``workload`` is the full name of its workload.

    ``node`` is the only one that it is for, None: the scheduler chooses.
    """

    workload: str
    create: Create
    pod: DeclaredPod
    node: int | None = None


def read_workloads(text: str, source: str, namespace: str) -> Iterator[PlannedWorkload]:
    """Yield the workloads of a text; ``namespace`` is for objects that do not set one.

    Raises DocumentError, also for a figure that Kubernetes refuses.
    """
    try:
        for found in read_manifests(text):
            for line, problem in found.problems:
                raise DocumentError(source, line, f"{found.workload}: {problem}")
            if found.containers:
                yield _workload(found, found.namespace or namespace)
    except YamlError as error:
        raise DocumentError(source, error.line, error.problem) from None


def _workload(found: PodManifest, namespace: str) -> PlannedWorkload:
    whole = _amounts(found.whole) if found.whole is not None else Amounts()
    annotations = {
        item.key: item.value.text if isinstance(item.value, Scalar) else json.dumps(plain(item.value))
        for item in found.annotations
    }
    create = Create(
        found.workload.partition(" ")[2].rstrip("-") or "pod",
        namespace,
        annotations=tuple(sorted(annotations.items())),
        labels=found.labels,
        containers=tuple(NewContainer(c.name, _amounts(c), role=c.role) for c in found.containers),
        amounts=pod_amounts(whole),
    )
    others = {name for container in found.containers for name in container.others}
    return PlannedWorkload(found.workload, create, found.copies, tuple(sorted(others)))


def _amounts(found: ContainerManifest) -> Amounts:
    (cpu, memory), (cpu_limit, memory_limit) = found.requests, found.limits
    return Amounts(
        cpu_request_mcpu=cpu,
        cpu_limit_mcpu=cpu_limit,
        memory_request_bytes=memory,
        memory_limit_bytes=memory_limit,
        huge_pages=found.huge_pages,
    )


def arrivals_of(workloads: Iterable[PlannedWorkload], nodes: int) -> tuple[PlannedPod, ...]:
    """Return every pod in the order of the manifests, those of every node first, as they are there before others.

    Raises DocumentError for more than can be planned.
    """
    known = tuple(workloads)
    count = sum(_copies(workload, nodes) for workload in known)
    if count > MOST_PODS:
        raise DocumentError("the manifests", 0, f"{count} pods; at most {MOST_PODS} can be planned at once")
    taken: set[tuple[str | None, str]] = set()
    named = [(workload, _pod_names(workload, _copies(workload, nodes), taken)) for workload in known]
    everywhere = [each for each in named if each[0].copies is None]
    others = [each for each in named if each[0].copies is not None]
    found = [_arrival(workload, name, node=n) for workload, names in everywhere for n, name in enumerate(names)]
    return (*found, *(_arrival(workload, name) for workload, names in others for name in names))


def _copies(workload: PlannedWorkload, nodes: int) -> int:
    return nodes if workload.copies is None else workload.copies


def _pod_names(workload: PlannedWorkload, copies: int, taken: set[tuple[str | None, str]]) -> list[str]:
    """Return the names of the pods of this workload, which no other pod has in its namespace; they are taken then."""
    namespace = workload.create.namespace
    is_one = copies == 1 and workload.name.startswith("Pod ")
    for base in _bases(workload):
        names = [base] if is_one else [f"{base}-{number}" for number in range(copies)]
        keys = {(namespace, name) for name in names}
        # The first pod of a StatefulSet web and a Pod web-0 would be one pod.
        if taken.isdisjoint(keys):
            break
    taken |= keys
    return names


def _bases(workload: PlannedWorkload) -> Iterator[str]:
    """Yield what the names of the pods may begin with, best first; without end."""
    name = workload.create.pod
    with_kind = f"{name}-{workload.name.partition(' ')[0].lower()}"
    yield name
    yield with_kind
    yield from (f"{with_kind}-{number}" for number in count_from(2))


def _arrival(workload: PlannedWorkload, name: str, node: int | None = None) -> PlannedPod:
    create = replace(workload.create, pod=name)
    return PlannedPod(workload.full_name, create, created_pod(create), node)


def shuffled(arrivals: Sequence[PlannedPod], seed: int) -> tuple[PlannedPod, ...]:
    """Return the pods in the random order of this seed; those of every node stay first."""
    first = [arrival for arrival in arrivals if arrival.node is not None]
    rest = [arrival for arrival in arrivals if arrival.node is None]
    Random(seed).shuffle(rest)
    return (*first, *rest)
