"""What the API server has of a node: its label for the installer, whether it is Ready, and the kubelet's heartbeat."""

from dataclasses import dataclass
from typing import Any, Final

from cri_proxy.errors import CriProxyError
from cri_proxy.kube_api.client import Plain
from cri_proxy.kube_api.lease import leases_of
from cri_proxy.kube_api.sync_client import BlockingClient

LABEL: Final = "cri-proxy.io/node"
INSTALL, UNINSTALL = "install", "uninstall"
LEASE: Final = "cri-proxy-installer"
_HEARTBEATS: Final = "kube-node-lease"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """``wanted``: the label's value, '' for none. ``problem``: why it is not Ready. ``heartbeat``: the last one."""

    wanted: str = ""
    is_ready: bool = False
    problem: str = ""
    heartbeat: str = ""


class NodeOfCluster:
    """The Node with a name, by the API server."""

    def __init__(self, client: BlockingClient, name: str) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._node = f"/api/v1/nodes/{name}"
        self._lease = f"{leases_of(_HEARTBEATS)}/{name}"

    def state(self) -> ClusterNode:
        """Return what is known now. Blocks. Raises CriProxyError."""
        node, lease = self._client.get(self._node), self._client.get(self._lease)
        if node is None:
            raise CriProxyError(f"{self._node}: the API server knows no such Node")
        try:
            return _state_of(node, lease or {})
        except (AttributeError, KeyError, TypeError) as error:
            raise CriProxyError(f"the API server answers with something that is no Node: {error}") from error


def _state_of(node: Any, lease: Any) -> ClusterNode:  # noqa: ANN401 - as a server answers
    labels = node["metadata"].get("labels") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    ready: Plain = next((each for each in conditions if each["type"] == "Ready"), {})
    is_ready = ready.get("status") == "True"
    problem = "" if is_ready else str(ready.get("message") or ready.get("reason") or "it has no such condition")
    heartbeat = str((lease.get("spec") or {}).get("renewTime") or "")
    return ClusterNode(str(labels.get(LABEL) or ""), is_ready, problem, heartbeat)
