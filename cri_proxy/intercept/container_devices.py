"""Devices of a new container: those that others chose join its request, those of its grant are given to it by CDI.

By name where the runtime adds them, else as what their specification names. All devices of a grant come this way,
whatever listed them. Those that the kubelet asks for are the runtime's business: they pass unchanged. Where it ignores
them, those of our own device plugin are resolved here too, and of others is reported that the container lacks them.
"""

from collections.abc import Sequence
from dataclasses import replace

from cri_proxy import events
from cri_proxy.cri.cdi.names import cdi_name
from cri_proxy.cri.cdi.write import notes_for
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.devices.gpu_variables import NO_GPU, has_no_gpu, has_nvidia_gpus, is_privileged, visible_gpus
from cri_proxy.cri.devices.names import NO_PROOFS, CandidateNames, needing_proof
from cri_proxy.cri.devices.pci_functions import FunctionsByAddress
from cri_proxy.cri.devices.plugin_devices import (
    Problems,
    given_devices,
    localities_once,
    names_of_plugin,
    node_paths,
)
from cri_proxy.cri.devices.texts import NO_TEXTS, DeviceTexts, device_texts, own_functions
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest
from cri_proxy.cri.write import NO_INJECTION, CdiInjection
from cri_proxy.file_workers import FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.coordinator import Refusal, Reservation
from cri_proxy.node.node import Node
from cri_proxy.runtime.cdi_support import CdiWay
from policies.base import Request
from policies.device_grants import DeviceGrant, by_place, cost_names, with_given


class ContainerDevices:
    """Reads, names and gives devices of containers that are created."""

    def __init__(self, node: Node) -> None:
        """Ask the policy in force of this node each time: its inventory is reloaded."""
        self._ledger = node.context.ledger
        self._journal = node.context.journal
        self._runtime = node.runtime_cdi
        self._coordinator = node.coordinator

    async def with_given(self, reader: Reader, found: ReadRequest, config: pb.ContainerConfig) -> ReadRequest:
        """Return the request with the devices that others chose for it, and those of them that it will lack."""
        joined, told = self._ledger.policy.known, found.told
        is_watching = self._coordinator.config.lets_watch(found.request.pod.namespace)
        given, problems = await self._given_devices(reader, config, told, is_watching=is_watching)
        given = with_given(given, self.given_before(found))
        lacks = await self._lacking(reader, config)
        if not (given or problems or lacks or told.places):
            return found
        localities = localities_once(found.request.localities, told.places, given, joined)
        request = replace(found.request, given=given, lacks=lacks, localities=localities)
        return replace(found, request=request, problems=(*found.problems, *problems))

    def given_before(self, found: ReadRequest) -> tuple[DeviceGrant, ...]:
        """Return the devices that others chose for its last attempt, where the kubelet tells nothing of this one.

        The kubelet keeps a container's devices as long as its pod lives.
        """
        row = None if found.told.is_known else self._ledger.get(found.request.container)
        return row.grant.request.given if row is not None else ()

    async def _given_devices(
        self, reader: Reader, config: pb.ContainerConfig, told: ToldDevices, *, is_watching: bool
    ) -> tuple[tuple[DeviceGrant, ...], Problems]:
        """Return the devices that others chose for it; nothing is looked up on a node without any.

        ``is_watching``: it holds none of its claims, as with adminAccess, of which the kubelet tells nothing.
        """
        joined = self._ledger.policy.known
        names = (*needing_proof(cdi_names(config)), *node_paths(config)) if joined.pieces else ()
        proofs = await reader.proofs_of(names) if names else NO_PROOFS
        # Else monitoring of all GPUs would keep every one of them from pods that ask for one.
        watched = [name for name, _ in told.cdi] if is_watching else []
        return given_devices(config, joined, told.allocated, proofs, watched)

    async def _lacking(self, reader: Reader, config: pb.ContainerConfig) -> tuple[str, ...]:
        """Return the CDI devices that the kubelet asks for, and of which none is added."""
        asked = cdi_names(config)
        if not asked:
            return ()
        # Asked first: since the last answer another version may have been started, which adds them.
        way = await self._runtime.known_way()
        if not self._runtime.ignores_devices:
            return ()
        own = names_of_plugin(config) if way is CdiWay.RESOLVE else ()
        has_own = own and not await self._unresolved(reader, own)
        return tuple(name for name in asked if not (has_own and name in own))

    async def _unresolved(self, reader: Reader, names: Sequence[str]) -> str:
        """Return why the specifications of these devices cannot be written into a request; '' where they can."""
        try:
            found = await reader.cdi.resolved(names)
        except FilesFailed as error:
            return admit(str(error))
        return found.problem or ("" if set(names) <= set(found.names) else "no CDI specification declares them")

    async def texts(
        self, reader: Reader, reservation: Reservation, found: ReadRequest, config: pb.ContainerConfig
    ) -> DeviceTexts:
        """Return the variables and annotations that list its devices in the container, or that it has no GPU."""
        devices = reservation.decision.grant.devices
        texts = await self._listing(reader, reservation) if devices else NO_TEXTS
        if not (self._hides_gpus(found.request, config) and has_no_gpu(config, devices, found.told)):
            return texts
        if named := visible_gpus(config):
            self._journal.gpus_hidden(reservation.row, admit(named))
        return replace(texts, variables=(*texts.variables, NO_GPU))

    async def _listing(self, reader: Reader, reservation: Reservation) -> DeviceTexts:
        """Return the texts that name its devices; how functions are bound is left out where sysfs does not answer."""
        allocated = by_place(reservation.decision.grant.devices)
        addresses = [each for own in own_functions(allocated, reservation.devices).values() for each in own]
        functions: FunctionsByAddress = {}
        try:
            functions = await reader.functions_of(addresses) if addresses else {}
        except (FilesFailed, OSError) as error:
            named = ",".join(addresses)
            self._journal.noted_of(reservation.row, events.DEVICES_MISSING, devices=named, reason=admit(str(error)))
        return device_texts(allocated, reservation.devices, functions)

    def _hides_gpus(self, request: Request, config: pb.ContainerConfig) -> bool:
        """Return whether such a container is to see no GPU where it has none."""
        options = self._coordinator.config
        if options.visible_devices == "leave" or is_privileged(config):
            return False
        return not options.lets_watch(request.pod.namespace) and has_nvidia_gpus(self._ledger.policy.devices)

    async def injection(
        self, reader: Reader, reservation: Reservation, config: pb.ContainerConfig
    ) -> CdiInjection | Refusal:
        """Return the CDI devices that it gets for those of its grant, beside those that the kubelet asks for."""
        asked, lacks = cdi_names(config), reservation.decision.grant.request.lacks
        is_resolved = asked and self._runtime.ignores_devices and self._runtime.way is CdiWay.RESOLVE
        own = names_of_plugin(config) if is_resolved else ()
        names = [*(name for name in own if name not in lacks), *map(cdi_name, chosen_names(reservation))]
        names += await self._allocated(reader, reservation)
        if missed := [name for name in own if name in lacks]:
            self._journal.devices_given(reservation.row, len(missed), problem=await self._unresolved(reader, missed))
        return await self._given(reader, reservation, names, config) if names or asked else NO_INJECTION

    async def _allocated(self, reader: Reader, reservation: Reservation) -> tuple[str, ...]:
        """Return the CDI names of the devices that were allocated to it, as far as they are declared; note the others.

        Those that others chose for it are named already. Where the specifications do not answer, it knows what it has
        from its variables alone.
        """
        allocated = [grant for grant in by_place(reservation.decision.grant.devices) if not grant.is_given]
        if not allocated:
            return ()
        names = CandidateNames.of(allocated, reservation.devices)
        declared: frozenset[str] = frozenset()
        unreadable: tuple[str, ...] = ()
        problem = ""
        try:
            declared = frozenset(await reader.cdi.declared(names.every))
            # Only where a name is missing: a file that cannot be read may be the one that declares it.
            if not all(names.those(declared).names):
                unreadable = await reader.cdi.unreadable()
        except FilesFailed as error:
            problem = admit(str(error))
        names = names.those(declared)
        proofs = await reader.proofs_of(names.to_prove) if names.to_prove else NO_PROOFS
        chosen = names.given(self._ledger.policy.known, proofs)
        untold = [str(grant) for grant, name in zip(allocated, chosen, strict=True) if not name]
        found = tuple(dict.fromkeys(filter(None, chosen)))
        if untold:
            self._journal.allocation_unnamed(reservation.row, untold, problem, tuple(map(admit, unreadable)))
        return found

    async def _given(
        self, reader: Reader, reservation: Reservation, names: Sequence[str], config: pb.ContainerConfig
    ) -> CdiInjection | Refusal:
        """Return the injection of these CDI devices into this container, and note it; or why it cannot be created.

        Devices that no specification declares are left out, as all are where the files do not answer: the container
        knows from its environment what it has.
        """
        asked = cdi_names(config)
        way = await self._runtime.known_way() if names or asked else self._runtime.way
        self._runtime.note_asked(reservation.row, [name for name in asked if name not in names])
        # Those of the kubelet's own request the runtime adds by itself.
        if self._runtime.adds_devices:
            names = [name for name in names if name not in asked]
        if not names:
            return NO_INJECTION
        try:
            if way is CdiWay.RESOLVE:
                return await self._resolved(reader, reservation, names, config)
            declared = await reader.cdi.declared(names)
        except FilesFailed as error:
            self._journal.devices_given(reservation.row, len(names), problem=admit(str(error)))
            return NO_INJECTION
        self._journal.devices_given(reservation.row, len(names), declared)
        return CdiInjection(declared, is_annotation=way is CdiWay.ANNOTATION)

    async def _resolved(
        self, reader: Reader, reservation: Reservation, names: Sequence[str], config: pb.ContainerConfig
    ) -> CdiInjection | Refusal:
        found = await reader.cdi.resolved(names)
        if found.problem:
            return Refusal("cdi", f"{found.problem}; {self._remedy()}")
        notes = notes_for(config, found.given)
        self._journal.devices_given(
            reservation.row, len(names), found.names, is_resolved=True, notes=tuple(map(admit, notes))
        )
        return CdiInjection(resolved=found.given)

    def _remedy(self) -> str:
        support, why = self._runtime.support, "cri-proxy resolves CDI devices itself, because"
        if self._runtime.adds_devices:
            return f"{why} cdi is resolve: set cdi: auto, since {support.why}"
        return f"{why} {support.why}{f': {support.remedy}' if support.remedy else ''}"


def chosen_names(reservation: Reservation) -> tuple[str, ...]:
    """Return the names in cost files of the devices that were chosen here."""
    return cost_names(device for device in reservation.decision.grant.devices if not device.is_given)
