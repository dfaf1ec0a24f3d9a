"""``DaemonView``: the interface that HTTP serves."""

from collections.abc import Iterable
from typing import Protocol

from cri_proxy.config.model import Config
from cri_proxy.metrics.exposition import Sample
from cri_proxy.node.status.decision_views import ExplainView, HistoryView
from cri_proxy.node.status.model import Health, StatusView
from cri_proxy.steps import Steps
from sysfs.model import Machine


class DaemonView(Protocol):
    """Read-only and fast: called on the event loop for every request. No step takes more than a few milliseconds."""

    def health(self) -> Health:
        """Return whether it is alive and ready."""

    def samples(self) -> Iterable[Sample]:
        """Return every metric's series now."""

    def mark(self) -> object:
        """Return a value that differs after most changes of the status, at next to no cost."""

    def status_steps(self) -> Steps[StatusView]:
        """Return pools and containers as they are when the first step is done."""

    def explain_steps(self, pod: str, container: str | None = None, namespace: str = "") -> Steps[ExplainView]:
        """Return decisions of what ``pod`` means: [NAMESPACE/]POD[/CONTAINER], a pod by name or uid.

        ``container`` and ``namespace`` narrow that down. See ``node.status.names``.
        """

    def history_steps(self, since_seconds: float) -> Steps[HistoryView]:
        """Return what has happened since this moment, since the epoch."""

    def candidates(self, pod: str, container: str | None = None) -> Steps[tuple[str, ...]]:
        """Return the names that are near these words, best first."""

    def topology(self) -> Machine:
        """Return the machine as discovered."""

    def config(self) -> Config:
        """Return the active configuration."""
