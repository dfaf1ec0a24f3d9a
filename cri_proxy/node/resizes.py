"""UpdateContainerResources from the kubelet: a patch of the recorded request, re-planned in place.

The kubelet's own cpuset fields never pass; everything else does. Growth is a superset of what the container
holds, so the CPUs that it gains are cleared of others before the call goes on (spec section 7).
"""

from dataclasses import dataclass

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.node.barrier import Barrier, Ticket
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Reservation
from cri_proxy.node.reader import Reader
from cri_proxy.relay.calls import Aborted, Failed, Outcome, Replied
from policies.base import Pinning, Rejected


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """What goes out for a kubelet's update; ``reservation`` None = the request did not change."""

    ticket: Ticket
    pinning: Pinning
    reservation: Reservation | None


class Resizes:
    """Plans and finishes the kubelet's updates."""

    def __init__(self, context: Context, barrier: Barrier, coordinator: Coordinator) -> None:
        """Works on the node's shared parts."""
        self._context = context
        self._ledger = context.ledger
        self._barrier = barrier
        self._coordinator = coordinator

    async def plan(
        self, ticket: Ticket, reader: Reader, request: pb.UpdateContainerResourcesRequest
    ) -> PlannedUpdate | Rejected:
        """What to send instead of the kubelet's request; the caller holds the container's lock."""
        row = self._ledger.get(ticket.key)
        if row is None or row.container_id != ticket.container_id:
            return PlannedUpdate(ticket, Pinning(None, None), None)
        wanted = reader.merge_update(row.grant.request, request.linux)
        if wanted == row.grant.request:
            return PlannedUpdate(ticket, self._present(ticket), None)
        reservation = self._coordinator.resize(row, wanted)
        if isinstance(reservation, Rejected):
            return reservation
        try:
            await self._barrier.clear_for(ticket.key)
        except BaseException:
            self._coordinator.roll_back_resize(reservation)
            raise
        return PlannedUpdate(ticket, self._present(ticket), reservation)

    def finish(self, planned: PlannedUpdate, outcome: Outcome) -> None:
        """The runtime has answered, or nobody knows."""
        key = planned.ticket.key
        row = self._ledger.get(key)
        if row is None or row.container_id != planned.ticket.container_id:
            return
        match outcome:
            case Replied():
                confirmed = self._ledger.confirm(key, planned.pinning)
                if confirmed is not None:
                    self._context.persistence.save_later([confirmed])
            case Failed() | Aborted(sent=False):
                if planned.reservation is not None:
                    self._coordinator.roll_back_resize(planned.reservation)
            case Aborted():
                self._ledger.doubt(key, planned.pinning)

    def _present(self, ticket: Ticket) -> Pinning:
        """What the container may be on now; what it already has where nothing new may be written."""
        row = self._ledger.get(ticket.key)
        target = self._ledger.sendable(ticket.key)
        known = row.acknowledged if row is not None else None
        if target is not None:
            return target
        return known if known is not None else Pinning(None, None)
