"""Add up what a pod asks for when all of its containers are admitted together (scope pod)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from policies.hints.memory import HUGE_PAGES, RESOURCE


class ContainerKind(StrEnum):
    """When a container runs: with the others, before them, or from before them on (KEP-753)."""

    APP = "app"
    INIT = "init"
    RESTARTABLE_INIT = "restartable-init"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The amounts that one container asks for, by resource; ``cpu`` in whole CPUs, 0 where it gets none of its own."""

    amounts: Mapping[str, int]
    kind: ContainerKind = ContainerKind.APP


def pod_request(containers: Iterable[ContainerRequest]) -> dict[str, int]:
    """Return the most that the pod's containers use at any time, by resource; init containers are in their order.

    The larger of two: the app containers with all restartable init containers, or an init container on top of the
    restartable ones before it. Source: KEP-753, "Resources calculation for scheduling and pod admission".

    >>> migrate = ContainerRequest({"cpu": 4}, ContainerKind.INIT)
    >>> sidecar = ContainerRequest({"cpu": 1}, ContainerKind.RESTARTABLE_INIT)
    >>> app = ContainerRequest({"cpu": 2})
    >>> pod_request([sidecar, migrate, app]), pod_request([migrate, sidecar, app])
    ({'cpu': 5}, {'cpu': 4})
    """
    apps: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in containers:
        match container.kind:
            case ContainerKind.APP:
                apps.update(container.amounts)
            case ContainerKind.RESTARTABLE_INIT:
                sidecars.update(container.amounts)
            case ContainerKind.INIT:
                for resource, amount in container.amounts.items():
                    peak[resource] = max(peak[resource], sidecars[resource] + amount)
    return {
        resource: max(apps[resource] + sidecars[resource], peak[resource])
        for resource in sorted({*apps, *sidecars, *peak})
        # The kubelet's memory manager leaves out what no app container asks for.
        if resource in apps or not _is_memory(resource)
    }


def _is_memory(resource: str) -> bool:
    return resource == RESOURCE or resource.startswith(HUGE_PAGES)
