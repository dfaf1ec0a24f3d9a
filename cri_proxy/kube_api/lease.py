"""Let one process of a cluster act at a time: by a Lease (coordination.k8s.io/v1) that is never taken from its holder.

A Lease of leader election passes on when its holder is silent. Here a silent holder has left its work half done, and
no other may go on until a person has looked: it ends by being released, or deleted.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from cri_proxy.errors import CriProxyError
from cri_proxy.kube_api.client import MERGE_PATCH, ApiRefused
from cri_proxy.kube_api.sync_client import BlockingClient

FAILURE: Final = "cri-proxy.io/failure"
"""The annotation with the reason why the holder's work has failed."""


def leases_of(namespace: str) -> str:
    """Return the path of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of the Lease: its holder, '' for none, and why its work has failed, '' where it has not."""

    holder: str = ""
    failure: str = ""


class Turn:
    """The Lease ``name`` of a namespace, for one holder."""

    def __init__(self, client: BlockingClient, namespace: str, name: str, holder: str) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._collection = leases_of(namespace)
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._holder = holder

    def look(self) -> LeaseState:
        """Return the state of the Lease. Blocks. Raises CriProxyError."""
        return _held(self._client.get(self._path))

    def take(self) -> bool:
        """Hold the Lease, without a former failure; False while another holds it. Blocks. Raises CriProxyError."""
        found = self._client.get(self._path)
        held = _held(found)
        if held.holder not in ("", self._holder):
            return False
        meta: dict[str, Any] = {"name": self._name, "annotations": {FAILURE: None} if held.failure else {}}
        spec = {"holderIdentity": self._holder, "acquireTime": _now(), "renewTime": _now()}
        try:
            if found is None:
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
                self._client.send("POST", self._collection, {**lease, "spec": spec})
            else:
                # With the version that was looked at: a holder that has changed it meanwhile keeps it.
                version = {"resourceVersion": _version(found)}
                self._patch({"metadata": {**meta, **version}, "spec": spec})
        except ApiRefused as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                return False
            raise
        return True

    def renew(self) -> None:
        """Show that the work goes on. Blocks. Raises CriProxyError."""
        self._as_holder({"spec": {"renewTime": _now()}})

    def fail(self, reason: str) -> None:
        """Keep the Lease for good, with the reason in it. Blocks. Raises CriProxyError."""
        self._as_holder({"metadata": {"annotations": {FAILURE: reason}}})

    def release(self) -> None:
        """Give the Lease back, if it is ours. Blocks. Raises CriProxyError."""
        self._as_holder({"spec": {"holderIdentity": ""}})

    def _as_holder(self, change: dict[str, Any]) -> None:
        found = self._client.get(self._path)
        if found is not None and _held(found).holder == self._holder:
            metadata = {**change.get("metadata", {}), "resourceVersion": _version(found)}
            self._patch({**change, "metadata": metadata})

    def _patch(self, change: dict[str, Any]) -> None:
        self._client.send("PATCH", self._path, change, MERGE_PATCH)


def _version(lease: Any) -> str:  # noqa: ANN401 - as a server answers
    return str(lease["metadata"]["resourceVersion"])


def _held(lease: Any) -> LeaseState:  # noqa: ANN401 - as a server answers
    if lease is None:
        return LeaseState()
    try:
        annotations = lease["metadata"].get("annotations") or {}
        return LeaseState(
            str((lease.get("spec") or {}).get("holderIdentity") or ""), str(annotations.get(FAILURE) or "")
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise CriProxyError(f"the API server answers with something that is no Lease: {error}") from error


def _now() -> str:
    """Return the time of day as MicroTime has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
