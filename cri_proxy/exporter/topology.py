"""Bring the node's NodeResourceTopology object to the API server: create it, replace it, and keep what others add."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.exporter.daemon import TOPOLOGY, AdminClient
from cri_proxy.kube_api.client import ApiClient, ApiRefused, Plain
from cri_proxy.logs import Log

RESOURCE: Final = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_OVERTAKEN: Final = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
"""Another has written, made or removed the object since it was read."""
_ATTEMPTS: Final = 3
LOOK_SECONDS: Final = 300.0
"""How often the object is read though it has not changed here."""


class TopologyPublisher:
    """Writes one object. What it was when it was read or written last is remembered: most writes are one call."""

    def __init__(self, api: ApiClient) -> None:
        """Nothing is known of the object yet."""
        self._api = api
        self._known: Plain | None = None

    async def publish(self, wanted: Plain, *, look: bool = False) -> bool:
        """Make the object what is wanted; return False where it was that already. ``look``: read it again first.

        Labels and annotations of others stay. Raises ApiRefused, AccessError and Unreachable.
        """
        # Forgotten until the server has answered: after a call that failed it may have either content.
        known, self._known = (None if look else self._known), None
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._write(wanted, known)
            except ApiRefused as error:
                if error.status not in _OVERTAKEN or attempt == _ATTEMPTS or _is_unknown(error):
                    raise
            known = None
        return False

    async def _write(self, wanted: Plain, known: Plain | None) -> bool:
        path = f"{RESOURCE}/{_metadata(wanted)['name']}"
        known = known or await self._api.get(path)
        if known is None:
            self._known = await self._api.send("POST", RESOURCE, wanted)
            return True
        if _is_that(known, wanted):
            self._known = known
            return False
        self._known = await self._api.send("PUT", path, _merged(known, wanted))
        return True


def _is_unknown(error: ApiRefused) -> bool:
    """Return whether the server has no such resource: the CRD is not installed."""
    return error.status == HTTPStatus.NOT_FOUND and error.reason != "NotFound"


def _is_that(known: Plain, wanted: Plain) -> bool:
    """Return whether an object has all that is wanted."""
    if any(known.get(key) != value for key, value in wanted.items() if key != "metadata"):
        return False
    annotations, has = _metadata(wanted).get("annotations"), _metadata(known).get("annotations")
    return isinstance(annotations, dict) and isinstance(has, dict) and annotations.items() <= has.items()


def _merged(known: Plain, wanted: Plain) -> Plain:
    """Return the wanted object with the metadata of the known one, whose resourceVersion a replacement must name."""
    ours, theirs = _metadata(wanted), _metadata(known)
    before, annotations = theirs.get("annotations"), ours.get("annotations")
    merged = {**(before if isinstance(before, dict) else {}), **(annotations if isinstance(annotations, dict) else {})}
    kept = {key: value for key, value in theirs.items() if key != "managedFields"}
    return {**wanted, "metadata": {**kept, "annotations": merged}}


def _metadata(value: Plain) -> Plain:
    found = value.get("metadata")
    return found if isinstance(found, Mapping) else {}


class TopologyPart:
    """Keeps the object in the cluster that of the daemon; now and then it looks whether another has changed it."""

    name = "node topology"

    def __init__(self, daemon: AdminClient, api: ApiClient, clock: Clock, log: Log) -> None:
        """Nothing is written yet."""
        self._daemon = daemon
        self._publisher = TopologyPublisher(api)
        self._clock = clock
        self._log = log
        self._written = b""
        self._next_look_seconds = 0.0

    async def step(self) -> None:
        """Write the object if it has changed. Raises as ``ExporterPart.step`` does."""
        text = await self._daemon.get(TOPOLOGY)
        now_seconds = self._clock.monotonic_seconds()
        is_due = now_seconds >= self._next_look_seconds
        if text == self._written and not is_due:
            return
        wanted = json.loads(text)
        is_first = not self._written
        if await self._publisher.publish(wanted, look=is_due) or is_first:
            self._log.info(events.NODE_TOPOLOGY_EXPORTED, node=wanted["metadata"]["name"])
        self._written, self._next_look_seconds = text, now_seconds + LOOK_SECONDS
