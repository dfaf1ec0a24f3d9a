"""Remember the newest refusals, overcommitments, ignored annotations and ends of containers."""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cri_proxy.clock import Clock
from policies.base import Request

KEPT: Final = 256


class IncidentKind(StrEnum):
    """The kind of an incident: of a container, or of a pod before it had one."""

    REFUSED = "refused"  # it was not created
    OVERCOMMITTED = "overcommitted"  # it was created, with no CPU time booked for what it asks for
    IGNORED = "ignored"  # an annotation of it has no effect
    ENDED = "ended"  # it has given its grant back


@dataclass(frozen=True, slots=True)
class Incident:
    """One of them. ``number`` counts from 1 in this process; ``container`` is '' where the pod has none yet."""

    number: int
    at_seconds: float  # since the epoch
    kind: IncidentKind
    namespace: str
    pod: str
    pod_uid: str
    container: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentsAnswer:
    """The answer of the admin socket: the newest ``incidents`` of this node, oldest first.

    ``began_seconds`` tells one process of the daemon from the next, whose numbers begin again.
    """

    node: str
    began_seconds: float
    incidents: tuple[Incident, ...] = ()


class Incidents:
    """The newest KEPT."""

    def __init__(self, clock: Clock) -> None:
        """Nothing has happened yet."""
        self._clock = clock
        self.newest: deque[Incident] = deque(maxlen=KEPT)
        self._count = 0
        self._began_seconds: Final = clock.now_seconds()

    def add(self, kind: IncidentKind, request: Request, text: str) -> None:
        """Add one about the container of this request."""
        self._count += 1
        pod, container = request.pod, request.container.name
        now_seconds = self._clock.now_seconds()
        named = (pod.namespace, pod.name, pod.uid, container)
        self.newest.append(Incident(self._count, now_seconds, kind, *named, text))

    def after(self, number: int, node: str) -> IncidentsAnswer:
        """Return those with higher numbers; ``node`` is the name of this one."""
        newer = tuple(each for each in self.newest if each.number > number)
        return IncidentsAnswer(node, self._began_seconds, newer)
