"""Decide on held CRI calls (creates, resizes in other modules); on a fault use the last known CPU sets, or refuse.

Every other method passes as untouched bytes. A fault of the proxy follows the option ``onPolicyError``: by default the
container goes on with the last known shared set.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from cri_proxy import events
from cri_proxy.cri.pod_amounts import pod_request_mcpu
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import pod_of
from cri_proxy.cri.sandbox_config import stored_config
from cri_proxy.cri.write import CpuTime, cpu_time_of, write_update
from cri_proxy.errors import UnreadableRequest
from cri_proxy.http2.status import Code, Failed
from cri_proxy.intercept.answers import Answer, OnOutcome, refused, took_effect
from cri_proxy.intercept.create import CreateCalls
from cri_proxy.intercept.gate import CREATE, RUNTIME, START, UPDATE, interest_of
from cri_proxy.intercept.reader import Reader, id_in, message_of, restored_ids
from cri_proxy.intercept.resize import UpdateCalls, with_pod_totals
from cri_proxy.intercept.runtime_config import runtime_config
from cri_proxy.node.coordinator import Refusal
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.node import Node
from cri_proxy.node.replan import without_unpaid_claims
from cri_proxy.relay.boundary import contained
from cri_proxy.relay.calls import Aborted, Call, Forward, Interest, Outcome, Refuse, Replied, Rewrite, Verdict
from cri_proxy.state.rows import Row, SandboxRow
from policies.base import CpuKind, Rejected
from policies.topology_aware import TopologyAwareOptions

# How long a call waits until the saved state is checked against the runtime; then it is refused, and retried.
READY_BOUND_SECONDS = 10.0
# The other calls do not wait for the recovery: what they end, it finds in the runtime's lists.
_DECIDED = frozenset({CREATE, START, UPDATE})


class CriInterceptor:
    """Implements ``relay.calls.Interceptor`` for CRI v1."""

    def __init__(self, node: Node, reader: Reader, *, ready_bound_seconds: float = READY_BOUND_SECONDS) -> None:
        self._ready_bound_seconds = ready_bound_seconds
        self._node = node
        self._context = node.context
        self._coordinator = node.coordinator
        self._reader = reader
        self._creates = CreateCalls(node)
        self._updates = UpdateCalls(node)
        self._open: dict[int, OnOutcome] = {}
        self._methods: dict[str, Callable[[Call], Awaitable[Answer]]] = {
            RUNTIME + "RunPodSandbox": self._run_sandbox,
            CREATE: lambda call: self._creates.answer(call.message, self._reader),
            START: self._start,
            UPDATE: self._update,
            RUNTIME + "UpdatePodSandboxResources": self._update_sandbox,
            RUNTIME + "StopContainer": partial(self._release, pb.StopContainerRequest, "stopped"),
            RUNTIME + "RemoveContainer": partial(self._release, pb.RemoveContainerRequest, "removed"),
            RUNTIME + "StopPodSandbox": self._stop_sandbox,
            RUNTIME + "RemovePodSandbox": self._remove_sandbox,
            RUNTIME + "RestorePod": self._restore_pod,
        }

    @property
    def reader(self) -> Reader:
        """The reader of requests from now on, with the configuration in force."""
        return self._reader

    def use_reader(self, reader: Reader) -> None:
        """Read messages by another configuration, or on a changed machine, from now on."""
        self._reader = reader

    def wants(self, method: str) -> Interest:
        """See ``interest_of``."""
        return interest_of(method)

    async def on_request(self, call: Call) -> Verdict:
        """Decide on a held request; a fault of the proxy becomes the fallback or, by option, a refusal."""
        faults: list[BaseException] = []
        # The boundary for faults of the proxy: they stop no container (docs/adr/0001-fail-open.md).
        with contained(faults.append):
            answer = await self._answer(call)
        if faults:
            answer = self._fallback(call, faults[0])
        if answer.finish is not None:
            self._open[call.id] = answer.finish
        return answer.verdict

    async def stand_in(self, method: str) -> bytes | None:
        """Return the reply to RuntimeConfig for a runtime that does not know it; None where that is unknown."""
        return await runtime_config(self._context)

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Call the answer's ``on_outcome``; a fault there does not change the caller's reply."""
        finish = self._open.pop(call.id, None)
        if finish is not None:
            with contained(partial(self._context.journal.failed_open, call.method)):
                finish(outcome)

    async def _answer(self, call: Call) -> Answer:
        try:
            refusal = await self._ready() if call.method in _DECIDED else None
            return refused(refusal) if refusal is not None else await self._methods[call.method](call)
        except UnreadableRequest as error:
            return self._unreadable(call, error)

    def _unreadable(self, call: Call, error: UnreadableRequest) -> Answer:
        """Let the runtime refuse the request in its own words; a container that it makes all the same is placed."""
        self._context.journal.noted(events.UNREADABLE, method=error.method, reason=error.problem)
        if self._rejects_faults:
            return Answer(Refuse(Code.INVALID_ARGUMENT, f"cri-proxy: {error}"))
        return Answer(Forward(), self._creates.finish_unplaced if call.method == CREATE else None)

    @property
    def _rejects_faults(self) -> bool:
        return self._coordinator.config.on_policy_error == "reject"

    def _fallback(self, call: Call, error: BaseException) -> Answer:
        """Answer a call that could not be decided: with the last known sets or, where that fails too, as it came."""
        self._context.journal.failed_open(call.method, error)
        if self._rejects_faults:
            return Answer(Refuse(Code.INTERNAL, f"cri-proxy: {call.method.rpartition('/')[2]} failed: {error!r}"))
        verdict: Verdict = Forward()
        with contained(partial(self._context.journal.failed_open, "fallback")):
            if call.method == CREATE:
                verdict = Rewrite(self._creates.unplaced(call.message))
            elif call.method == UPDATE:
                verdict = Rewrite(self._without_cpuset(call.message))
        return Answer(verdict, self._creates.finish_unplaced if call.method == CREATE else None)

    def _without_cpuset(self, message: bytes) -> bytes:
        """Return the kubelet's update with the container's confirmed pinning in place of its own cpuset fields."""
        container_id = pb.UpdateContainerResourcesRequest.FromString(message).container_id
        row = self._context.ledger.holder(container_id)
        if row is None or row.acknowledged is None or row.grant.kind is CpuKind.PRESERVE:
            return message
        return write_update(message, row.acknowledged, self._cpu_time(row))

    def _cpu_time(self, row: Row | None) -> CpuTime:
        """Return our shares and quota if an option asks for them: the kubelet's update would undo them."""
        options = self._coordinator.config.of_policy(TopologyAwareOptions)
        return CpuTime() if row is None else cpu_time_of(row.grant, options)

    async def _ready(self) -> Refusal | None:
        if self._coordinator.is_ready:
            return None
        try:
            async with asyncio.timeout(self._ready_bound_seconds):
                await self._coordinator.wait_ready()
        except TimeoutError:
            return Refusal("not-ready", "the saved placements are not yet checked against the runtime; try again")
        return None

    async def _run_sandbox(self, call: Call) -> Answer:
        config = message_of(pb.RunPodSandboxRequest, call.message).config
        pod = pod_of(config)
        refusal = None
        # A fault here refuses no pod: each of its containers is decided on later.
        with contained(partial(self._context.journal.failed_open, call.method)):
            refusal = await self._pod_refusal(config)
        if refusal is not None:
            return refused(refusal)
        # While the runtime makes the sandbox: the first container then finds the kubelet's answer.
        self._reader.expect(pod)

        def finish(outcome: Outcome) -> None:
            if not isinstance(outcome, Replied):
                return
            sandbox_id = id_in(pb.RunPodSandboxResponse, outcome.message)
            if not sandbox_id or sandbox_id in self._context.ledger.sandboxes:
                # Nothing is held for a sandbox; the kubelet sends its configuration again with each container.
                self._context.journal.noted(
                    events.UNREADABLE_REPLY,
                    method=call.method,
                    namespace=pod.namespace,
                    pod=pod.name,
                    reason=f"created, {'with the id of another sandbox' if sandbox_id else 'without a usable id'}",
                )
                return
            kept = stored_config(config, self._reader.config.annotation_domains)
            self._node.save_sandbox(
                SandboxRow(
                    sandbox_id=sandbox_id,
                    pod=pod,
                    annotations=tuple(sorted(kept.annotations.items())),
                    cgroup_parent=config.linux.cgroup_parent,
                    config=kept.SerializeToString(),
                )
            )

        return Answer(Forward(), finish)

    async def _pod_refusal(self, config: pb.PodSandboxConfig) -> Refusal | None:
        """Return why a pod whose topology hints are merged as a whole cannot run here; None for every other pod."""
        asked = self._reader.read_pod(config) if self._coordinator.is_ready else None
        return None if asked is None else await self._node.refuse_pod(asked)

    async def _update_sandbox(self, call: Call) -> Answer:
        """Note the pod's new sums; the call passes unchanged."""
        request = message_of(pb.UpdatePodSandboxResourcesRequest, call.message)

        def finish(outcome: Outcome) -> None:
            ledger = self._context.ledger
            known = ledger.sandboxes.get(ledger.full_sandbox_id(request.pod_sandbox_id))
            # The kubelet resizes the pod also where the runtime lacks the method, as containerd before 2.1.
            is_lacking = isinstance(outcome, Failed) and outcome.code == Code.UNIMPLEMENTED
            if known is None or not (is_lacking or isinstance(outcome, Replied)):
                return
            config = pb.PodSandboxConfig.FromString(known.config)
            config.linux.overhead.MergeFrom(request.overhead)
            config.linux.resources.MergeFrom(request.resources)
            self._node.save_sandbox(replace(known, config=config.SerializeToString()))
            rows = (row for row in ledger.of_pod(known.pod.uid) if row.grant.shares_cpus)
            # The CPUs of a claim were chosen by others: a new request of the pod resizes none of them.
            sharing = [row for row in rows if row.grant.request.claim is None]
            for row in sharing[:1]:  # a pod's request alone takes no update of a container
                self._node.coordinator.resize_pod(row, with_pod_totals(ledger, row, row.grant.request))
            if config.linux.resources.cpu_shares:
                requested_mcpu = pod_request_mcpu(known.pod.qos, config.linux.resources)
                paid = without_unpaid_claims(ledger.policy, ledger.allocations, known.pod.uid, requested_mcpu)
                self._node.coordinator.regrant(*paid)

        return Answer(Forward(), finish)

    async def _start(self, call: Call) -> Answer:
        container_id = message_of(pb.StartContainerRequest, call.message).container_id
        ledger = self._context.ledger
        with ledger.starts.asking(container_id):
            holder = ledger.holder(ledger.full_id(container_id))
            lost = None
            if holder is None or holder.state not in ACTIVE:
                # Place it now: it was created without us (restored from a checkpoint, or while deciding failed), or has
                # lost its place before it ran (stopped, or not started for long: containerd starts it all the same).
                lost = await self._node.resync.placement.place_to_start(container_id)
            container_id = ledger.full_id(container_id)
            held = lost or await self._node.barrier.before_start(container_id, call.timeout_seconds)
        if isinstance(held, Refusal):
            return refused(held)
        if held is None:
            return Answer(Forward())

        def finish(outcome: Outcome) -> None:
            row = self._context.ledger.holder(container_id)
            unknown = isinstance(outcome, Aborted) and outcome.sent
            if unknown or (held.starts_again and not isinstance(outcome, Replied)):
                # It, or the start before it, may be in flight still, and loses updates until then.
                self._node.barrier.left(held)
                self._context.tasks.start(self._node.resync.await_start(container_id), name="ask")
                return
            runs, is_held = isinstance(outcome, Replied), row is not None and row.state in ACTIVE
            try:
                if runs and row is not None:
                    self._coordinator.set_state(row, "running")
            finally:
                if runs and not is_held:  # released or replaced meanwhile: it is on its CPUs until a check sees its end
                    self._node.barrier.left(held)
                else:
                    self._node.barrier.done(held)

        return Answer(Forward(), finish)

    async def _update(self, call: Call) -> Answer:
        request = message_of(pb.UpdateContainerResourcesRequest, call.message)
        request.container_id = self._context.ledger.full_id(request.container_id)
        row = self._context.ledger.holder(request.container_id)
        if row is not None:
            self._node.managers.note_cpuset(request.linux.cpuset_cpus, row.name)
        planned = await self._updates.plan(self._reader, request, call.timeout_seconds)
        match planned:
            case None:
                return Answer(Forward())
            case Refusal():
                return refused(planned)
            case Rejected():
                return refused(Refusal("full", planned.reason.text))
        try:
            # Read after the plan: a resize has changed the grant that shares and quota follow.
            cpu_time = self._cpu_time(self._context.ledger.get(planned.ticket.key))
            message = write_update(call.message, planned.pinning, cpu_time)
        except BaseException:  # the plan holds the container's lock
            self._updates.finish(planned, Aborted(sent=False))
            raise
        return Answer(Rewrite(message), partial(self._updates.finish, planned))

    async def _release(
        self, kind: type[pb.StopContainerRequest] | type[pb.RemoveContainerRequest], why: str, call: Call
    ) -> Answer:
        container_id = message_of(kind, call.message).container_id

        def release() -> None:
            full_id = self._context.ledger.full_id(container_id)
            row = self._context.ledger.holder(full_id)
            if row is not None:
                self._coordinator.release(row, why)
            if why == "removed":  # no runtime removes one that it still starts
                self._node.effects.start_ended(full_id)

        return Answer(Forward(), self._once_done(why, release))

    async def _stop_sandbox(self, call: Call) -> Answer:
        ledger = self._context.ledger
        sandbox_id = ledger.full_sandbox_id(message_of(pb.StopPodSandboxRequest, call.message).pod_sandbox_id)

        def release() -> None:
            self._coordinator.stop_sandbox(sandbox_id, "sandbox stopped")

        return Answer(Forward(), self._once_done("sandbox stopped", release))

    async def _remove_sandbox(self, call: Call) -> Answer:
        sandbox_id = message_of(pb.RemovePodSandboxRequest, call.message).pod_sandbox_id
        why = "sandbox removed"
        forget = partial(self._coordinator.forget_sandbox, self._context.ledger.full_sandbox_id(sandbox_id), why)
        return Answer(Forward(), self._once_done(why, forget))

    async def _restore_pod(self, call: Call) -> Answer:
        def finish(outcome: Outcome) -> None:
            if isinstance(outcome, Replied):
                for container_id in restored_ids(outcome.message):
                    self._context.tasks.start(self._node.resync.placement.adopt_id(container_id), name="place restored")

        return Answer(Forward(), finish)

    def _once_done(self, why: str, apply: Callable[[], None]) -> OnOutcome:
        """Call ``apply`` once the call took effect."""

        def finish(outcome: Outcome) -> None:
            if took_effect(outcome):  # not before the reply: until the grace period is over the container runs
                apply()
            elif isinstance(outcome, Aborted) and outcome.sent:
                self._context.tasks.start(self._node.resync.check_all(f"unknown outcome: {why}"), name="ask")

        return finish
