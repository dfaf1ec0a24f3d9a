"""Find the outcome of starts without an answer: ask the runtime about one, or read a list of the node for all."""

from collections.abc import Iterable, Mapping

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.effects import NOT_FOUND
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.ledger.start_calls import StartCall
from cri_proxy.node.sync.adoption import SyncPart
from cri_proxy.node.sync.runtime_state import LiveContainer
from cri_proxy.state.rows import Row

# Status calls after a start without an answer, and the pause between two of them.
LOOKS = 50
LOOK_SECONDS = 0.2
# How long after a restart a container keeps its CPUs that had not run by then and has been released or replaced since:
# as long as a kubelet waits for a start (runtimeRequestTimeout). Most of them were never started, and stay in the
# runtime's list for as long as their pod.
PRESUMED_SECONDS = 120.0


class StartOutcomes(SyncPart):
    """Notes how starts have ended; updates and starts that waited for that go on."""

    def presume(self, *rows: Row) -> None:
        """Presume that those of these containers are being started that have not run: the process before may have."""
        for row in rows:
            if row.state == "created" and row.known.cpus is not None:
                self._effects.start_sent(row, is_presumed=True)

    async def look_for(self, container_id: str) -> None:
        """Ask until the container runs or has ended, for a while.

        Until then runc accepts updates and loses them (docs/placement.md, Enactment); containers that need its CPUs go
        elsewhere.
        """
        for _ in range(LOOKS):
            # An event, the list or another call has told the end meanwhile.
            if container_id not in self._ledger.starts:
                return
            state = await self._state_of(container_id)
            if state == pb.CONTAINER_RUNNING:
                self.note_running(container_id)
                return
            if state == pb.CONTAINER_EXITED:
                self._effects.start_ended(container_id)
                return
            await self._context.clock.sleep(LOOK_SECONDS)

    async def _state_of(self, container_id: str) -> pb.ContainerState | None:
        """Return the container's state, EXITED for one that is gone; None when the runtime does not say."""
        try:
            return (await self._adoption.inspect(container_id)).state
        except CallFailed as error:
            return pb.CONTAINER_EXITED if error.code == NOT_FOUND else None
        except RuntimeUnavailable:
            return None

    def note_running(self, container_id: str) -> None:
        """Note that a start was carried out; the container is updated at once where that waited for it."""
        row = self._ledger.holder(container_id)
        if container_id in self._ledger.starts and row is not None and row.state in ACTIVE:
            self._effects.start_ended(container_id)
            self._coordinator.set_state(row, "running")
            self._effects.schedule()

    def note_listed(self, before: Iterable[StartCall], listed: Mapping[str, LiveContainer]) -> None:
        """Note how these starts have ended, which had been sent before the node was listed.

        One that is still to come keeps its CPUs, however long it takes, unless the runtime was restarted since (then it
        has been forgotten) or it is only presumed, of a container that holds nothing, and PRESUMED_SECONDS are over.
        One that runs, and was replaced or released meanwhile, keeps them until it ends.
        """
        now_seconds = self._context.clock.monotonic_seconds()
        long_ago, remnants = now_seconds - LOOKS * LOOK_SECONDS, self._ledger.remnants()
        for call in before:
            found, container_id = listed.get(call.row.container_id), call.row.container_id
            was_restarted = self._context.channel.losses() > call.losses and call.since_seconds <= long_ago
            is_over = call.is_presumed and call.row in remnants and now_seconds - call.since_seconds >= PRESUMED_SECONDS
            if found is None or found.state == "exited" or (found.state == "created" and (was_restarted or is_over)):
                self._effects.start_ended(container_id)
            elif found.state == "running":
                self.note_running(container_id)
