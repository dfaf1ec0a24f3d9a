"""The table of intercepted CRI methods: messages in, coordinator calls, messages out (spec/relay.md's table).

Every other method passes as untouched bytes. The one ``except Exception`` of the decision path is here: a fault
of ours follows the operator's ``onPolicyError``, and by default the container goes on with the last known
shared set.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from cri_proxy import events
from cri_proxy.cri import write
from cri_proxy.cri.grant_text import grant_to_text
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Refusal, Reservation
from cri_proxy.node.ledger import ACTIVE
from cri_proxy.node.node import Node
from cri_proxy.node.reader import Reader
from cri_proxy.relay.calls import Aborted, Call, Failed, Forward, Interest, Outcome, Refuse, Replied, Rewrite, Verdict
from cri_proxy.relay.status import Code
from cri_proxy.state.rows import Row, SandboxRow
from policies.base import CpuKind, Pinning, Rejected
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

RUNTIME = "/runtime.v1.RuntimeService/"
OLD_RUNTIME = "/runtime.v1alpha2.RuntimeService/"
CREATE = RUNTIME + "CreateContainer"
UPDATE = RUNTIME + "UpdateContainerResources"
# How long a call waits for the saved state to be held against the runtime; then it is refused, and retried.
READY_BOUND_SECONDS = 10.0

Finisher = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What to do with the request, and whom to tell what became of it."""

    verdict: Verdict
    finish: Finisher | None = None


class CriInterceptor:
    """Implements ``relay.calls.Interceptor`` for CRI v1."""

    def __init__(self, node: Node, reader: Reader, *, ready_bound_seconds: float = READY_BOUND_SECONDS) -> None:
        """Acts on this node; ``reader`` understands messages."""
        self._ready_bound_seconds = ready_bound_seconds
        self._node = node
        self._context: Context = node.context
        self._coordinator: Coordinator = node.coordinator
        self._reader = reader
        self._open: dict[int, Finisher] = {}
        self._methods: dict[str, Callable[[Call], Awaitable[_Answer]]] = {
            RUNTIME + "RunPodSandbox": self._run_sandbox,
            CREATE: self._create,
            RUNTIME + "StartContainer": self._start,
            UPDATE: self._update,
            RUNTIME + "UpdatePodSandboxResources": self._update_sandbox,
            RUNTIME + "StopContainer": self._stop_container,
            RUNTIME + "RemoveContainer": self._remove_container,
            RUNTIME + "StopPodSandbox": self._stop_sandbox,
            RUNTIME + "RemovePodSandbox": self._remove_sandbox,
            RUNTIME + "RestorePod": self._restore_pod,
        }

    def wants(self, method: str) -> Interest:
        """Hold what the table names; v1alpha2 is refused, because old runtimes would serve it unpinned."""
        if method in self._methods:
            return Interest.HOLD
        return Interest.REFUSE if method.startswith(OLD_RUNTIME) else Interest.PASS

    async def on_request(self, call: Call) -> Verdict:
        """Decide on a held request; a fault of ours becomes the fallback or, by choice, a refusal."""
        try:
            answer = await self._methods[call.method](call)
        except Exception as error:  # noqa: BLE001 - the decision path's boundary: our bug must not stop a container
            answer = self._failed(call, error)
        if answer.finish is not None:
            self._open[call.id] = answer.finish
        return answer.verdict

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Hand the outcome to whoever sent the call on."""
        finish = self._open.pop(call.id, None)
        if finish is None:
            return
        try:
            finish(outcome)
        except Exception as error:  # noqa: BLE001 - as above: the caller's reply is on its way whatever we do
            self._context.observer.failed_open(call.method, error)

    def _failed(self, call: Call, error: Exception) -> _Answer:
        self._context.observer.failed_open(call.method, error)
        if self._coordinator.rules.on_policy_error == "reject":
            return _Answer(Refuse(Code.INTERNAL, f"cri-proxy: {call.method.rpartition('/')[2]} failed: {error!r}"))
        finish = self._created_unplaced if call.method == CREATE else None
        try:
            if call.method == CREATE:
                return _Answer(Rewrite(write.write_create(call.message, self._coordinator.fallback, None)), finish)
            if call.method == UPDATE:
                return _Answer(Rewrite(self._without_cpuset(call.message)))
        except Exception as second:  # noqa: BLE001 - not even that can be written: as it came
            self._context.observer.failed_open("fallback", second)
        return _Answer(Forward(), finish)

    def _without_cpuset(self, message: bytes) -> bytes:
        """The kubelet's update with the pinning that the container has: its own cpuset fields never pass."""
        container_id = pb.UpdateContainerResourcesRequest.FromString(message).container_id
        row = self._context.ledger.holder(container_id)
        known = row.acknowledged if row is not None and row.grant.kind is not CpuKind.PRESERVE else None
        return write.write_update(message, known) if known is not None else message

    def _created_unplaced(self, outcome: Outcome) -> None:
        """A container without a decision is placed by an update as soon as the engine works."""
        if isinstance(outcome, Replied):
            container_id = pb.CreateContainerResponse.FromString(outcome.message).container_id
            self._node.adoption.note_unplaced(container_id)
            self._context.observer.noted(events.UNPLACED, container_id=container_id)
            self._context.tasks.start(self._node.resync.adopt_id(container_id), name="place unplaced")

    async def _ready(self) -> Refusal | None:
        try:
            async with asyncio.timeout(self._ready_bound_seconds):
                await self._coordinator.wait_ready()
        except TimeoutError:
            return Refusal("not-ready", "the saved placements are not yet checked against the runtime; try again")
        return None

    async def _run_sandbox(self, call: Call) -> _Answer:
        config = pb.RunPodSandboxRequest.FromString(call.message).config
        pod = self._reader.pod_of(config)

        def finish(outcome: Outcome) -> None:
            if not isinstance(outcome, Replied):
                return
            sandbox_id = pb.RunPodSandboxResponse.FromString(outcome.message).pod_sandbox_id
            self._node.remember_sandbox(
                SandboxRow(
                    sandbox_id=sandbox_id,
                    pod=pod,
                    annotations=tuple(sorted(config.annotations.items())),
                    cgroup_parent=config.linux.cgroup_parent,
                    config=config.SerializeToString(),
                )
            )

        return _Answer(Forward(), finish)

    async def _update_sandbox(self, call: Call) -> _Answer:
        """Note the pod's new sums; the call passes unchanged."""
        request = pb.UpdatePodSandboxResourcesRequest.FromString(call.message)

        def finish(outcome: Outcome) -> None:
            ledger = self._context.ledger
            known = ledger.sandboxes.get(ledger.full_sandbox_id(request.pod_sandbox_id))
            if not isinstance(outcome, Replied) or known is None:
                return
            config = pb.PodSandboxConfig.FromString(known.config)
            config.linux.overhead.MergeFrom(request.overhead)
            config.linux.resources.MergeFrom(request.resources)
            self._node.remember_sandbox(replace(known, config=config.SerializeToString()))

        return _Answer(Forward(), finish)

    def _sandbox_of(self, request: pb.CreateContainerRequest, sandbox_id: str) -> pb.PodSandboxConfig:
        """The pod's configuration: the request's own copy, or what RunPodSandbox told where a client leaves it out."""
        known = self._context.ledger.sandboxes.get(sandbox_id)
        if request.HasField("sandbox_config") or known is None:
            return request.sandbox_config
        return pb.PodSandboxConfig.FromString(known.config)

    async def _create(self, call: Call) -> _Answer:
        request = pb.CreateContainerRequest.FromString(call.message)
        refusal = await self._ready()
        if refusal is not None:
            return _refused(refusal)
        sandbox_id = self._context.ledger.full_sandbox_id(request.pod_sandbox_id)
        found = await self._reader.read_create(request, self._sandbox_of(request, sandbox_id))
        placed = await self._coordinator.place(found.request, sandbox_id, problems=found.problems)
        if isinstance(placed, Refusal):
            return _refused(placed)
        reservation: Reservation = placed

        def finish(outcome: Outcome) -> None:
            match outcome:
                case Replied(message=message):
                    answer = pb.CreateContainerResponse.FromString(message)
                    self._coordinator.commit(reservation, answer.container_id, _written(request, reservation.pinning))
                case Failed(message=words):
                    self._coordinator.roll_back(reservation, f"the runtime refused: {words}")
                case Aborted(sent=False):
                    self._coordinator.roll_back(reservation, "the caller left before the runtime was asked")
                case Aborted():
                    self._coordinator.leave_pending(reservation)
                    self._context.tasks.start(self._node.resync.check_all("unknown create"), name="ask")
                case _:
                    assert_never(outcome)

        try:
            message = write.write_create(call.message, reservation.pinning, grant_to_text(reservation.decision.grant))
        except BaseException:
            self._coordinator.roll_back(reservation, "a fault of ours")
            raise
        return _Answer(Rewrite(message), finish)

    async def _start(self, call: Call) -> _Answer:
        container_id = pb.StartContainerRequest.FromString(call.message).container_id
        refusal = await self._ready()
        if refusal is not None:
            return _refused(refusal)
        container_id = self._context.ledger.full_id(container_id)
        holder = self._context.ledger.holder(container_id)
        if holder is None or holder.state not in ACTIVE:
            # Created without us (restored from a checkpoint, or while deciding failed), or released before it ever
            # ran (containerd takes a stop of a created container and can start it afterwards): placed now.
            await self._node.resync.adopt_id(container_id)
        ticket = await self._node.barrier.before_start(container_id)
        if isinstance(ticket, Refusal):
            return _refused(ticket)
        if ticket is None:
            return _Answer(Forward())
        held = ticket

        def finish(outcome: Outcome) -> None:
            row = self._context.ledger.holder(container_id)
            try:
                if isinstance(outcome, Replied) and row is not None:
                    self._coordinator.set_state(row, "running")
            finally:
                self._node.barrier.done(held)
            if isinstance(outcome, Aborted) and outcome.sent:
                self._context.tasks.start(self._node.resync.check_all("unknown start"), name="ask")

        return _Answer(Forward(), finish)

    async def _update(self, call: Call) -> _Answer:
        request = pb.UpdateContainerResourcesRequest.FromString(call.message)
        refusal = await self._ready()
        if refusal is not None:
            return _refused(refusal)
        request.container_id = self._context.ledger.full_id(request.container_id)
        planned = await self._node.resizes.plan(self._reader, request)
        match planned:
            case None:
                return _Answer(Forward())
            case Refusal():
                return _refused(planned)
            case Rejected():
                return _refused(Refusal("full", planned.reason.text))
        try:
            message = write.write_update(call.message, planned.pinning)
        except BaseException:
            self._node.resizes.finish(planned, Aborted(sent=False))
            raise
        return _Answer(Rewrite(message), partial(self._node.resizes.finish, planned))

    async def _stop_container(self, call: Call) -> _Answer:
        container_id = pb.StopContainerRequest.FromString(call.message).container_id
        return _Answer(Forward(), self._releases("stopped", lambda: self._held_by(container_id)))

    async def _remove_container(self, call: Call) -> _Answer:
        container_id = pb.RemoveContainerRequest.FromString(call.message).container_id
        return _Answer(Forward(), self._releases("removed", lambda: self._held_by(container_id)))

    async def _stop_sandbox(self, call: Call) -> _Answer:
        sandbox_id = self._context.ledger.full_sandbox_id(
            pb.StopPodSandboxRequest.FromString(call.message).pod_sandbox_id
        )
        rows = self._context.ledger.of_sandbox
        return _Answer(Forward(), self._releases("sandbox stopped", lambda: rows(sandbox_id)))

    async def _remove_sandbox(self, call: Call) -> _Answer:
        sandbox_id = self._context.ledger.full_sandbox_id(
            pb.RemovePodSandboxRequest.FromString(call.message).pod_sandbox_id
        )

        def finish(outcome: Outcome) -> None:
            if _took_effect(outcome):
                self._coordinator.forget_sandbox(sandbox_id, "sandbox removed")
            elif isinstance(outcome, Aborted) and outcome.sent:
                self._context.tasks.start(self._node.resync.check_all("unknown removal"), name="ask")

        return _Answer(Forward(), finish)

    async def _restore_pod(self, call: Call) -> _Answer:
        def finish(outcome: Outcome) -> None:
            if isinstance(outcome, Replied):
                for restored in pb.RestorePodResponse.FromString(outcome.message).restored_containers:
                    self._context.tasks.start(self._node.resync.adopt_id(restored.container_id), name="place restored")

        return _Answer(Forward(), finish)

    def _held_by(self, container_id: str) -> tuple[Row, ...]:
        row = self._context.ledger.holder(self._context.ledger.full_id(container_id))
        return (row,) if row is not None else ()

    def _releases(self, why: str, rows: Callable[[], tuple[Row, ...]]) -> Finisher:
        """Release these rows when the call took effect: after the reply, because a stop lasts its grace period."""

        def finish(outcome: Outcome) -> None:
            if _took_effect(outcome):
                for row in rows():
                    self._coordinator.release(row, why)
            elif isinstance(outcome, Aborted) and outcome.sent:
                self._context.tasks.start(self._node.resync.check_all(f"unknown outcome: {why}"), name="ask")

        return finish


def _written(request: pb.CreateContainerRequest, pinning: Pinning) -> Pinning:
    """What the runtime was given: our values, and where a field is not ours the kubelet's own."""
    resources = request.config.linux.resources
    try:
        own = Pinning(CpuSet.parse(resources.cpuset_cpus) or None, NodeSet.parse(resources.cpuset_mems) or None)
    except CpuSetError:
        own = Pinning(None, None)  # the runtime will refuse it in its own words
    return Pinning(pinning.cpus or own.cpus, pinning.mems or own.mems)


def _took_effect(outcome: Outcome) -> bool:
    """A stop or removal is done when the runtime says so, or does not know the thing any more."""
    return isinstance(outcome, Replied) or (isinstance(outcome, Failed) and outcome.code == Code.NOT_FOUND)


def _refused(refusal: Refusal) -> _Answer:
    match refusal.kind:
        case "full":
            code = Code.RESOURCE_EXHAUSTED
        case "strict":
            code = Code.FAILED_PRECONDITION
        case "annotation":
            code = Code.INVALID_ARGUMENT
        case "store" | "update" | "not-ready":
            code = Code.UNAVAILABLE
        case _:
            assert_never(refusal.kind)
    return _Answer(Refuse(code, f"cri-proxy: {refusal.text}"))
