"""Ask the API server what a rollout needs of it, and write its Event about the ConfigMap."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from cri_proxy.kube_api.client import ApiClient, ApiRefused
from cri_proxy.kube_api.nodes import ListedNode, labels_of, list_nodes

STOPPED: Final = "RolloutStopped"
CONTROLLER: Final = "cri-proxy.io/config-agent"
_NOTE_BYTES: Final = 1024
_NAME_LENGTH: Final = 220


@dataclass(frozen=True, slots=True)
class ConfigMapName:
    """A ConfigMap of a namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class RolloutCluster:
    """The API server, for the agent of one node. Its methods raise CriProxyError."""

    def __init__(self, api: ApiClient, node: str, config_map: ConfigMapName) -> None:
        """Ask nothing yet. ``node`` is the name of the Node."""
        self._api = api
        self.node = node
        self.config_map = config_map

    async def labels(self) -> Mapping[str, str]:
        """Return the labels of this node."""
        return await labels_of(self._api, self.node)

    async def nodes(self, selector: str) -> tuple[ListedNode, ...]:
        """Return the Nodes that a label selector chooses."""
        # All nodes ask about the same few, and an answer of a moment ago will do.
        return await list_nodes(self._api, selector, from_cache=True)

    async def tell_stopped(self, digest: str, cause: str, note: str, at_seconds: float) -> None:
        """Write that the rollout of this content has stopped: one Event for a cause, whatever the note of it is.

        So many nodes that see the same write it once, and so does one that sees it in other words all the time.
        """
        unique = hashlib.sha256(f"{digest} {cause}".encode()).hexdigest()[:16]
        namespace, name = self.config_map.namespace, self.config_map.name
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{name[:_NAME_LENGTH].rstrip('-.')}.{unique}", "namespace": namespace},
            "eventTime": datetime.fromtimestamp(at_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self.node[:128],
            "action": "Hold",
            "reason": STOPPED,
            "type": "Warning",
            "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name},
            "note": note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
        }
        try:
            await self._api.send("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)
        except ApiRefused as error:
            if error.status != HTTPStatus.CONFLICT:  # it is there, of this node or another, and stays for an hour
                raise
