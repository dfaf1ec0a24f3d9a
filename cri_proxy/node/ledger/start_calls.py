"""State in the ledger: starts that were sent to the runtime, with each container as it was, until their end is known.

A start may make its container run at any moment, on the CPUs that it had when the start was sent: runc takes updates
meanwhile, and the kernel never sees them (docs/placement.md, Enactment). That holds for a start whose caller has left,
and for a container that was released or replaced by a newer attempt meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cri_proxy.state.rows import Row


@dataclass(frozen=True, slots=True)
class StartCall:
    """One start. ``row`` is the container as it was when the start was sent, at ``since_seconds`` (monotonic).

    ``losses`` is how many connections to the runtime had been lost by then.
    """

    row: Row
    since_seconds: float
    losses: int


class StartCalls:
    """Starts by container id. Part of the ledger."""

    def __init__(self) -> None:
        self._by_id: dict[str, StartCall] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._by_id

    def __iter__(self) -> Iterator[StartCall]:
        return iter(tuple(self._by_id.values()))

    def copy(self) -> "StartCalls":
        """Return the same state, to be changed apart from this."""
        other = StartCalls()
        other._by_id = dict(self._by_id)
        return other

    def get(self, container_id: str) -> StartCall | None:
        """Return the start of this container that is under way, or has no known end."""
        return self._by_id.get(container_id)

    def begin(self, call: StartCall) -> None:
        """Add a start that is about to be sent."""
        self._by_id[call.row.container_id] = call

    def end(self, container_id: str) -> None:
        """Drop the start of a container that is known to run, to have ended, or never to start. Idempotent."""
        self._by_id.pop(container_id, None)

    def end_in(self, sandbox_id: str) -> None:
        """Drop the starts in a sandbox that is gone."""
        self._by_id = {i: call for i, call in self._by_id.items() if call.row.sandbox_id != sandbox_id}
