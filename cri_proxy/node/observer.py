"""Who hears what happened on the node: the log, the decision journal, later metrics. Never decides anything."""

from typing import Protocol

from cri_proxy.state.rows import Row
from policies.base import Decision, Pinning, Request


class Observer(Protocol):
    """Told after the fact, once per event."""

    def decided(self, request: Request, decision: Decision, *, problems: tuple[str, ...], seconds: float) -> None:
        """A container was placed or refused; ``problems`` are annotations that were not understood."""

    def not_created(self, row: Row, why: str) -> None:
        """The place that was reserved for a container is given back."""

    def failed_open(self, what: str, error: BaseException) -> None:
        """Our own code failed at ``what``; the call went on without a decision, or was refused by choice."""

    def updated(self, row: Row, pinning: Pinning) -> None:
        """The runtime confirmed an update of this container."""

    def update_failed(self, row: Row, problem: str) -> None:
        """The runtime refused an update for good; the slow check tries again."""

    def released(self, row: Row, why: str) -> None:
        """A grant is free again."""

    def noted(self, event: str, **fields: object) -> None:
        """Anything else an operator should be able to see in the log."""
