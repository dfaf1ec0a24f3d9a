"""Let one process of a cluster act at a time: by a Lease (coordination.k8s.io/v1) that is never taken from its holder.

A Lease of leader election passes on when its holder is silent. Here a silent holder has left its work half done, and
no other may go on until a person has looked: it ends by being released, or deleted.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cri_proxy.errors import CriProxyError
from cri_proxy.kube_api.client import CONFLICT, MERGE_PATCH, NOT_FOUND, ApiClient, ApiRefused, Object, path_of

FAILURE: Final = "cri-proxy.io/failure"
"""The annotation with the reason why the holder's work has failed."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of the Lease: its holder, '' for none, and why its work has failed, '' where it has not."""

    holder: str = ""
    failure: str = ""


class Turn:
    """The Lease ``name`` of a namespace, for one holder."""

    def __init__(self, client: ApiClient, namespace: str, name: str, holder: str) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._collection = path_of("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases")
        self._path = f"{self._collection}{path_of(name)}"
        self._name = name
        self._holder = holder

    def look(self) -> LeaseState:
        """Return the state of the Lease. Blocks. Raises CriProxyError."""
        return _held(self._client.find(self._path))

    def take(self) -> bool:
        """Hold the Lease, without a former failure; False while another holds it. Blocks. Raises CriProxyError."""
        found = self._client.find(self._path)
        held = _held(found)
        if held.holder not in ("", self._holder):
            return False
        meta: Object = {"name": self._name, "annotations": {FAILURE: None} if held.failure else {}}
        spec = {"holderIdentity": self._holder, "acquireTime": _now(), "renewTime": _now()}
        try:
            if found is None:
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
                self._client.ask("POST", self._collection, {**lease, "spec": spec})
            else:
                # With the version that was looked at: a holder that has changed it meanwhile keeps it.
                version = {"resourceVersion": found["metadata"]["resourceVersion"]}
                self._patch({"metadata": {**meta, **version}, "spec": spec})
        except ApiRefused as error:
            if error.status in (CONFLICT, NOT_FOUND):
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

    def _as_holder(self, change: Object) -> None:
        found = self._client.find(self._path)
        if found is not None and _held(found).holder == self._holder:
            metadata = {**change.get("metadata", {}), "resourceVersion": found["metadata"]["resourceVersion"]}
            self._patch({**change, "metadata": metadata})

    def _patch(self, change: Object) -> None:
        self._client.ask("PATCH", self._path, change, form=MERGE_PATCH)


def _held(lease: Object | None) -> LeaseState:
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
