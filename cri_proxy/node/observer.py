"""The interface of the log, the decision journal and the metrics: events of the node, after the fact."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cri_proxy.node.persistence import Persistence
from cri_proxy.state.rows import Row, Saved
from policies.base import Allocations, ContainerKey, Decision, Default, Grant, Pinning, Reason, Request


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The state in which a container was decided on; none of it can be determined later.

    ``row``: the live container that is decided on again, None for one that is about to be created. ``held``: all
    grants. ``pinnings``: the wanted pinning of every container. ``defaults``: what options decided where the
    request says nothing. ``company``: gives who drew it and who pushed it; asked for when nobody waits any more.
    """

    row: Row | None = None
    held: Allocations = Allocations()  # noqa: RUF009 - frozen and empty
    pinnings: Mapping[ContainerKey, Pinning] = field(default_factory=dict)
    defaults: tuple[Default, ...] = ()
    company: Callable[[], tuple[Reason, ...]] = tuple


class Observer(Protocol):
    """Called once per event, after it."""

    def recall(self, saved: Saved, persistence: Persistence) -> None:
        """Take over what earlier processes saved, and where to save for later ones. The first event of a node."""

    def decided(
        self,
        request: Request,
        decision: Decision,
        *,
        problems: tuple[str, ...],
        seconds: float,
        circumstances: Circumstances,
    ) -> None:
        """Report a decision; ``problems`` are annotations that were not understood.

        ``carried_out``, ``not_created`` or ``not_resized`` follows a placement.
        """

    def carried_out(self, row: Row) -> None:
        """Report that the runtime has created, or resized, the container as decided."""

    def not_created(self, row: Row, why: str, *, code: str) -> None:
        """Report that the place that was reserved for a container is given back.

        ``code`` is one of ``metrics.ROLLED_BACK_CODES``, or "store": then ``decided`` follows with the refusal.
        """

    def not_resized(self, row: Row, why: str) -> None:
        """Report that a live container keeps what it held before the last decision on it."""

    def changed(self, before: Grant | None, after: Grant, why: str) -> None:
        """Report that a container's grant changed without a request of its own; None = it held nothing."""

    def happened(self, row: Row, what: str, text: str) -> None:
        """Report something that does not change the grant: ``what`` is a code, ``text`` a sentence."""

    def failed_open(self, what: str, error: BaseException) -> None:
        """Report an internal error in ``what``; the call went on without a decision, or was refused by choice."""

    def updated(self, row: Row, pinning: Pinning) -> None:
        """Report that the runtime confirmed an update."""

    def update_failed(self, row: Row, problem: str) -> None:
        """Report that an update failed after all retries; the slow check tries again."""

    def released(self, row: Row, why: str) -> None:
        """Report that a grant is free again."""

    def forgotten(self, keys: Sequence[ContainerKey]) -> None:
        """Report that the rows of these containers are removed, exited ones too."""

    def saved(self, seconds: float) -> None:
        """Report that a save took so long."""

    def noted(self, event: str, **fields: object) -> None:
        """Log anything else that an operator should be able to see."""
