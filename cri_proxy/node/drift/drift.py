"""Check kernel cpusets: put back others' writes, leave what was set at creation or keeps recurring; report escapes.

CRI does not show it: the runtime reports its own record. A container whose kernel set differs twice in a row from what
the runtime has acknowledged, with no call about it in flight, is updated again. One that the runtime created
differently, or that was put back three times within an hour, is left to the manager that rewrites it. What comes of
runc's reversed masks (``runtime.runc``) is always put back.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cri_proxy import events
from cri_proxy.cri.read_status import Existing
from cri_proxy.cri.status_fields import info_of, number_in
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.context import Context
from cri_proxy.node.drift.cgroups import Cpusets, Enforced
from cri_proxy.node.drift.kubelet_state import KubeletManagers
from cri_proxy.node.drift.runc_scope import MisreadScopes
from cri_proxy.node.drift.runtime_affinity import Allowed, NarrowedContainers
from cri_proxy.node.drift.writes import Writes
from cri_proxy.node.effects import Effects
from cri_proxy.node.sync import runtime_state
from cri_proxy.node.sync.adoption import Adoption, LeftAlone
from cri_proxy.state.rows import Row
from cri_proxy.tasks import each_of
from policies.base import CpuKind, Pinning
from sysfs.cpuset import CpuSet
from sysfs.model import Machine

REPAIRS = 3
WINDOW_SECONDS = 3600.0
# Containers whose pid is asked for at the same time. After a start that is all of them, and the runtime answers others,
# which decisions wait for, meanwhile.
AT_ONCE = 8
# How often the option is read while the check is off.
OFF_SECONDS = 60.0
# Between the first write and the look at all that were written: systemd writes the scopes one after another.
SETTLE_SECONDS = 0.2
# After a look until the next one: a program that writes all the time must not keep the daemon busy.
PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DriftProbes:
    """How to read the kernel's cpusets and the kubelet's state files, and how often (seconds; 0 = never).

    ``writes`` makes what reports writes to cpusets at once, to the function that it gets; None = nothing does.
    ``allowed`` reads the affinities of a process and its parent.
    """

    cpusets: Cpusets
    managers: Callable[[], Awaitable[KubeletManagers]]
    period_seconds: Callable[[], float]
    writes: Callable[[Callable[[str], None]], Writes] | None = None
    allowed: Callable[[int], Allowed | None] = lambda pid: None


class Drift:
    """Compares the kernel with the ledger."""

    def __init__(self, context: Context, effects: Effects, adoption: Adoption, probes: DriftProbes) -> None:
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._adoption = adoption
        self._probes = probes
        self._pids: dict[str, int] = {}
        self._repaired: dict[str, deque[float]] = {}
        self._left: dict[str, str] = {}
        self._escaped: dict[str, tuple[str, CpuSet]] = {}  # the warning, and the CPUs that its processes run on
        self._writes = None if probes.writes is None else probes.writes(self._note_write)
        self._written: set[str] = set()
        self._looked_at: set[str] = set()  # as soon as they ran: from then on followed, or left to the whole checks
        self._woken = asyncio.Event()
        self.misread = MisreadScopes(context)
        self.narrowed = NarrowedContainers(context, probes.allowed)
        if self._writes is not None:
            context.signals.ledger_changed.connect(self._woken.set)  # a container may have started

    async def watch(self) -> None:
        """Check as often as the operator configured, until cancelled."""
        while True:
            period = self._probes.period_seconds()
            await self._context.clock.sleep(period or OFF_SECONDS)
            if period:
                await self.check()

    async def follow(self) -> None:
        """Check each container now or once it runs, and again as soon as its cpuset was written, until cancelled."""
        self._woken.set()
        while self._writes is not None:
            await self._woken.wait()
            await self._context.clock.sleep(SETTLE_SECONDS)
            self._woken.clear()
            if self._probes.period_seconds():
                await self._check_written()
            await self._context.clock.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        """Follow no writes any more."""
        if self._writes is not None:
            self._writes.close()

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each container that another manager or the kernel has moved, by pod and container."""
        texts = {**self._left, **{container_id: text for container_id, (text, _) in self._escaped.items()}}
        rows = ((self._ledger.holder(container_id), text) for container_id, text in texts.items())
        named = sorted(f"{row.name}: {text}" for row, text in rows if row is not None)
        problem = self._writes.problem if self._writes is not None else ""
        late = f"cpusets that others write are found by polling only: {problem}"
        return (*self.misread.warnings(), *self.narrowed.warnings(), *named, *((late,) if problem else ()))

    def left(self) -> tuple[LeftAlone, ...]:
        """Return the containers that were left to another manager with the CPUs they were found on, by name."""
        rows = (self._ledger.holder(container_id) for container_id in self._left)
        there = (LeftAlone(str(row.name), row.known.cpus) for row in rows if row is not None)
        return tuple(sorted(there, key=lambda left: left.name))

    def escaped(self) -> tuple[LeftAlone, ...]:
        """Return the containers that the kernel has moved out of their cgroup with the CPUs they run on, by name."""
        rows = ((self._ledger.holder(container_id), cpus) for container_id, (_, cpus) in self._escaped.items())
        there = (LeftAlone(str(row.name), cpus) for row, cpus in rows if row is not None)
        return tuple(sorted(there, key=lambda left: left.name))

    async def check(self) -> None:
        """Compare every pinned container once, and those that differ again under their lock."""
        self._forget_gone()
        await self._compare([row for row in self._ledger.active() if self._is_to_be_checked(row)])

    async def _check_written(self) -> None:
        """Compare the containers that were written and those not looked at yet; those with a call under way later."""
        written, self._written = self._written, set()
        running = [row for row in self._ledger.active() if row.state == "running"]
        due = [row for row in running if row.container_id in written or row.container_id not in self._looked_at]
        busy = [row.container_id for row in due if self._effects.is_busy(row.key)]
        self._forget_gone()
        await self._compare([row for row in due if self._is_to_be_checked(row)])
        if busy:
            self._written |= written & set(busy)
            self._woken.set()

    def _note_write(self, container_id: str) -> None:
        self._written.add(container_id)
        self._woken.set()

    def _follow(self, row: Row, enforced: Enforced) -> None:
        """Follow writes to the cpuset from now on; look once more, as it may have been written before."""
        if self._writes is None or enforced.directory is None:
            return
        self._looked_at.add(row.container_id)
        if self._writes.follow(row.container_id, enforced.directory):
            self._note_write(row.container_id)

    async def _compare(self, rows: Sequence[Row]) -> None:
        """Compare these containers once, and those that differ again under their lock."""
        # After a start all are asked for, AT_ONCE at a time: what has just been created is not looked at last.
        newest_first = sorted(rows, key=lambda row: -row.created_order)
        await each_of(newest_first, self._learn_pid, at_once=AT_ONCE)
        known = [(row, pid) for row in rows if (pid := self._pids.get(row.container_id))]
        agreeing = []
        for (row, pid), enforced in zip(known, await asyncio.to_thread(self._read, known), strict=True):
            self._note_escape(row, enforced)
            if enforced is None:
                self._set_aside(row)
                continue
            if enforced.has_escaped:
                continue  # an update would change a cgroup that is empty
            self._follow(row, enforced)
            self.misread.note(row, enforced)
            if not self._agrees(row, enforced):
                await self._look_again(row)
            else:  # created as decided: a later difference was not made at the creation
                self._effects.untouched.discard(row.container_id)
                agreeing.append((row, pid))
        await self.narrowed.look(agreeing)

    def _note_escape(self, row: Row, enforced: Enforced | None) -> None:
        if enforced is None or not enforced.has_escaped:
            self._escaped.pop(row.container_id, None)
            return
        text = (
            f"its processes run on CPUs {enforced.cpus}, outside its cgroup: cgroup v1 moves them to {enforced.path} "
            "when all CPUs of a container go offline. Restart the container to have it on its own CPUs again"
        )
        if row.container_id not in self._escaped:
            self._context.journal.noted_of(row, events.ESCAPED, reason=text)
            self._context.journal.records.happened(row, "escaped", text)
        self._escaped[row.container_id] = (text, enforced.cpus)

    async def _look_again(self, row: Row) -> None:
        """Compare again under the container's lock: no call to the runtime about it is under way.

        One that is under way may never end: then the next check looks again, and the other containers do not wait.
        """
        if self._effects.is_busy(row.key):
            return
        async with self._effects.lock(row.key):
            pid = self._pids.get(row.container_id, 0)
            # Again under the lock: what was read before may be of an update that has ended since.
            (enforced,) = await asyncio.to_thread(self._read, [(row, pid)])
            found, managers = await self._inspect(row), await self._probes.managers()
            current = self._ledger.holder(row.container_id)
            if current is None or enforced is None or found is None or not self._is_to_be_checked(current, alone=True):
                return
            if not enforced.has_escaped and not self._agrees(current, enforced):
                self._repair_or_leave(current, enforced, found, managers)
        self._effects.schedule()

    def _repair_or_leave(self, row: Row, enforced: Enforced, found: Existing, managers: KubeletManagers) -> None:
        known = row.acknowledged
        recorded = {cpus for cpus in (found.cpus, found.spec_cpus) if cpus is not None}
        differs = known is not None and any(cpus != known.cpus for cpus in recorded)
        writer = likely_writer(enforced, self._machine, managers, runtime_differs=differs)
        seen = (row, enforced, self._online(enforced), self._machine.memory_nodes)
        # Before the count of repairs: the fourth daemon-reload within an hour would pass for another manager.
        if not differs and self.misread.has_happened(*seen):
            self.misread.put_back(*seen)
            self._put_back(row, enforced)
        elif differs and row.container_id in self._effects.untouched:
            # No update since the creation: the runtime made it with another set than it was asked for, as after NRI.
            self._leave(row, enforced, f"the runtime gave it CPUs {enforced.cpus} when it was created: {writer}")
        elif len(self._repaired_lately(row.container_id)) >= REPAIRS:
            self._leave(row, enforced, f"put back {REPAIRS} times within an hour, again on {enforced.cpus}: {writer}")
        else:
            self._count_repair(row, enforced, writer)
            self._put_back(row, enforced)

    def _count_repair(self, row: Row, enforced: Enforced, writer: str) -> None:
        """Log and count it: what recurs is given up."""
        self._repaired_lately(row.container_id).append(self._context.clock.monotonic_seconds())
        self._context.journal.noted_of(
            row, events.DRIFTED, cpus=str(enforced.cpus), mems=str(enforced.mems), was=str(row.known.cpus), by=writer
        )
        self._context.journal.records.happened(row, "drifted", f"it was on CPUs {enforced.cpus}, put back: {writer}")

    def _put_back(self, row: Row, enforced: Enforced) -> None:
        """Schedule its update; until that is confirmed it may be on the recorded and on the found CPUs."""
        has_cpus, has_mems = self._agrees_by_field(row, enforced)
        self._ledger.mark_unconfirmed(
            row.key, Pinning(None if has_cpus else enforced.cpus, None if has_mems else enforced.mems or row.known.mems)
        )

    def _leave(self, row: Row, enforced: Enforced, text: str) -> None:
        """Leave it to the other manager: not updated any more, its CPUs withheld from exclusive use."""
        text = f"left alone, because another manager pins it: {text}"
        self._left[row.container_id] = text
        self._context.journal.noted_of(row, events.LEFT_TO_ANOTHER, reason=text)
        self._context.journal.records.happened(row, "left-to-another", text)
        # On record as found: ``left`` names these CPUs.
        self._ledger.confirm(row.key, Pinning(enforced.cpus, enforced.mems or None))
        self._ledger.leave_to_another(row.container_id, enforced.cpus)

    @property
    def _machine(self) -> Machine:
        return self._ledger.policy.machine

    def _is_to_be_checked(self, row: Row, *, alone: bool = False) -> bool:
        """Return whether it runs on CPUs that we wrote, and no call but ours (``alone``) about it is under way."""
        wanted = self._ledger.desired().get(row.key)
        if row.state != "running" or row.grant.kind is CpuKind.PRESERVE or wanted is None or wanted.cpus is None:
            return False
        if row.acknowledged is None or row.acknowledged.cpus is None:
            return False
        # An update without a known outcome is sent again anyway, and may well differ until then.
        is_unconfirmed = self._ledger.unconfirmed(row.key) != Pinning(None, None)
        return not is_unconfirmed and (alone or not self._effects.is_busy(row.key))

    def _agrees(self, row: Row, enforced: Enforced) -> bool:
        return self._agrees_by_field(row, enforced) == (True, True)

    def _agrees_by_field(self, row: Row, enforced: Enforced) -> tuple[bool, bool]:
        """Return whether CPUs and memory nodes are as acknowledged; offline ones do not count, as v1 drops them."""
        known = row.acknowledged
        if known is None or known.cpus is None:
            return True, True
        online, nodes = self._online(enforced), self._machine.memory_nodes
        same_cpus = enforced.cpus & online == known.cpus & online
        same_mems = known.mems is None or not enforced.mems or enforced.mems & nodes == known.mems & nodes
        return same_cpus, same_mems

    def _online(self, enforced: Enforced) -> CpuSet:
        """Return the CPUs that are online; one may have gone since the machine was discovered."""
        return self._machine.online if enforced.online is None else self._machine.online & enforced.online

    def _read(self, known: Sequence[tuple[Row, int]]) -> list[Enforced | None]:
        return [self._probes.cpusets.enforced(pid, row.container_id) for row, pid in known]

    async def _learn_pid(self, row: Row) -> None:
        """Ask the runtime for the pid, once; it holds as long as its cgroup has the container's id."""
        if row.container_id not in self._pids:
            try:
                status = await runtime_state.container_status(self._context.channel, row.container_id)
            except (CallFailed, RuntimeUnavailable):
                return  # gone, or the runtime is away: the next check tries again
            if pid := number_in(info_of(status.info), "pid"):
                self._pids[row.container_id] = pid
            else:
                self._set_aside(row)

    def _set_aside(self, row: Row) -> None:
        """Leave a container whose cgroup is unknown to the next whole check: it was looked at as soon as it ran."""
        self._pids.pop(row.container_id, None)
        self._looked_at.add(row.container_id)

    async def _inspect(self, row: Row) -> Existing | None:
        try:
            return await self._adoption.inspect(row.container_id)
        except (CallFailed, RuntimeUnavailable):
            return None

    def _repaired_lately(self, container_id: str) -> deque[float]:
        times = self._repaired.setdefault(container_id, deque())
        while times and times[0] < self._context.clock.monotonic_seconds() - WINDOW_SECONDS:
            times.popleft()
        return times

    def _forget_gone(self) -> None:
        live = {row.container_id for row in self._ledger.active()}
        for memory in (self._pids, self._repaired, self._left, self._escaped):
            for container_id in memory.keys() - live:
                del memory[container_id]
        self._looked_at &= live
        self.misread.keep(live)
        self.narrowed.keep(live)
        if self._writes is not None:
            self._writes.keep(live)


def likely_writer(enforced: Enforced, machine: Machine, managers: KubeletManagers, *, runtime_differs: bool) -> str:
    """Name the likely writer of a cpuset with the evidence: a guess (pure).

    ``runtime_differs``: the runtime's own record changed too.
    """
    everywhere = enforced.inherits_cpus or machine.online <= enforced.cpus
    if runtime_differs:
        return "the runtime's own record has the same, as after an NRI plugin or another client (crictl update)"
    if managers.cpu_policy.lower() not in ("", "none") and enforced.cpus in managers.sets:
        return f"likely the kubelet's CPU manager (policy {managers.cpu_policy}): the same set is in its state file"
    if everywhere and enforced.is_systemd_scope:
        return "likely systemd: its scope unit has no CPUs set, and a daemon-reload writes the unit's values"
    if everywhere:
        return "the set was cleared; the runtime's record is unchanged, so the cgroup was written directly"
    return "the cgroup's files were written directly; neither the runtime nor the kubelet has this set on record"
