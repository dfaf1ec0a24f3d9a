"""Apply the policy's decisions to the ledger: reserve, commit, roll back, resize, release; also readiness and fallback.

Every method decides and changes the ledger without an ``await`` in between; the store and the runtime come after.
Only the container's own lock is held across a call to the runtime.
"""

import asyncio
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from cri_proxy import events
from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.read import without_refused
from cri_proxy.errors import CriProxyError
from cri_proxy.node.context import Context
from cri_proxy.node.decision_log.summary import Circumstances
from cri_proxy.node.effects import Effects
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.ledger.pod_devices import handed_on
from cri_proxy.node.ledger.restore_rows import rows_as_before
from cri_proxy.state.rows import DisplacedGrant, GonePod, Row
from policies.base import Allocations, ContainerKey, Decision, Grant, Pinning, Placed, Rejected, Request
from policies.device_grants import DeviceGrant, device_words, with_given
from policies.devices import EMPTY_INVENTORY, DeviceInventory
from sysfs.cpuset import CpuSet

CALLER_LEFT = "the caller left before the runtime was asked"
RefusalKind = Literal["full", "strict", "annotation", "cdi", "store", "update", "not-ready"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a container is refused: the kind, and the sentence that its owner reads."""

    kind: RefusalKind
    text: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """A grant that is held while the runtime creates or resizes the container.

    ``before`` are the rows as they were, for a roll back: the container's own earlier row and those moved for it.
    ``devices`` is the inventory that the decision was made with: a reload until the runtime is asked changes nothing.
    ``pinning`` is what a new container is created with: the decision's, less CPUs that it gets once it runs.
    """

    row: Row
    before: tuple[Row, ...]
    decision: Placed
    circumstances: Circumstances = field(default_factory=Circumstances)
    devices: DeviceInventory = EMPTY_INVENTORY
    pinning: Pinning = field(default_factory=Pinning)


class NotRecovered(CriProxyError):
    """Nothing can be decided: an internal error keeps the saved state from being restored; it is tried again."""

    def __str__(self) -> str:
        return f"the saved placements could not be restored: {self.problem}"


class Coordinator:
    """Changes the ledger."""

    def __init__(self, context: Context, effects: Effects, config: Config) -> None:
        """Not ready until ``open`` is called, after the saved state was compared with the runtime."""
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._ready = asyncio.Event()
        self._fallback = Pinning()
        self.is_ready = False  # decisions are made: the saved state has been compared with the runtime
        self.fault = ""  # the internal error that keeps the saved state from being restored
        self.config = config  # in force, replaced by a reload
        context.ledger.starts.all_shared = self._shared_if_part
        self.config_warnings: tuple[str, ...] = ()  # sentences about it and the machine
        context.signals.container_ended.connect(self.release)

    def open(self) -> None:
        """Start to decide."""
        self.update_fallback()
        self.is_ready, self.fault = True, ""
        self._ready.set()

    def cannot_open(self, fault: str) -> None:
        """Note that an internal error keeps the saved state from being restored: until ``open`` calls do not wait."""
        self.fault = fault
        self._ready.set()

    async def wait_ready(self) -> None:
        """Wait until decisions are made; a caller's deadline cancels this. Raises NotRecovered."""
        await self._ready.wait()
        if self.fault:
            raise NotRecovered(self.fault)

    @property
    def fallback(self) -> Pinning:
        """The root's shared set and memory nodes of the last good snapshot, for when deciding fails.

        CPUs that were granted exclusively since are left out as long as any others remain.
        """
        known = self._fallback
        if known.cpus is None:
            return known
        owned = CpuSet.of_masks([g.exclusive.mask | g.isolated.mask for g in self._ledger.allocations.grants])
        return replace(known, cpus=(known.cpus - owned) or known.cpus)

    def update_fallback(self) -> None:
        """Take the present snapshot as the last good one."""
        self._fallback = self._ledger.policy.fallback(self._ledger.allocations)

    def _shared_if_part(self) -> CpuSet | None:
        # Less what has an owner since: beside one that is being created, or has grown, others have no more than these.
        return self.fallback.cpus if self.config.sharers_start_on == "part" else None

    def decide_and_reserve(
        self, request: Request, sandbox_id: str, *, is_last_try: bool = True
    ) -> Reservation | Rejected:
        """Decide and take the place at once; the caller saves it (``save_reservation``).

        Only the last try lets a container in for which there is no room.
        """
        # No await between the decision and the ledger's change: nothing else can be decided in between. The request may
        # have been read before a reload that restricts its wishes.
        rules = self.config.annotation_rules
        request, _ = without_refused(request, rules) if rules.restricted else (request, "")
        earlier = self._ledger.get(request.container)
        if earlier is not None:
            request = replace(request, previous=earlier.grant.as_previous)
        decision = self.decide(self._ledger.allocations, request, is_last_try=is_last_try)
        if isinstance(decision, Rejected):
            return decision
        moved = self._ledger.grants_with(decision.moved)
        displaced = tuple(r for m in moved if (r := self._ledger.get(m.key)) is not None)
        circumstances = self._circumstances()
        order, former = self._ledger.next_order(), tuple(DisplacedGrant(r.grant, r.created_order) for r in displaced)
        row = Row(decision.grant, sandbox_id, "", "reserved", acknowledged=None, created_order=order, displaced=former)
        self._ledger.put(row, *moved)
        before = displaced if earlier is None else (earlier, *displaced)
        policy, pinning = self._ledger.policy, decision.pinning
        if pinning.cpus is not None:
            self._effects.calls.look_for_starts()  # that one hangs is a matter of time, of which no event tells
            spared = self._ledger.starts.spared(row, pinning.cpus, policy.machine)
            pinning = replace(pinning, cpus=pinning.cpus - spared)
        return Reservation(row, before, decision, circumstances, policy.devices, pinning)

    async def save_reservation(self, reservation: Reservation) -> bool:
        """Make the place and those of the containers that were moved for it durable; False when the store failed."""
        moved = self._ledger.grants_with(reservation.decision.moved)
        return await self._context.persistence.save([reservation.row, *moved])

    def report(
        self,
        request: Request,
        decision: Decision,
        *,
        circumstances: Circumstances | None = None,
        problems: tuple[str, ...] = (),
        seconds: float = 0.0,
    ) -> None:
        """Report a decision and the defaults that applied; without ``circumstances`` it changed nothing."""
        before = circumstances or self._circumstances()
        policy = self._ledger.policy
        complete = replace(
            before,
            defaults=policy.defaults(request),
            affinity_reasons=lambda: policy.affinity_reasons(before.held, request),
        )
        self._context.journal.decided(request, decision, problems=problems, seconds=seconds, circumstances=complete)

    def _circumstances(self, row: Row | None = None) -> Circumstances:
        """Return the present state, before a decision changes it; ``row`` is the live container that is re-decided."""
        return Circumstances(row, self._ledger.allocations, self._ledger.desired())

    def commit(self, reservation: Reservation, container_id: str, written: Pinning) -> None:
        """Record that the runtime created the container under this id, with ``written`` as its pinning."""
        current = self._current(reservation)
        if current is None:
            return  # a newer attempt of the same name has the place
        created = replace(current, container_id=container_id, state="created", acknowledged=written, displaced=())
        rows = created, *handed_on(created, reservation.before, self._ledger.rows(), self._ledger.policy.known)
        self._ledger.put(*rows)
        self._ledger.confirm(created.key, written)
        self._effects.untouched.add(container_id)
        self._context.persistence.save_later(rows)
        self.update_fallback()
        self._effects.schedule()
        self._context.journal.carried_out(created)

    def roll_back(self, reservation: Reservation, why: str, *, code: str = "runtime-refused") -> None:
        """Restore everything because the runtime did not create the container. See ``Journal.not_created``."""
        if self._current(reservation) is None:
            return
        key = reservation.row.key
        self._ledger.drop(key)
        restored = self._restore(reservation.before, key)
        own = [row for row in restored if row.key == key]  # its earlier attempt
        self._context.persistence.save_later(restored, [] if own else [key])
        self._context.journal.not_created(reservation.row, why, code=code)
        self._effects.schedule()
        self._context.signals.room_freed.send()

    def roll_back_unsent(self, reservation: Reservation, error: BaseException) -> None:
        """Restore everything after an error before the first byte to the runtime: a definite outcome."""
        if isinstance(error, asyncio.CancelledError):
            self.roll_back(reservation, CALLER_LEFT, code="caller-left")
        else:
            self.roll_back(reservation, f"a fault of the proxy: {error!r}", code="fault")

    def undo_displacement(self, row: Row) -> tuple[Row, ...]:
        """Move containers back that were moved for one that was never created, as a roll back does.

        Return the rows that changed, for the caller to save and send; none where others need the room by now.
        """
        if not row.displaced:
            return ()
        there = ((d, self._ledger.get(d.grant.container)) for d in row.displaced)
        before = (replace(r, grant=d.grant, created_order=d.created_order) for d, r in there if r is not None)
        return self._restore(tuple(before), row.key)

    def leave_pending(self, reservation: Reservation) -> None:
        """Hold the place until the runtime has been asked whether it created the container."""
        current = self._current(reservation)
        if current is None:
            return
        pending = replace(current, state="pending")
        self._ledger.put(pending)
        self._context.persistence.save_later([pending])

    def set_state(self, row: Row, state: Literal["created", "running"]) -> None:
        """Record the container's state as the runtime reports it."""
        current = self._ledger.get(row.key)
        if current is None or current.container_id != row.container_id or current.state == state:
            return
        if current.state in ACTIVE:
            changed = replace(current, state=state)
            # A cold start is as long as asked for from when the container runs, and a restart does not prolong it.
            if state == "running" and changed.grant.is_cold and changed.warm_at_seconds is None:
                lasts_seconds = changed.grant.request.preferences.cold_start_seconds
                changed = replace(changed, warm_at_seconds=self._context.clock.now_seconds() + lasts_seconds)
                self._context.signals.cold_start_began.set()
            self._ledger.put(changed)
            self._context.persistence.save_later([changed])

    def release(self, row: Row, why: str) -> None:
        """Free what the container holds; where it was is kept until its sandbox is removed. Idempotent."""
        current = self._ledger.get(row.key)
        if current is None or current.container_id != row.container_id or current.state not in ACTIVE:
            return
        if current.state == "reserved":
            return  # its creation is under way: the reply to that call decides
        remembered = replace(current, state="exited", acknowledged=None, unconfirmed=None, displaced=())
        self._ledger.put(remembered)
        self._context.persistence.save_later([remembered])
        self._context.journal.released(current, why)
        self._effects.forget(current.key)
        self.update_fallback()
        self._effects.schedule()
        self._context.signals.room_freed.send()

    def stop_sandbox(self, sandbox_id: str, why: str) -> tuple[Row, ...]:
        """Free everything in a sandbox that has stopped, also devices that were kept for its pod; return the rows."""
        rows = self._ledger.of_sandbox(sandbox_id)
        for row in rows:
            self.release(row, why)
        self._ledger.note_stopped([sandbox_id])
        return rows

    def forget_sandbox(self, sandbox_id: str, why: str) -> None:
        """Free and remove everything in a sandbox that is removed."""
        rows = self.stop_sandbox(sandbox_id, why)
        self._ledger.drop(*(row.key for row in rows))
        sandbox = self._ledger.sandboxes.pop(sandbox_id, None)
        self._effects.starts_ended_in(sandbox_id)
        self._context.journal.records.forgotten([row.key for row in rows])
        pods = {row.key.pod_uid for row in rows} | ({sandbox.pod.uid} if sandbox is not None else set())
        self._context.persistence.save_later([], [sandbox_id, *(row.key for row in rows), *self.forget_pods(pods)])

    def forget_pods(self, uids: Set[str]) -> tuple[GonePod, ...]:
        """Forget the decisions about those of these pods without a sandbox or container; return them, to be deleted."""
        left = {row.key.pod_uid for row in self._ledger.rows()}
        left |= {sandbox.pod.uid for sandbox in self._ledger.sandboxes.values()}
        self._context.journal.records.pods_gone(uids - left)
        return tuple(GonePod(uid) for uid in sorted(uids - left))

    def resize(self, row: Row, request: Request, *, is_last_try: bool = True) -> Reservation | Rejected:
        """Re-plan a container in place for a changed request; ``roll_back_resize`` undoes it.

        Only the last try reports a refusal, or lets the container share where there is no room.
        """
        wanted = replace(request, previous=row.grant.as_running)
        return self._replan(row, wanted, is_last_try=is_last_try)

    def resize_pod(self, row: Row, request: Request) -> None:
        """Re-plan what containers of a pod share, of which ``row`` is one; without room they keep what they have."""
        decision = self._ledger.policy.decide(self._ledger.allocations, replace(request, previous=row.grant.as_running))
        if isinstance(decision, Placed) and decision.grant.share != row.grant.share:
            self.regrant((decision.grant, *decision.moved), "its pod was resized")

    def place_elsewhere(self, row: Row, without: CpuSet, *, is_last_try: bool = True) -> Reservation | Rejected:
        """Place a created container again, without CPUs that others could not be moved from.

        The last try reports a refusal.
        """
        # Its devices stay: its environment names them since it was created.
        wanted = replace(row.grant.request, previous=row.grant.as_elsewhere)
        replaced = self._replan(row, wanted, withheld=without, is_last_try=is_last_try)
        if isinstance(replaced, Reservation):
            self._context.journal.carried_out(replaced.row)
        return replaced

    def roll_back_resize(self, reservation: Reservation, why: str = "it was not carried out") -> None:
        """Go back to the old size, where that is still free."""
        self._context.journal.not_resized(reservation.row, why)
        restored = self._restore(reservation.before, reservation.row.key)
        self._context.persistence.save_later(restored)
        self._effects.schedule()
        self._context.signals.room_freed.send()

    def regrant(self, grants: Iterable[Grant], why: str, *, came_home: bool = False) -> tuple[Row, ...]:
        """Change the grants of live containers without a request of theirs; return the rows that changed.

        ``came_home``: to the place that a fresh decision would choose. The grants were computed from the ledger as it
        is: no ``await`` may lie between.
        """
        changed = []
        for row in self._ledger.grants_with(grants):
            before = self._ledger.get(row.key)
            if before is not None and before.state in ACTIVE and before.grant != row.grant:
                changed.append(row)
                self._context.journal.changed(before.grant, row.grant, why, came_home=came_home)
        if changed:
            self._ledger.put(*changed)
            self._context.persistence.save_later(changed)
            self.update_fallback()
            self._effects.schedule()
        return tuple(changed)

    def learn_devices(self, row: Row, devices: tuple[DeviceGrant, ...]) -> None:
        """Let a live container hold devices that it has, and of which nothing was known when it was created."""
        request = replace(row.grant.request, given=with_given(row.grant.request.given, devices))
        grant = replace(row.grant, request=request, devices=with_given(row.grant.devices, devices))
        learned = replace(row, grant=grant)
        self._ledger.put(learned)
        self._context.persistence.save_later([learned])
        self._context.journal.noted_of(learned, events.DEVICES_LEARNED, devices=", ".join(device_words(devices)))

    def refused_pod(self, request: Request) -> Rejected | None:
        """Return why no container of a pod with these sums could be placed now."""
        return self._ledger.policy.refused_pod(self._ledger.allocations, request)

    def decide(self, held: Allocations, request: Request, *, is_last_try: bool) -> Decision:
        """Return the policy's decision; at the last try ``onShortage`` may admit it without room."""
        decision = self._ledger.policy.decide(held, request)
        if isinstance(decision, Rejected) and is_last_try and self.config.on_shortage == "admit":
            return self._ledger.policy.overcommitted(held, request, decision)
        return decision

    def _replan(
        self, row: Row, request: Request, *, withheld: CpuSet = CpuSet(), is_last_try: bool = True
    ) -> Reservation | Rejected:
        """Decide again for a container that the runtime already has, and take the new grant at once."""
        held = self._ledger.allocations
        started = self._context.clock.monotonic_seconds()
        held = replace(held, withheld=held.withheld | withheld)
        decision = self.decide(held, request, is_last_try=is_last_try)
        seconds = self._context.clock.monotonic_seconds() - started
        moved = self._ledger.grants_with(decision.moved) if isinstance(decision, Placed) else ()
        before = (row, *(r for m in moved if (r := self._ledger.get(m.key)) is not None))
        circumstances = self._circumstances(row)
        # A refusal that is followed by another try would be counted twice.
        if is_last_try or not isinstance(decision, Rejected):
            self.report(request, decision, circumstances=circumstances, seconds=seconds)
        if isinstance(decision, Rejected):
            return decision
        regranted = replace(row, grant=decision.grant)
        self._ledger.put(regranted, *moved)
        self._context.persistence.save_later([regranted, *moved])
        return Reservation(regranted, before, decision, circumstances)

    def _current(self, reservation: Reservation) -> Row | None:
        """Return the reservation's row as it is now; None when a newer attempt has replaced it."""
        row = self._ledger.get(reservation.row.key)
        return row if row is not None and row.created_order == reservation.row.created_order else None

    def _restore(self, before: tuple[Row, ...], own: ContainerKey) -> tuple[Row, ...]:
        """Put rows back as they were if that is still legal, else keep the present ones without an own earlier row."""
        rows = rows_as_before(self._ledger, before, own)
        self._ledger.put(*rows)
        return rows


class Part:
    """A part of the node above the coordinator."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        self._context, self._ledger = context, context.ledger
        self._effects, self._coordinator = effects, coordinator
