"""The table of intercepted CRI methods: messages in, coordinator calls, messages out (spec/relay.md's table).

Every other method passes as untouched bytes. The one ``except Exception`` of the decision path is here: a fault
of ours follows the operator's ``onPolicyError``, and by default the container goes on with the last known
shared set.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from cri_proxy import events
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.sandbox_config import remembered
from cri_proxy.cri.write import CpuTime, cpu_time_of, write_update
from cri_proxy.errors import UnreadableRequest
from cri_proxy.http2.status import Code
from cri_proxy.intercept.answers import Answer, Finisher, refused, took_effect
from cri_proxy.intercept.create import Creating
from cri_proxy.intercept.interest import CREATE, RUNTIME, START, UPDATE, interest_of
from cri_proxy.intercept.reader import Reader
from cri_proxy.intercept.requests import message_of
from cri_proxy.intercept.resize import Resizes
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Refusal
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.node import Node
from cri_proxy.relay.calls import Aborted, Call, Forward, Interest, Outcome, Refuse, Replied, Rewrite, Verdict
from cri_proxy.state.rows import Row, SandboxRow
from policies.base import CpuKind, Rejected

# How long a call waits for the saved state to be held against the runtime; then it is refused, and retried.
READY_BOUND_SECONDS = 10.0


class CriInterceptor:
    """Implements ``relay.calls.Interceptor`` for CRI v1."""

    def __init__(self, node: Node, reader: Reader, *, ready_bound_seconds: float = READY_BOUND_SECONDS) -> None:
        """Acts on this node; ``reader`` understands messages."""
        self._ready_bound_seconds = ready_bound_seconds
        self._node = node
        self._context: Context = node.context
        self._coordinator: Coordinator = node.coordinator
        self._reader = reader
        self._creating = Creating(node, reader)
        self._resizes = Resizes(node.context, node.effects, node.barrier, node.coordinator, node.resync)
        self._open: dict[int, Finisher] = {}
        self._methods: dict[str, Callable[[Call], Awaitable[Answer]]] = {
            RUNTIME + "RunPodSandbox": self._run_sandbox,
            CREATE: self._create,
            START: self._start,
            UPDATE: self._update,
            RUNTIME + "UpdatePodSandboxResources": self._update_sandbox,
            RUNTIME + "StopContainer": self._stop_container,
            RUNTIME + "RemoveContainer": self._remove_container,
            RUNTIME + "StopPodSandbox": self._stop_sandbox,
            RUNTIME + "RemovePodSandbox": self._remove_sandbox,
            RUNTIME + "RestorePod": self._restore_pod,
        }

    def use_reader(self, reader: Reader) -> None:
        """Understand messages on another machine, or by another configuration, from now on."""
        self._reader = reader
        self._creating.use_reader(reader)

    def wants(self, method: str) -> Interest:
        """See ``interest_of``."""
        return interest_of(method)

    async def on_request(self, call: Call) -> Verdict:
        """Decide on a held request; a fault of ours becomes the fallback or, by choice, a refusal."""
        try:
            answer = await self._methods[call.method](call)
        except UnreadableRequest as error:
            answer = self._unread(call, error)
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

    def _unread(self, call: Call, error: UnreadableRequest) -> Answer:
        """The runtime's to refuse, in its own words; one that takes it all the same has a container to be placed."""
        self._context.observer.noted(events.UNREADABLE, method=error.method, reason=error.problem)
        if self._rejects_faults:
            return Answer(Refuse(Code.INVALID_ARGUMENT, f"cri-proxy: {error}"))
        return Answer(Forward(), self._creating.finish_unplaced if call.method == CREATE else None)

    @property
    def _rejects_faults(self) -> bool:
        return self._coordinator.rules.on_policy_error == "reject"

    def _failed(self, call: Call, error: Exception) -> Answer:
        self._context.observer.failed_open(call.method, error)
        if self._rejects_faults:
            return Answer(Refuse(Code.INTERNAL, f"cri-proxy: {call.method.rpartition('/')[2]} failed: {error!r}"))
        finish = self._creating.finish_unplaced if call.method == CREATE else None
        try:
            if call.method == CREATE:
                return Answer(Rewrite(self._creating.unplaced(call.message)), finish)
            if call.method == UPDATE:
                return Answer(Rewrite(self._without_cpuset(call.message)))
        except Exception as second:  # noqa: BLE001 - not even that can be written: as it came
            self._context.observer.failed_open("fallback", second)
        return Answer(Forward(), finish)

    def _without_cpuset(self, message: bytes) -> bytes:
        """The kubelet's update with the pinning that the container has: its own cpuset fields never pass."""
        container_id = pb.UpdateContainerResourcesRequest.FromString(message).container_id
        row = self._context.ledger.holder(container_id)
        if row is None or row.acknowledged is None or row.grant.kind is CpuKind.PRESERVE:
            return message
        return write_update(message, row.acknowledged, self._cpu_time(row))

    def _cpu_time(self, row: Row | None) -> CpuTime:
        """Shares and quota of ours, where an option asks for them: the kubelet's update would undo them."""
        rules = self._coordinator.rules
        if row is None:
            return CpuTime()
        return cpu_time_of(row.grant, lift_quota=rules.lift_quota, fraction_shares=rules.fraction_shares)

    async def _ready(self) -> Refusal | None:
        try:
            async with asyncio.timeout(self._ready_bound_seconds):
                await self._coordinator.wait_ready()
        except TimeoutError:
            return Refusal("not-ready", "the saved placements are not yet checked against the runtime; try again")
        return None

    async def _run_sandbox(self, call: Call) -> Answer:
        config = message_of(pb.RunPodSandboxRequest, call.message).config
        pod = self._reader.pod_of(config)
        self._reader.expect(pod)

        def finish(outcome: Outcome) -> None:
            if not isinstance(outcome, Replied):
                return
            sandbox_id = pb.RunPodSandboxResponse.FromString(outcome.message).pod_sandbox_id
            kept = remembered(config, self._reader.domains)
            self._node.remember_sandbox(
                SandboxRow(
                    sandbox_id=sandbox_id,
                    pod=pod,
                    annotations=tuple(sorted(kept.annotations.items())),
                    cgroup_parent=config.linux.cgroup_parent,
                    config=kept.SerializeToString(),
                )
            )

        return Answer(Forward(), finish)

    async def _update_sandbox(self, call: Call) -> Answer:
        """Note the pod's new sums; the call passes unchanged."""
        request = message_of(pb.UpdatePodSandboxResourcesRequest, call.message)

        def finish(outcome: Outcome) -> None:
            ledger = self._context.ledger
            known = ledger.sandboxes.get(ledger.full_sandbox_id(request.pod_sandbox_id))
            if not isinstance(outcome, Replied) or known is None:
                return
            config = pb.PodSandboxConfig.FromString(known.config)
            config.linux.overhead.MergeFrom(request.overhead)
            config.linux.resources.MergeFrom(request.resources)
            self._node.remember_sandbox(replace(known, config=config.SerializeToString()))

        return Answer(Forward(), finish)

    async def _create(self, call: Call) -> Answer:
        refusal = await self._ready()
        return refused(refusal) if refusal is not None else await self._creating.answer(call.message)

    async def _start(self, call: Call) -> Answer:
        container_id = message_of(pb.StartContainerRequest, call.message).container_id
        refusal = await self._ready()
        if refusal is not None:
            return refused(refusal)
        container_id = self._context.ledger.full_id(container_id)
        holder = self._context.ledger.holder(container_id)
        if holder is None or holder.state not in ACTIVE:
            # Created without us (restored from a checkpoint, or while deciding failed), or released before it ever
            # ran (containerd takes a stop of a created container and can start it afterwards): placed now.
            await self._node.resync.adopt_id(container_id)
        ticket = await self._node.barrier.before_start(container_id)
        if isinstance(ticket, Refusal):
            return refused(ticket)
        if ticket is None:
            return Answer(Forward())
        held = ticket

        def finish(outcome: Outcome) -> None:
            row = self._context.ledger.holder(container_id)
            if isinstance(outcome, Aborted) and outcome.sent:  # it may be in flight still, and loses updates until then
                ended = self._node.resync.start_ended(container_id, lambda: self._node.barrier.done(held))
                self._context.tasks.start(ended, name="ask")
                return
            try:
                if isinstance(outcome, Replied) and row is not None:
                    self._coordinator.set_state(row, "running")
            finally:
                self._node.barrier.done(held)

        return Answer(Forward(), finish)

    async def _update(self, call: Call) -> Answer:
        request = message_of(pb.UpdateContainerResourcesRequest, call.message)
        refusal = await self._ready()
        if refusal is not None:
            return refused(refusal)
        request.container_id = self._context.ledger.full_id(request.container_id)
        row = self._context.ledger.holder(request.container_id)
        if row is not None:
            self._node.managers.saw_cpuset(request.linux.cpuset_cpus, row.key.name)
        planned = await self._resizes.plan(self._reader, request)
        match planned:
            case None:
                return Answer(Forward())
            case Refusal():
                return refused(planned)
            case Rejected():
                return refused(Refusal("full", planned.reason.text))
        try:
            cpu_time = self._cpu_time(self._context.ledger.get(planned.ticket.key))
            message = write_update(call.message, planned.pinning, cpu_time)
        except BaseException:
            self._resizes.finish(planned, Aborted(sent=False))
            raise
        return Answer(Rewrite(message), partial(self._resizes.finish, planned))

    async def _stop_container(self, call: Call) -> Answer:
        container_id = message_of(pb.StopContainerRequest, call.message).container_id
        return Answer(Forward(), self._releases("stopped", lambda: self._held_by(container_id)))

    async def _remove_container(self, call: Call) -> Answer:
        container_id = message_of(pb.RemoveContainerRequest, call.message).container_id
        return Answer(Forward(), self._releases("removed", lambda: self._held_by(container_id)))

    async def _stop_sandbox(self, call: Call) -> Answer:
        sandbox_id = self._context.ledger.full_sandbox_id(
            message_of(pb.StopPodSandboxRequest, call.message).pod_sandbox_id
        )
        rows = self._context.ledger.of_sandbox
        return Answer(Forward(), self._releases("sandbox stopped", lambda: rows(sandbox_id)))

    async def _remove_sandbox(self, call: Call) -> Answer:
        sandbox_id = self._context.ledger.full_sandbox_id(
            message_of(pb.RemovePodSandboxRequest, call.message).pod_sandbox_id
        )

        def finish(outcome: Outcome) -> None:
            if took_effect(outcome):
                self._coordinator.forget_sandbox(sandbox_id, "sandbox removed")
            elif isinstance(outcome, Aborted) and outcome.sent:
                self._context.tasks.start(self._node.resync.check_all("unknown removal"), name="ask")

        return Answer(Forward(), finish)

    async def _restore_pod(self, call: Call) -> Answer:
        def finish(outcome: Outcome) -> None:
            if isinstance(outcome, Replied):
                for restored in pb.RestorePodResponse.FromString(outcome.message).restored_containers:
                    self._context.tasks.start(self._node.resync.adopt_id(restored.container_id), name="place restored")

        return Answer(Forward(), finish)

    def _held_by(self, container_id: str) -> tuple[Row, ...]:
        row = self._context.ledger.holder(self._context.ledger.full_id(container_id))
        return (row,) if row is not None else ()

    def _releases(self, why: str, rows: Callable[[], tuple[Row, ...]]) -> Finisher:
        """Release these rows when the call took effect: after the reply, because a stop lasts its grace period."""

        def finish(outcome: Outcome) -> None:
            if took_effect(outcome):
                for row in rows():
                    self._coordinator.release(row, why)
            elif isinstance(outcome, Aborted) and outcome.sent:
                self._context.tasks.start(self._node.resync.check_all(f"unknown outcome: {why}"), name="ask")

        return finish
