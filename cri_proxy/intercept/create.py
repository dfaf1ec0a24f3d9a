"""Answer CreateContainer: place the container, rewrite the request, and commit or roll back by the runtime's reply."""

from functools import partial
from typing import assert_never

from cri_proxy import events
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.devices.texts import DeviceTexts
from cri_proxy.cri.grant_text import grant_to_text
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.thread_count import thread_count, variables_to_set
from cri_proxy.cri.write import NO_INJECTION, CdiInjection, Created, brings_own_mount, cpu_time_of, write_create
from cri_proxy.http2.status import Failed
from cri_proxy.intercept.answers import Answer, refused
from cri_proxy.intercept.container_devices import ContainerDevices, chosen_names
from cri_proxy.intercept.gate import CREATE
from cri_proxy.intercept.reader import Reader, id_in, message_of
from cri_proxy.node.coordinator import CALLER_LEFT, Refusal, Reservation
from cri_proxy.node.node import Node
from cri_proxy.relay.calls import Aborted, Outcome, Replied, Rewrite
from policies.base import Pinning
from policies.devices import ANNOTATION_PREFIX
from policies.preferences import ThreadCounts
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet


class CreateCalls:
    """Answers CreateContainer on this node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._context = node.context
        self._coordinator = node.coordinator
        self._devices = ContainerDevices(node)

    async def answer(self, message: bytes, reader: Reader) -> Answer:
        """Place the container that this request asks for. A fault after that rolls the reservation back."""
        request = message_of(pb.CreateContainerRequest, message)
        sandbox_id = self._context.ledger.full_sandbox_id(request.pod_sandbox_id)
        found = await reader.read_create(request, self._sandbox_of(request, sandbox_id))
        asked = cdi_names(request.config)
        is_annotated = any(key.startswith(ANNOTATION_PREFIX) for key in request.config.annotations)
        # A look at devices takes helper processes and up to a second: most containers name none.
        is_named = asked or is_annotated or found.told.allocated or request.config.devices
        if is_named or self._devices.given_before(found):
            found = await self._devices.with_given(reader, found, request.config)
        cpuset = request.config.linux.resources.cpuset_cpus
        if cpuset or self._node.managers.caller_warning:  # one without CPUs ends the warning
            self._node.managers.note_cpuset(cpuset, found.request.full_name, is_create=True)
        self._node.absent_containers.note(found.request, found.named)
        if found.refusal:
            return refused(self._node.refuse(found.request, Refusal("cdi", found.refusal)))
        reservation = await self._node.place(found.request, sandbox_id, problems=tuple(map(str, found.problems)))
        if isinstance(reservation, Refusal):
            return refused(reservation)
        for problem in found.missing:
            self._context.journal.hint_missing(reservation.row, problem)
        try:
            injection: CdiInjection | Refusal = NO_INJECTION
            if asked or reservation.decision.grant.devices:
                injection = await self._devices.injection(reader, reservation, request.config)
            if isinstance(injection, Refusal):
                self._coordinator.roll_back(reservation, injection.text, code="cdi")
                return refused(injection)
            texts = await self._devices.texts(reader, reservation, found, request.config)
            rewritten = await self._rewritten(message, request, reservation, injection, texts=texts)
        except BaseException as error:
            # Nothing has been sent: the container does not exist, whatever went wrong.
            self._coordinator.roll_back_unsent(reservation, error)
            raise
        return Answer(Rewrite(rewritten), partial(self._finish, request, reservation))

    async def _rewritten(
        self,
        message: bytes,
        request: pb.CreateContainerRequest,
        reservation: Reservation,
        injection: CdiInjection,
        *,
        texts: DeviceTexts,
    ) -> bytes:
        grant, pinning, config = reservation.decision.grant, reservation.pinning, self._coordinator.config
        directory = ""
        if brings_own_mount(request.config.mounts):
            self._context.journal.noted_of(reservation.row, events.RESOURCE_FILES_FAILED, reason="mounts its own")
        else:
            directory = await self._node.resource_files.directory_for(grant, pinning, config.resource_files)
        cpu_time = cpu_time_of(grant, config.of_policy(TopologyAwareOptions))
        variables = self._variables(request, reservation)
        created = Created(
            grant_to_text(grant),
            cpu_time,
            directory,
            variables,
            chosen_names(reservation) if grant.devices else (),
            texts,
            injection,
        )
        return write_create(message, pinning, created)

    def _variables(self, request: pb.CreateContainerRequest, reservation: Reservation) -> tuple[tuple[str, str], ...]:
        """Return the thread counts that the container gets, and note them."""
        grant, chosen = reservation.decision.grant, self._coordinator.config.thread_counts
        source = grant.request.preferences.thread_counts or chosen.source
        if source is ThreadCounts.NONE:
            return ()
        count = thread_count(grant, reservation.pinning, source)
        variables = variables_to_set(request.config.envs, chosen.variables, count)
        if variables:
            self._context.journal.variables_set(reservation.row, variables)
        return variables

    def _finish(self, request: pb.CreateContainerRequest, reservation: Reservation, outcome: Outcome) -> None:
        match outcome:
            case Replied(message=message):
                container_id = id_in(pb.CreateContainerResponse, message)
                if container_id and not self._is_anothers(container_id, reservation):
                    self._coordinator.commit(reservation, container_id, _written(request, reservation.pinning))
                else:  # it exists, and no call about it could be told apart: the runtime's list has its id
                    reason = "with the id of another container" if container_id else "without a usable id"
                    self._context.journal.noted_of(
                        reservation.row, events.UNREADABLE_REPLY, method=CREATE, reason=f"created, {reason}"
                    )
                    self._ask_for(reservation)
            case Failed(message=words):
                self._coordinator.roll_back(reservation, f"the runtime refused: {words}", code="runtime-refused")
            case Aborted(sent=False):
                self._coordinator.roll_back(reservation, CALLER_LEFT, code="caller-left")
            case Aborted():  # the runtime has the request, and may carry it out after the caller has left
                self._ask_for(reservation)
            case _:
                assert_never(outcome)

    def _ask_for(self, reservation: Reservation) -> None:
        """Hold the place, and ask the runtime whether it created the container, and under which id."""
        self._coordinator.leave_pending(reservation)
        self._context.tasks.start(self._node.resync.check_all("unknown create"), name="ask")

    def _is_anothers(self, container_id: str, reservation: Reservation) -> bool:
        """Return whether a container has this id already."""
        if self._context.ledger.holder(container_id) is not None or self._node.adoption.is_left(container_id):
            return True
        # An earlier attempt of the same name is another container too, and no longer in the ledger.
        return any(row.container_id == container_id for row in reservation.before)

    def unplaced(self, message: bytes) -> bytes:
        """Return the request with the last known shared set, for when deciding fails."""
        return write_create(message, self._coordinator.fallback)

    def finish_unplaced(self, outcome: Outcome) -> None:
        """Note a container that was created without a decision, and place it by an update."""
        if isinstance(outcome, Replied):
            container_id = id_in(pb.CreateContainerResponse, outcome.message)
            self._context.journal.noted(events.UNPLACED, container_id=container_id)
            if container_id:
                self._node.adoption.note_unplaced(container_id)
                placing = self._node.resync.placement.adopt_id(container_id)
            else:
                placing = self._node.resync.check_all("created without a decision or a usable id")
            self._context.tasks.start(placing, name="place unplaced")

    def _sandbox_of(self, request: pb.CreateContainerRequest, sandbox_id: str) -> pb.PodSandboxConfig:
        """Return the pod's configuration: the request's own copy, else the one recorded at RunPodSandbox."""
        known = self._context.ledger.sandboxes.get(sandbox_id)
        if request.HasField("sandbox_config") or known is None:
            return request.sandbox_config
        return pb.PodSandboxConfig.FromString(known.config)


def _written(request: pb.CreateContainerRequest, pinning: Pinning) -> Pinning:
    """Return the pinning that the runtime got: our values, and the kubelet's own in fields that we do not write."""
    resources = request.config.linux.resources
    try:
        own = Pinning(CpuSet.parse(resources.cpuset_cpus) or None, NodeSet.parse(resources.cpuset_mems) or None)
    except CpuSetError:
        own = Pinning(None, None)  # the runtime will refuse it in its own words
    return Pinning(pinning.cpus or own.cpus, pinning.mems or own.mems)
