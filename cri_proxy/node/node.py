"""Build the node from its parts; recover, place a container (reserve and save, or refuse), run slow checks, close."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.model import Config
from cri_proxy.errors import StoreError
from cri_proxy.file_workers import PLAIN_THREADS, FileCalls
from cri_proxy.foreign_text import SENTENCE_BYTES, admit
from cri_proxy.node.barrier import Barrier
from cri_proxy.node.context import Context, Signals
from cri_proxy.node.coordinator import Coordinator, Refusal, Reservation
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.drift.cgroups import Cgroups, Cpusets
from cri_proxy.node.drift.drift import Drift, DriftProbes
from cri_proxy.node.drift.kubelet_managers import ManagerWatch
from cri_proxy.node.drift.runtime_affinity import Allowed
from cri_proxy.node.drift.writes import Writes
from cri_proxy.node.effects import Effects
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.persistence import Persistence
from cri_proxy.node.rebalance import ColdStarts, Rebalance
from cri_proxy.node.resource_files.updates import ResourceFiles
from cri_proxy.node.runtime_cdi import RuntimeCdi
from cri_proxy.node.sync.adoption import Adoption
from cri_proxy.node.sync.resync import Resync
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.state.rows import GrantStore, SandboxRow, Saved
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey, Reason, Rejected, Request
from policies.policy import Policy
from policies.topology_aware import ReasonCode

# At the end, for saves under way and closing the store: more than COMMIT_BOUND_SECONDS, and well below the bound of a
# stop. Other work under way is found again at the next start.
LAST_SAVES_SECONDS = 3.0
AFTER_FAULT_SECONDS = 1.0
POLL_SECONDS = 30.0  # between two slow checks
# Has no files below it: for a node that is not this host.
NO_DIRECTORY = Path("/dev/null")

# A pod's containers follow each other within seconds, but for init containers that take their time.
SETTLED_SECONDS: Final = 600.0
MOST_NAMED: Final = 4
MOST_KEPT: Final = 128
"""Containers that wait for room at a time, at most as many as pods on a node by the kubelet's default (110); a refusal
that is forgotten is worked out again."""


_Known = tuple[Request, int, Policy, Rejected]
"""A refusal, after all that it followed from: request, version of the ledger, policy."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The surroundings of a node: its runtime, its store, the time, its journal, and the host's directories."""

    channel: RuntimeChannel
    store: GrantStore
    clock: Clock
    journal: Journal
    files_root: Path | None = None  # holds the directories behind /.cri-proxy; None = no container gets one
    kubelet_root: Path = NO_DIRECTORY  # the kubelet's own directory, with its managers' state files
    cpusets: Cpusets = Cgroups(NO_DIRECTORY)  # noqa: RUF009 - holds a path and nothing that changes
    writes: Callable[[Callable[[str], None]], Writes] | None = None  # reports writes to cpusets at once
    files: FileCalls = PLAIN_THREADS
    persistence: Callable[..., Persistence] = Persistence
    allowed: Callable[[int], Allowed | None] = lambda pid: None  # the affinities of a process and its parent


class Node:
    """The parts, wired; ``recover`` must run before anything is decided."""

    def __init__(self, policy: Policy, config: Config, environment: Environment) -> None:
        """Build a node that is about to recover: decisions wait until it has."""
        journal, signals = environment.journal, Signals()
        ledger = Ledger(policy, signals.ledger_changed)
        tasks = Tasks(lambda error: journal.failed_open("background task", error))
        persistence = environment.persistence(
            environment.store,
            tasks,
            lambda problem: journal.noted(events.STORE_DEGRADED, reason=problem),
            on_saved=journal.saved,
            everything=lambda: (*ledger.rows(), *ledger.sandboxes.values()),
        )
        context = Context(ledger, environment.channel, persistence, tasks, journal, environment.clock, signals)
        self.context, self.store = context, environment.store
        # Apart from ``context.tasks``: these loops never end, and are cancelled at the end; saves are waited for.
        self.background = Tasks(lambda error: journal.failed_open("background", error))
        self.effects = Effects(context)
        self.coordinator = Coordinator(context, self.effects, config)
        self.barrier = Barrier(context, self.effects, self.coordinator)
        self.adoption = Adoption(context, lambda: self.coordinator.config)
        self.resync = Resync(context, self.effects, self.coordinator, self.adoption)
        self.resource_files = ResourceFiles(context, environment.files_root, environment.files)
        self.rebalance = Rebalance(context, self.effects, self.coordinator)
        self.cold_starts = ColdStarts(context, self.effects, self.coordinator)
        self.managers = ManagerWatch(
            environment.kubelet_root,
            lambda warning: journal.noted(events.KUBELET_MANAGER, reason=warning),
            environment.files,
        )
        probes = DriftProbes(
            environment.cpusets,
            self.managers.read,
            lambda: self.coordinator.config.drift_check_seconds,
            environment.writes,
            environment.allowed,
        )
        self.drift = Drift(context, self.effects, self.adoption, probes)
        self.runtime_cdi = RuntimeCdi(context, lambda: self.coordinator.config)
        self.absent_containers = AbsentContainers(context)
        self.refusals = Refusals(ledger)

    async def recover(self) -> None:
        """Load what was saved, compare it with the runtime, start to decide. Waits for the runtime.

        An internal error on the way is reported and tried again; meanwhile calls follow ``onPolicyError``.
        """
        try:
            saved = self.store.load()
        except StoreError as error:  # as after a lost store: rebuilt from the runtime
            self.context.journal.noted(events.STORE_DEGRADED, reason=str(error))
            saved = Saved()
        self.context.journal.records.recall(saved, self.context.persistence)
        await self._restart_on_error(lambda: self.resync.recover(saved), "recover", self.coordinator.cannot_open)
        # After the recovery: before it the ledger has no rows, and every directory would look like a leftover.
        self.context.tasks.start(self.resource_files.resume(), name="resource files")

    def start_watching(self) -> None:
        """Handle exits, failed updates and unknown outcomes from now on; each task restarts after an error."""
        self.context.tasks.start(self.managers.look(), name="kubelet managers")
        self.context.tasks.start(self.runtime_cdi.look(), name="runtime and CDI")
        self.keep_doing(self._poll, "poll")
        self.keep_doing(self.resync.watch, "events")
        self.keep_doing(self.drift.watch, "drift")
        self.keep_doing(self.drift.follow, "drift at once")
        self.keep_doing(self.cold_starts.watch, "cold starts")
        self.keep_doing(self.resource_files.watch, "resource files")

    def keep_doing(self, work: Callable[[], Coroutine[object, object, None]], name: str) -> None:
        """Run this in the background until it ends by itself, again after each error."""
        self.background.start(self._restart_on_error(work, name), name=f"keep doing: {name}")

    async def _poll(self) -> None:
        """Run the slow check now and then: unannounced exits, failed updates, unknown outcomes."""
        while True:
            await self.context.clock.sleep(POLL_SECONDS)
            await self.coordinator.wait_ready()
            await self.resync.check_all("slow check")
            self.effects.retry_failed()
            self.context.persistence.catch_up()
            await self.slow_check()

    async def slow_check(self) -> None:
        """Check what the runtime's list does not show: kubelet managers, its version, cold starts, placements."""
        await self.managers.look()
        await self.runtime_cdi.look()
        self.cold_starts.look()
        self.absent_containers.look()
        await self.rebalance.improve_all()
        await self.rebalance.come_home()

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the kubelet's managers, drift and CDI, a sentence each."""
        return (*self.managers.warnings(), *self.drift.warnings(), *self.runtime_cdi.problems())

    async def _restart_on_error(
        self,
        work: Callable[[], Coroutine[object, object, None]],
        name: str,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        """Run this, again a while after each error; ``background`` reports the error itself."""
        while True:
            task = self.background.start(work(), name=name)
            await asyncio.wait([task])
            # Cancelled means the end of the node: nothing is to be run again.
            error = None if task.cancelled() else task.exception()
            if error is None:
                return
            if on_fault is not None:
                on_fault(repr(error))
            await self.context.clock.sleep(AFTER_FAULT_SECONDS)

    async def place(
        self, request: Request, sandbox_id: str, *, problems: tuple[str, ...] = ()
    ) -> Reservation | Refusal:
        """Reserve a place and make it durable. ``problems`` are annotations that were not understood."""
        if problems and self.coordinator.config.strict_annotations:
            return self.refuse(request, Refusal("annotation", admit("; ".join(problems), SENTENCE_BYTES)))
        # The kubelet tries a refused pod again and again; each try would cost a decision and lists of the runtime.
        if self.refusals.known and (known := self.refusals.get(request)) is not None:
            self.coordinator.report(request, known, problems=problems)
            return refusal_of(known)
        if self.context.ledger.of_pod(request.container.pod_uid):
            # No event announces the exit of an init container before the next create.
            await self.resync.check_pod(request.container.pod_uid)
        started = self.context.clock.monotonic_seconds()
        decided = self.coordinator.decide_and_reserve(request, sandbox_id, is_last_try=False)
        if isinstance(decided, Rejected):
            # Exits are known late where the runtime has no events, and one of them may have made room.
            await self.resync.check_all("before a refusal")
            decided = self.coordinator.decide_and_reserve(request, sandbox_id)
        seconds = self.context.clock.monotonic_seconds() - started
        if isinstance(decided, Rejected):
            self.coordinator.report(request, decided, problems=problems, seconds=seconds)
            self.refusals.keep(request, decided)
            return refusal_of(decided)
        try:
            self.coordinator.report(
                request, decided.decision, circumstances=decided.circumstances, problems=problems, seconds=seconds
            )
            saved = await self.coordinator.save_reservation(decided)
        except BaseException as error:
            # CancelledError as well: the caller has left, and the runtime has not been asked.
            self.coordinator.roll_back_unsent(decided, error)
            raise
        if not saved and self.coordinator.config.on_store_error == "reject":
            problem = f"the placement cannot be saved: {self.context.persistence.problem}"
            self.coordinator.roll_back(decided, problem, code="store")
            return self.refuse(request, Refusal("store", problem))
        return decided

    async def refuse_pod(self, request: Request) -> Refusal | None:
        """Return why a pod with these sums is refused before it has a container; None where it may run."""
        known = self.refusals.get(request)
        rejected = known or self.coordinator.refused_pod(request)
        if rejected is not None and known is None:
            await self.resync.check_all("before a refusal")
            rejected = self.coordinator.refused_pod(request)
        if rejected is None:
            return None
        self.refusals.keep(request, rejected)
        self.context.journal.pod_refused(request, rejected)
        return refusal_of(rejected)

    def refuse(self, request: Request, refusal: Refusal) -> Refusal:
        """Report a refusal that is not the policy's."""
        self.coordinator.report(request, Rejected(Reason(refusal.kind, refusal.text)))
        return refusal

    def save_sandbox(self, sandbox: SandboxRow) -> None:
        """Save a new or changed pod sandbox."""
        is_new = sandbox.sandbox_id not in self.context.ledger.sandboxes
        self.context.ledger.sandboxes[sandbox.sandbox_id] = sandbox
        if is_new:  # its containers come with the same configuration
            self.context.persistence.save_later([sandbox])
        else:  # the kubelet says new sums once
            self.context.persistence.save_now(sandbox)

    async def settle(self) -> None:
        """Wait until all background work has ended: for tests and the simulation."""
        await self.context.tasks.join()
        await self.effects.settle_all()
        await self.context.tasks.join()
        await self.resource_files.settle()

    async def close(self) -> None:
        """Stop all work, then save and close the store: what is not on the disk in time is left."""
        self.context.persistence.stop_gathering()  # first: what follows may be cut off
        # Then what decides and sends, then the saves: the last of them are of what that has done.
        await self.background.cancel()
        self.drift.close()
        await self.resource_files.close()
        await self.effects.close()
        try:
            async with asyncio.timeout(LAST_SAVES_SECONDS):
                await self.context.tasks.join()
                await self.store.close()
        except TimeoutError:
            reason = f"the last saves take more than {LAST_SAVES_SECONDS:g} s; the next start asks the runtime instead"
            self.context.journal.noted(events.STORE_DEGRADED, reason=reason)
        await self.context.tasks.cancel()


class Refusals:
    """The last refusals. Any change of a grant, of the configuration or of the machine makes them void."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.known: OrderedDict[ContainerKey, _Known] = OrderedDict()

    def get(self, request: Request) -> Rejected | None:
        """Return the refusal of the same request, if nothing has changed since."""
        known = self.known.get(request.container)
        if known is None:
            return None
        asked, version, policy, rejected = known
        if (version, asked) == (self._ledger.version, request) and policy is self._ledger.policy:
            return rejected
        del self.known[request.container]
        return None

    def keep(self, request: Request, rejected: Rejected) -> None:
        """Remember a refusal by topology hints; the oldest one goes where there are too many."""
        # Not for want of room: an exit that is not noted yet, and so no new version, may have made some.
        if rejected.reason.code != ReasonCode.STRICT_TOPOLOGY:
            return
        self.known[request.container] = (request, self._ledger.version, self._ledger.policy, rejected)
        self.known.move_to_end(request.container)
        while len(self.known) > MOST_KEPT:
            self.known.popitem(last=False)


@dataclass(slots=True)
class _Named:
    """What the annotations of a pod name, what it has had, and when the last of these was created."""

    names: Set[str] = frozenset()
    had: set[str] = field(default_factory=set)
    at_seconds: float = 0.0
    is_reported: bool = False


class AbsentContainers:
    """Reports annotations that name containers which their pod never had; CRI tells which it has one by one.

    Nothing is said of a pod that is older than this process: which containers it had is not known.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods: dict[str, _Named] = {}

    def note(self, request: Request, named: Set[str]) -> None:
        """Note that this container of a pod is about to be created, whose annotations name these."""
        uid = request.container.pod_uid
        # Which containers of it an older process has seen is not known: they would be reported as absent.
        if not named or (uid not in self._pods and any(row.key.pod_uid == uid for row in self._context.ledger.rows())):
            return
        pod = self._pods.setdefault(uid, _Named())
        pod.names, pod.at_seconds = named, self._context.clock.monotonic_seconds()
        pod.had.add(request.container.name)

    def look(self) -> None:
        """Report a pod once, when it has had no new container for a while; forget pods whose sandbox has gone."""
        now_seconds, ledger = self._context.clock.monotonic_seconds(), self._context.ledger
        present = {sandbox.pod.uid for sandbox in ledger.sandboxes.values()}
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in present}
        for uid, pod in self._pods.items():
            absent, rows = sorted(pod.names - pod.had), ledger.of_pod(uid)
            if not absent or not rows or pod.is_reported or now_seconds - pod.at_seconds < SETTLED_SECONDS:
                continue
            pod.is_reported = True
            # A bound, as the pod's author chooses the names.
            names = ", ".join(absent[:MOST_NAMED]) + ", ..." * (len(absent) > MOST_NAMED)
            reason = f"annotations name {names}, and the pod has had no such container so far"
            self._context.journal.noted_of(rows[0], events.ANNOTATION_IGNORED, reason=reason)
            for row in rows:
                self._context.journal.records.happened(row, "annotation-ignored", reason)


def refusal_of(rejected: Rejected) -> Refusal:
    """Return the policy's refusal as its caller gets it."""
    return Refusal("strict" if rejected.reason.code.startswith("strict") else "full", rejected.reason.text)
