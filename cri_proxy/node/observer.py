"""Who hears what happened on the node: the log, the decision journal, later metrics. Never decides anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cri_proxy.node.persistence import Persistence
from cri_proxy.state.rows import Row, Saved
from policies.base import Allocations, ContainerKey, Decision, Default, Grant, Pinning, Reason, Request


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What was so when a container was decided on: none of it can be learned afterwards.

    ``row``: the live container that is decided on again, None for one that is about to be created. ``held``: what
    everybody held. ``pinnings``: what everybody was to be pinned to. ``defaults``: what options decided where the
    request says nothing. ``company``: gives who drew it and who pushed it; asked for when nobody waits any more.
    """

    row: Row | None = None
    held: Allocations = Allocations()  # noqa: RUF009 - frozen, and empty for everybody
    pinnings: Mapping[ContainerKey, Pinning] = field(default_factory=dict)
    defaults: tuple[Default, ...] = ()
    company: Callable[[], tuple[Reason, ...]] = tuple


class Observer(Protocol):
    """Told after the fact, once per event."""

    def recall(self, saved: Saved, persistence: Persistence) -> None:
        """What earlier processes left, and where to leave things for later ones. The first event of a node."""

    def decided(
        self,
        request: Request,
        decision: Decision,
        *,
        problems: tuple[str, ...],
        seconds: float,
        circumstances: Circumstances,
    ) -> None:
        """A container has a place, or none; ``problems`` are annotations that were not understood.

        What became of a place is told by ``carried_out``, ``not_created`` or ``not_resized``.
        """

    def carried_out(self, row: Row) -> None:
        """The runtime has created, or resized, the container as it was decided."""

    def not_created(self, row: Row, why: str, *, code: str) -> None:
        """The place that was reserved for a container is given back.

        ``code`` is one of ``metrics.ROLLED_BACK_CODES``, or "store": then it is refused, and ``decided`` told so.
        """

    def not_resized(self, row: Row, why: str) -> None:
        """A live container keeps what it held before it was last decided on."""

    def changed(self, before: Grant | None, after: Grant, why: str) -> None:
        """A container holds something else from now on, and nobody asked for it; None = it held nothing."""

    def happened(self, row: Row, what: str, text: str) -> None:
        """Something about a container that leaves what it holds as it is: ``what`` is a code, ``text`` a sentence."""

    def failed_open(self, what: str, error: BaseException) -> None:
        """Our own code failed at ``what``; the call went on without a decision, or was refused by choice."""

    def updated(self, row: Row, pinning: Pinning) -> None:
        """The runtime confirmed an update of this container."""

    def update_failed(self, row: Row, problem: str) -> None:
        """The runtime refused an update for good; the slow check tries again."""

    def released(self, row: Row, why: str) -> None:
        """A grant is free again."""

    def forgotten(self, keys: Sequence[ContainerKey]) -> None:
        """The rows of these containers are gone, remembered places too."""

    def saved(self, seconds: float) -> None:
        """A change became durable, this long after it was asked for."""

    def noted(self, event: str, **fields: object) -> None:
        """Anything else an operator should be able to see in the log."""
