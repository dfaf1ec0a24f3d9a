"""Add the devices that others chose for a new container to its request, and name those allocated to it."""

from dataclasses import replace

from cri_proxy.cri.devices.names import names_of
from cri_proxy.cri.devices.plugin_devices import given_devices
from cri_proxy.cri.devices.texts import DeviceTexts, device_texts
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest
from cri_proxy.file_workers import FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Reservation
from policies.device_grants import by_place


class ContainerDevices:
    """Reads and names devices of the inventory for containers that are created."""

    def __init__(self, context: Context) -> None:
        """Ask the policy in force of this node each time: its inventory is reloaded."""
        self._context = context

    def with_given(self, found: ReadRequest, config: pb.ContainerConfig) -> ReadRequest:
        """Return the request with the devices that others chose for it."""
        given, problems = given_devices(config, self._context.ledger.policy.known)
        if not given and not problems:
            return found
        request = replace(found.request, given=given)
        return replace(found, request=request, problems=(*found.problems, *problems))

    async def cdi_names(self, reservation: Reservation, reader: Reader) -> tuple[str, ...]:
        """Return the CDI names of the devices that were allocated to it, as far as they are declared; note the others.

        Those that others chose for it are named already. Where the specifications do not answer, it knows what it has
        from its variables alone.
        """
        allocated = [grant for grant in by_place(reservation.decision.grant.devices) if not grant.is_given]
        if not allocated:
            return ()
        candidates = [names_of(grant, reservation.devices) for grant in allocated]
        declared: frozenset[str] = frozenset()
        unreadable: tuple[str, ...] = ()
        problem = ""
        try:
            declared = frozenset(await reader.declared_of([name for names in candidates for name in names]))
            if not all(any(name in declared for name in names) for names in candidates):
                unreadable = await reader.unreadable_of()
        except FilesFailed as error:
            problem = admit(str(error))
        names = [next((name for name in names if name in declared), "") for names in candidates]
        untold = [str(grant) for grant, name in zip(allocated, names, strict=True) if not name]
        found = tuple(dict.fromkeys(filter(None, names)))
        if untold:
            self._context.journal.allocation_unnamed(reservation.row, untold, problem, tuple(map(admit, unreadable)))
        return found

    def texts(self, reservation: Reservation) -> DeviceTexts:
        """Return the variables, annotations and files that list its devices in the container."""
        return device_texts(by_place(reservation.decision.grant.devices), reservation.devices)
