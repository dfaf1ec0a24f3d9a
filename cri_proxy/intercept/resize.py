"""Plan what replaces a kubelet's UpdateContainerResources: re-plan, clear CPUs, save; finish or undo by the outcome.

The kubelet's own cpuset fields never pass; all other fields do (docs/design.md, "The way of a container").
"""

from dataclasses import dataclass, replace

from cri_proxy.cri.pod_amounts import resized_totals
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.status import Failed
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.barrier import Ticket
from cri_proxy.node.coordinator import CALLER_LEFT, Refusal, Reservation
from cri_proxy.node.effects import is_announced
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.node import Node
from cri_proxy.relay.calls import Aborted, Outcome, Replied
from cri_proxy.state.rows import Row
from policies.base import Pinning, Rejected, Request


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """The update to send for a kubelet's update; ``reservation`` None = the request did not change."""

    ticket: Ticket
    pinning: Pinning
    reservation: Reservation | None


def with_pod_totals(ledger: Ledger, row: Row, request: Request) -> Request:
    """Return the request with what its pod asks for as a whole, if it shares that with others of the pod."""
    sandbox, share = ledger.sandboxes.get(row.sandbox_id), row.grant.share
    if sandbox is None or share is None:
        return request
    resources = pb.PodSandboxConfig.FromString(sandbox.config).linux.resources
    return replace(request, pod_totals=resized_totals(share, request, resources))


class UpdateCalls:
    """Plans and finishes the kubelet's updates."""

    def __init__(self, node: Node) -> None:
        self._context = node.context
        self._effects = node.effects
        self._ledger = node.context.ledger
        self._barrier = node.barrier
        self._coordinator = node.coordinator
        self._resync = node.resync

    async def plan(
        self, reader: Reader, request: pb.UpdateContainerResourcesRequest, caller_seconds: float | None = None
    ) -> PlannedUpdate | Rejected | Refusal | None:
        """Return the update to send instead of the kubelet's request; None when the container is not ours.

        The container's lock is held if, and only if, there is a plan: ``finish`` releases it. ``caller_seconds`` is how
        long its caller waits from now on; None = no deadline.
        """
        planned = await self._plan(reader, request, caller_seconds, is_last_try=False)
        if isinstance(planned, Rejected):
            # There may be room: an exit that no event announced is found by listing the containers.
            await self._resync.check_all("before a refusal")
            planned = await self._plan(reader, request, caller_seconds, is_last_try=True)
        return planned

    async def _plan(
        self,
        reader: Reader,
        request: pb.UpdateContainerResourcesRequest,
        caller_seconds: float | None,
        *,
        is_last_try: bool,
    ) -> PlannedUpdate | Rejected | Refusal | None:
        ticket = await self._barrier.take(request.container_id)
        if not isinstance(ticket, Ticket):
            return ticket
        reservation = None
        try:
            row = self._ledger.get(ticket.key)
            wanted = reader.merge_update(row.grant.request, request.linux) if row is not None else None
            if row is not None and wanted is not None and wanted != row.grant.request:
                asked = with_pod_totals(self._ledger, row, wanted)
                resized = self._coordinator.resize(row, asked, is_last_try=is_last_try)
                if isinstance(resized, Rejected):
                    ticket.lock.release()
                    return resized
                reservation = resized
        except BaseException:
            ticket.lock.release()
            raise
        if reservation is None:
            return await self._announced(PlannedUpdate(ticket, Pinning(None, None), None))
        ticket.lock.release()
        return await self._cleared(ticket, reservation, caller_seconds)

    async def _cleared(
        self, freed: Ticket, reservation: Reservation, caller_seconds: float | None
    ) -> PlannedUpdate | Refusal | None:
        """Move other containers off the CPUs that it gains, before the call is forwarded."""
        # Its lock is free meanwhile: another call that waits for it may hold a lock that this one needs.
        try:
            await self._barrier.cleared(freed.key, caller_seconds)
            ticket = await self._barrier.take(freed.container_id)
        except BaseException:
            self._coordinator.roll_back_resize(reservation)
            raise
        if not isinstance(ticket, Ticket):
            if ticket is not None:
                self._coordinator.roll_back_resize(reservation)
            return ticket
        return await self._announced(PlannedUpdate(ticket, Pinning(None, None), reservation))

    async def _announced(self, planned: PlannedUpdate) -> PlannedUpdate | Refusal:
        """Return the plan with the container's present pinning, saved before the runtime gets it."""
        is_new, saved = planned.reservation is not None, True
        try:
            pinning = self._present(planned.ticket)
            # What may be written can change while it is saved, as others leave or take CPUs.
            while (row := self._ledger.get(planned.ticket.key)) is not None:
                if not is_new and is_announced(row, pinning):
                    break
                is_new, saved = False, await self._effects.announce(row, pinning) and saved
                pinning = self._present(planned.ticket)
        except BaseException:
            self._abandon(planned)
            raise
        if planned.reservation is not None and not saved and self._coordinator.config.on_store_error == "reject":
            self._abandon(planned)
            return Refusal("store", f"the new size cannot be saved: {self._context.persistence.problem}")
        row = self._ledger.get(planned.ticket.key)
        if row is not None:
            self._effects.calls.begin_update(row)
        return replace(planned, pinning=pinning)

    def _abandon(self, planned: PlannedUpdate) -> None:
        if planned.reservation is not None:
            self._coordinator.roll_back_resize(planned.reservation)
        self._barrier.done(planned.ticket)

    def finish(self, planned: PlannedUpdate, outcome: Outcome) -> None:
        """Commit or undo the plan by the outcome of the call, and release the container's lock."""
        try:
            self._take_outcome(planned, outcome)
        finally:
            self._barrier.done(planned.ticket)

    def _take_outcome(self, planned: PlannedUpdate, outcome: Outcome) -> None:
        key = planned.ticket.key
        row = self._ledger.get(key)
        # Gone, or a newer attempt of the name: the outcome is of another container.
        if row is None or row.container_id != planned.ticket.container_id:
            return
        match outcome:
            case Replied():
                self._effects.untouched.discard(planned.ticket.container_id)
                confirmed = self._ledger.confirm(key, planned.pinning)
                if confirmed is not None:
                    self._context.persistence.save_later([confirmed])
                self._report(planned)
            case Failed(message=words):
                # The sets stay unconfirmed, as announced: runc writes file by file, so a refused update may have
                # changed some.
                self._undo(planned, f"the runtime refused: {words}")
            case Aborted(sent=False):
                self._undo(planned, CALLER_LEFT)
            case Aborted():  # it may be carried out: the new size stays, and the update is sent again
                self._ledger.mark_unconfirmed(key, planned.pinning)
                self._report(planned)

    def _report(self, planned: PlannedUpdate) -> None:
        if planned.reservation is not None:
            self._context.journal.carried_out(planned.reservation.row)

    def _undo(self, planned: PlannedUpdate, why: str) -> None:
        if planned.reservation is not None:
            self._coordinator.roll_back_resize(planned.reservation, why)

    def _present(self, ticket: Ticket) -> Pinning:
        """Return the sets that the container may have now; its present ones where nothing new may be written."""
        row = self._ledger.get(ticket.key)
        target = self._ledger.sendable(ticket.key)
        if row is None:
            return Pinning()
        return self._effects.without_move(row, target) if target is not None else row.known
