"""Write an Event about a pod for each refusal, overcommitment and ignored wish that the daemon tells of.

What is the same is written once in a while, and no more Events than a bucket of them allows: a node that refuses a
thousand pods must not be what fills the cluster's store. Source: the Event of events.k8s.io/v1, and what the API server
checks of it (pkg/apis/core/validation/events.go).
"""

import hashlib
import json
import re
from collections import OrderedDict
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.codec import CodecError, decode
from cri_proxy.exporter.daemon import AdminClient
from cri_proxy.foreign_text import visible
from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.client import ApiClient, ApiRefused, Plain
from cri_proxy.logs import Log
from cri_proxy.node.decision_log.incidents import Incident, IncidentKind, IncidentsAnswer

CONTROLLER: Final = "cri-proxy.io/exporter"
AGAIN_SECONDS: Final = 600.0
"""For so long the same of one container is written once: the kubelet tries a refused container again and again."""
MOST_AT_ONCE: Final = 30
PER_SECOND: Final = 0.5
"""The bucket: so many Events at once, and then so many a second."""
_KEPT: Final = 2048
_NOTE_BYTES: Final = 1024
_NAME_LENGTH: Final = 220
_INCIDENTS: Final = "/api/v1/incidents"
_FIGURE: Final = re.compile(r"\d+")
_LOST: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE, 422)
"""The pod's namespace is gone, the Event is there already, or will never be accepted: the next one may be."""
_REASONS: Final = {
    IncidentKind.REFUSED: ("PlacementRefused", "Refuse"),
    IncidentKind.OVERCOMMITTED: ("CPUOvercommitted", "Place"),
    IncidentKind.IGNORED: ("AnnotationIgnored", "Place"),
}


class PodEventsPart:
    """Follows the daemon's incidents. One that could not be written is the first of the next step."""

    name = "events"

    def __init__(self, daemon: AdminClient, api: ApiClient, clock: Clock, log: Log) -> None:
        """Nothing is written yet."""
        self._daemon = daemon
        self._api = api
        self._clock = clock
        self._log = log
        self._began_seconds = 0.0
        self._number = 0
        self._written: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._bucket = Bucket(clock)
        self._left_out = 0

    async def step(self) -> None:
        """Write Events about what is new. Raises as ``ExporterPart.step`` does."""
        said = await self._asked(self._number)
        if said.began_seconds != self._began_seconds:  # another process: its numbers begin again
            self._began_seconds, self._number = said.began_seconds, 0
            said = await self._asked(0)
        for incident in said.incidents:
            # An exporter that starts gets all incidents that the daemon remembers, the old ones too.
            if self._clock.now_seconds() - incident.at_seconds < AGAIN_SECONDS:
                await self._write(said.node, incident)
            # After the write: one that fails is the first of the next step.
            self._number = incident.number
        if self._left_out:
            self._log.warning(events.EVENTS_LEFT_OUT, count=self._left_out)
            self._left_out = 0

    async def _asked(self, after: int) -> IncidentsAnswer:
        plain = await self._daemon.object_at(f"{_INCIDENTS}?after={after}")
        listed = plain.get("incidents")
        # A newer daemon may have kinds of incidents that this version does not know.
        known = [each for each in listed if _is_known(each)] if isinstance(listed, list) else listed
        try:
            return decode(IncidentsAnswer, {**plain, "incidents": known})
        except CodecError as error:
            raise Unreachable(self._daemon.name, f"{_INCIDENTS} cannot be read: {error}") from None

    async def _write(self, node: str, incident: Incident) -> None:
        what = (incident.pod_uid, incident.container, incident.kind, _reason_in(incident))
        now_seconds = self._clock.monotonic_seconds()
        before_seconds = self._written.get(what)
        if before_seconds is not None and now_seconds - before_seconds < AGAIN_SECONDS:
            return
        if not self._bucket.has_one():
            self._left_out += 1
            return
        event = event_of(node, self._began_seconds, incident)
        try:
            await self._api.send("POST", f"/apis/events.k8s.io/v1/namespaces/{incident.namespace}/events", event)
        except ApiRefused as error:
            if error.status not in _LOST and not _is_ending(error):
                raise
        else:
            # A refused Event takes no room in the cluster's store.
            self._bucket.take()
        self._written[what] = now_seconds
        self._written.move_to_end(what)
        while len(self._written) > _KEPT:
            self._written.popitem(last=False)


def _reason_in(incident: Incident) -> str:
    """Return the text without its figures, which are others at each try; a wish that is ignored is told by its name."""
    return incident.text if incident.kind is IncidentKind.IGNORED else _FIGURE.sub("", incident.text)


def _is_known(incident: object) -> bool:
    return not isinstance(incident, dict) or incident.get("kind") in _REASONS


class Bucket:
    """A bucket that fills by PER_SECOND up to MOST_AT_ONCE."""

    def __init__(self, clock: Clock) -> None:
        """Full."""
        self._clock = clock
        self._level = float(MOST_AT_ONCE)
        self._at_seconds = clock.monotonic_seconds()

    def has_one(self) -> bool:
        """Return whether one may be taken."""
        now_seconds = self._clock.monotonic_seconds()
        self._level = min(MOST_AT_ONCE, self._level + (now_seconds - self._at_seconds) * PER_SECOND)
        self._at_seconds = now_seconds
        return self._level >= 1.0

    def take(self) -> None:
        """Take one."""
        self._level -= 1.0


def event_of(node: str, began_seconds: float, incident: Incident) -> Plain:
    """Return the Event; of one incident it has one name, so that it is not written twice."""
    reason, action = _REASONS[incident.kind]
    unique = json.dumps([node, began_seconds, incident.number, incident.pod_uid])
    digest = hashlib.sha256(unique.encode()).hexdigest()[:16]
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": incident.namespace,
        "name": incident.pod,
        "uid": incident.pod_uid,
    }
    if incident.container:
        regarding["fieldPath"] = f"spec.containers{{{incident.container}}}"
    at = datetime.fromtimestamp(incident.at_seconds, UTC)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{incident.pod[:_NAME_LENGTH]}.{digest}", "namespace": incident.namespace},
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        # The API server refuses more characters.
        "reportingInstance": node[:128],
        "action": action,
        "reason": reason,
        "type": "Warning",
        "regarding": regarding,
        "note": _note(incident),
    }


def _note(incident: Incident) -> str:
    text = visible(f"container {incident.container}: {incident.text}" if incident.container else incident.text)
    cut = text.encode()[:_NOTE_BYTES]
    # The cut may go through a character.
    return cut.decode(errors="ignore")


def _is_ending(error: ApiRefused) -> bool:
    """Return whether the namespace is being deleted, and takes no new object (the admission's NamespaceTerminating)."""
    return error.status == HTTPStatus.FORBIDDEN and "being terminated" in error.message
