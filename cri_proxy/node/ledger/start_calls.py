"""State in the ledger: starts that were sent to the runtime, with each container as it was, until their end is known.

A start may make its container run at any moment, on the CPUs that it had when the start was sent: runc takes updates
meanwhile, and the kernel never sees them (docs/placement.md, Enactment). That holds for a start whose caller has left,
and for a container that was released or replaced by a newer attempt meanwhile. A start that was sent before a restart
of the daemon is not known: each container that has not run yet is presumed to be starting then. It gets its updates at
once, which a start that is still to come takes, and none of them counts before the start's end is known.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from cri_proxy.state.rows import Row
from policies.base import CpuKind, Pinning
from sysfs.cpuset import CpuSet
from sysfs.model import Machine


@dataclass(frozen=True, slots=True)
class StartCall:
    """One start. ``row`` is the container as it was when the start was sent, at ``since_seconds`` (monotonic).

    ``losses`` is how many connections to the runtime had been lost by then. ``is_presumed``: the process before this
    one may have sent it. ``taken`` is what the last update since then carried, None until the runtime has taken it.
    """

    row: Row
    since_seconds: float
    losses: int
    is_presumed: bool = False
    taken: Pinning | None = None


class StartCalls(dict[str, StartCall]):
    """Starts by container id. Part of the ledger."""

    def __init__(self, calls: Mapping[str, StartCall] = MappingProxyType({})) -> None:
        super().__init__(calls)
        self._asked: Counter[str] = Counter()
        self.one_hangs = False
        """The runtime takes too long for one of them: see ``spared``."""
        self.all_shared: Callable[[], CpuSet | None] = lambda: None
        """Returns the machine's shared CPUs; None where none are spared before a start hangs (``sharersStartOn``)."""

    def copy(self) -> "StartCalls":
        """Return the same state, to be changed apart from this."""
        other = StartCalls(self)
        other.one_hangs, other.all_shared = self.one_hangs, self.all_shared
        return other

    @contextmanager
    def asking(self, container_id: str) -> Iterator[None]:
        """Note that a caller asks for this start, by the id or a prefix of it, and that it is not sent yet."""
        self._asked[container_id] += 1
        try:
            yield
        finally:
            self._asked -= Counter((container_id,))

    def is_asked_for(self, container_id: str) -> bool:
        """Return whether a caller asks for a start of this container."""
        return container_id.startswith(tuple(self._asked))

    def begin(self, call: StartCall) -> None:
        """Add a start that is about to be sent."""
        self[call.row.container_id] = call

    def presumed(self, row: Row) -> StartCall | None:
        """Return the start of this container if it is only presumed, and the container has not been seen running."""
        call = self.get(row.container_id)
        return call if call is not None and call.is_presumed and row.state == "created" else None

    def loses_updates(self, row: Row) -> bool:
        """Return whether the start of this container is known to be under way: nothing is to be sent until its end."""
        return row.container_id in self and self.presumed(row) is None

    def spared(self, row: Row, cpus: CpuSet, machine: Machine) -> CpuSet:
        """Return those of these CPUs on which a container that shares is not to start.

        Its start may hang, and then holds all CPUs that it was created with. Whole cores with a quarter of them, at
        least two, are left to owners that come meanwhile. It gets them once it runs.
        """
        left, wanted = CpuSet(), max(2, len(cpus) // 4)
        # A running one is past its start, and an owner has all of its CPUs at once: nothing of theirs can be spared.
        if row.state == "running" or row.grant.kind is not CpuKind.SHARED:
            return left
        shared = self.all_shared()
        # Owners are placed on the others beside the first start that hangs; later ones could hold these too.
        if self.one_hangs or (shared is not None and len(shared - cpus) < wanted):
            for core in reversed(machine.cores):
                if len(left) < wanted:
                    left |= core.cpus & cpus
        # Never all of them: an empty set is no set to the runtime, and the container would run anywhere.
        return left if left != cpus else CpuSet()

    def has_taken(self, row: Row, missing: Pinning) -> bool:
        """Return whether the last update of this container carried ``missing``, during a start that is presumed."""
        call = self.presumed(row)
        return call is not None and call.taken is not None and missing.over(call.taken) == call.taken

    def note_sending(self, row: Row) -> bool:
        """Note that an update of this container is about to be sent; return whether a presumed start may lose it."""
        call = self.presumed(row)
        if call is not None:
            self[row.container_id] = replace(call, taken=None)
        return call is not None

    def take_update(self, row: Row | None, sent: Pinning) -> Row | None:
        """Record an update that the runtime took during a presumed start; return the row after it.

        The container may be on this, or on what it had at the restart. What was sent in between does not count: a
        start that is still to come takes the last, one that is under way none.
        """
        call = self.presumed(row) if row is not None else None
        if row is None or call is None:
            return None
        self[row.container_id] = replace(call, taken=sent)
        # From the sets at the restart, not from the last: of several updates a start that is under way has seen none.
        at_restart = replace(row, acknowledged=call.row.acknowledged, unconfirmed=call.row.unconfirmed)
        return at_restart.after_unknown(sent)

    def end(self, container_id: str) -> None:
        """Drop the start of a container that is known to run, to have ended, or never to start. Idempotent."""
        self.pop(container_id, None)

    def end_in(self, sandbox_id: str) -> None:
        """Drop the starts in a sandbox that is gone."""
        for call in [call for call in self.values() if call.row.sandbox_id == sandbox_id]:
            self.end(call.row.container_id)
