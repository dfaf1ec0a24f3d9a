"""Starts and updates that the runtime has not answered: since when, and from when on one counts as hanging."""

from collections.abc import Iterator
from dataclasses import dataclass

from cri_proxy.node.context import Context
from cri_proxy.state.rows import Row
from policies.base import ContainerKey

UPDATE_TIMEOUT_SECONDS = 10.0
_START = "StartContainer"
_UPDATE = "UpdateContainerResources"
# A start rarely takes a second. An update that is on its way in a slow runtime ends within its timeout, and the next
# try of one that did not is the same update.
START_HANGS_SECONDS = 5.0
_HANGS_SECONDS = {_START: START_HANGS_SECONDS, _UPDATE: UPDATE_TIMEOUT_SECONDS}


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A start, also one without a caller, or an update with its last tries that had no answer for ``seconds``."""

    row: Row
    method: str
    seconds: float
    is_presumed: bool = False  # see ``StartCall``

    @property
    def hangs(self) -> bool:
        """Return whether it takes longer than a slow runtime would."""
        return self.seconds >= _HANGS_SECONDS[self.method]

    @property
    def text(self) -> str:
        """The call without an answer, as a sentence."""
        if self.is_presumed:
            return f"it may be starting since before the restart of cri-proxy {self.seconds:.0f} s ago"
        return f"the runtime has not answered its {self.method} for {self.seconds:.0f} s"

    def __str__(self) -> str:
        return f"{self.row.grant.request.full_name}: {self.text}"


class PendingCalls:
    """Knows the calls about containers that are under way."""

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._starts = context.ledger.starts
        self._updates: dict[ContainerKey, tuple[Row, float]] = {}
        self._unanswered_since: dict[str, float] = {}  # by container id: the first of updates without an answer

    def longer_than(self, seconds: float = 0.0) -> Iterator[PendingCall]:
        """Return the starts and updates that the runtime has not answered for so long."""
        now = self._clock.monotonic_seconds()
        calls = [
            PendingCall(call.row, _START, now - call.since_seconds, call.is_presumed) for call in self._starts.values()
        ]
        calls += [PendingCall(row, _UPDATE, now - since) for row, since in self._updates.values()]
        return (call for call in calls if call.seconds >= seconds)

    def hanging(self) -> set[str]:
        """Return the ids of containers with a call that hangs."""
        return {call.row.container_id for call in self.longer_than() if call.hangs}

    def look_for_starts(self) -> None:
        """Note in the ledger whether a start hangs."""
        calls = self.longer_than(START_HANGS_SECONDS)
        # After a restart every container that has not run is presumed to start, and most of these never do.
        self._starts.one_hangs = any(call.method == _START and not call.is_presumed for call in calls)

    def begin_update(self, row: Row) -> None:
        """Note that an update of this container is about to be sent, by the kubelet or by us."""
        now = self._clock.monotonic_seconds()
        # Counted from the first try: each ends with its timeout, and no single one would be seen to hang.
        self._updates[row.key] = (row, self._unanswered_since.get(row.container_id, now))

    def end_update(self, key: ContainerKey, *, is_answered: bool = True) -> None:
        """Note that the update of this container has an outcome, or will be tried again. Idempotent."""
        row, since = self._updates.pop(key, (None, 0.0))
        if row is not None and is_answered:
            self.forget(row)
        elif row is not None:
            self._unanswered_since[row.container_id] = since

    def forget(self, row: Row) -> None:
        """Drop the tries without an answer: the next update is another one, or the container is gone."""
        self._unanswered_since.pop(row.container_id, None)
