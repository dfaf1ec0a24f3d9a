"""Give a container CDI devices: by name where the runtime adds them, else as what their specification names.

All devices of a grant come this way, whatever listed them. Those that the kubelet asks for are the runtime's business:
they pass unchanged, also where it ignores them, which is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cri_proxy.cri.cdi.conversion import Given
from cri_proxy.cri.cdi.write import notes_for
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.file_workers import FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.coordinator import Refusal, Reservation
from cri_proxy.node.decision_log.journal import InjectedDevices
from cri_proxy.node.node import Node
from cri_proxy.runtime.cdi_support import CdiWay


@dataclass(frozen=True, slots=True)
class CdiInjection:
    """Devices for the request: ``names`` for the runtime, in an annotation or CRI's field, or ``resolved``."""

    names: tuple[str, ...] = ()
    is_annotation: bool = False
    resolved: Given | None = None


NO_INJECTION = CdiInjection()


class CdiDevices:
    """Injects devices into containers that are about to be created."""

    def __init__(self, node: Node) -> None:
        self._journal = node.context.journal
        self._runtime = node.runtime_cdi

    async def give(
        self, reader: Reader, reservation: Reservation, names: Sequence[str], config: pb.ContainerConfig
    ) -> CdiInjection | Refusal:
        """Return what this container gets for the CDI devices ``names``, and note it; or why it cannot be created.

        Devices that no specification declares are left out, as all are where the files do not answer: the container
        knows from its environment what it has.
        """
        asked = cdi_names(config)
        way = await self._runtime.known_way() if names or asked else self._runtime.way
        self._runtime.note_asked(reservation.row, [name for name in asked if name not in names])
        if self._runtime.adds_devices:
            names = [name for name in names if name not in asked]
        if not names:
            return NO_INJECTION
        try:
            if way is CdiWay.RESOLVE:
                return await self._resolved(reader, reservation, names, config)
            declared = await reader.declared_of(names)
        except FilesFailed as error:
            self._journal.devices_given(reservation.row, InjectedDevices(len(names), problem=admit(str(error))))
            return NO_INJECTION
        self._journal.devices_given(reservation.row, InjectedDevices(len(names), declared))
        return CdiInjection(declared, is_annotation=way is CdiWay.ANNOTATION)

    async def _resolved(
        self, reader: Reader, reservation: Reservation, names: Sequence[str], config: pb.ContainerConfig
    ) -> CdiInjection | Refusal:
        found = await reader.resolved_of(names)
        if found.problem:
            return Refusal("cdi", f"{found.problem}; {self._remedy()}")
        notes = notes_for(config, found.given)
        self._journal.devices_given(
            reservation.row, InjectedDevices(len(names), found.names, is_resolved=True, notes=tuple(map(admit, notes)))
        )
        return CdiInjection(resolved=found.given)

    def _remedy(self) -> str:
        support, why = self._runtime.support, "cri-proxy resolves CDI devices itself, because"
        if self._runtime.adds_devices:
            return f"{why} cdi is resolve: set cdi: auto, since {support.why}"
        return f"{why} {support.why}{f': {support.remedy}' if support.remedy else ''}"
