"""Placement state in memory: rows, grants, confirmed pinnings; which update may be sent, and what blocks it. No I/O.

Used on the event loop only, never across an ``await``: that is the lock (docs/adr/0002). Policies get frozen snapshots;
the version shows whether a snapshot is still current.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace

from cri_proxy.node.ledger.confirmed_cpus import ConfirmedCpus
from cri_proxy.node.ledger.ordered_rows import ACTIVE, OrderedRows
from cri_proxy.node.ledger.pod_devices import kept
from cri_proxy.node.ledger.start_calls import StartCalls
from cri_proxy.signals import Signal
from cri_proxy.state.rows import Row, SandboxRow
from policies.base import Allocations, ContainerKey, CpuKind, Grant, Pinning
from policies.device_grants import DeviceHolding
from policies.policy import Policy
from sysfs.cpuset import CpuSet

__all__ = ["ACTIVE", "Ledger", "full_id"]


class Ledger:
    """Rows by container, their index by container id, and the snapshot that policies see."""

    def __init__(self, policy: Policy, changed: Signal[[]] | None = None) -> None:
        """Start empty. ``changed`` is sent after every change of a grant or of a confirmed pinning."""
        self.policy = policy  # whose grants these are; ``use_policy`` replaces it
        self._signal = changed or Signal()
        self._rows = OrderedRows()
        self._keys_by_id: dict[str, ContainerKey] = {}
        self._confirmed = ConfirmedCpus()
        self._aside: set[ContainerKey] = set()
        self._left_to_others: dict[str, CpuSet] = {}
        self._foreign: dict[str, CpuSet] = {}
        self._left_alone: tuple[DeviceHolding, ...] = ()
        self.stopped: frozenset[str] = frozenset()  # sandboxes, none of which starts again
        # A frozen snapshot of all grants that count, and of the CPUs withheld from exclusive use.
        self.allocations = Allocations()
        self._desired: Mapping[ContainerKey, Pinning] = {}
        self._is_desired_known = False
        self._maybe_unmet: set[ContainerKey] = set()  # every unmet container is among them or among the changed rows
        self._next_order = 0
        self.starts = StartCalls()
        self.sandboxes: dict[str, SandboxRow] = {}
        self.version = 0

    def copy(self) -> "Ledger":
        """Return a ledger in the same state, to try something on; it sends no signal."""
        other = copy(self)
        other._signal = Signal()
        other._rows, other._confirmed, other.starts = self._rows.copy(), self._confirmed.copy(), self.starts.copy()
        other._keys_by_id, other.sandboxes = dict(self._keys_by_id), dict(self.sandboxes)
        other._aside, other._foreign = set(self._aside), dict(self._foreign)
        other._left_to_others, other._maybe_unmet = dict(self._left_to_others), set(self._maybe_unmet)
        return other

    def use_policy(self, policy: Policy, allocations: Allocations) -> tuple[Row, ...]:
        """Switch to another policy (new options or machine) with these grants; return the rows that changed."""
        self.policy, self._is_desired_known = policy, False
        self._changed()
        rows = self.grants_with(allocations.grants)
        changed = tuple(row for row in rows if row.grant != self._rows[row.key].grant)
        self.put(*changed)
        return changed

    def rows(self) -> Iterator[Row]:
        """Return every row, by container."""
        return iter(self._rows.ordered())

    def active(self) -> tuple[Row, ...]:
        """Return the rows whose grant counts, by container: the same tuple until a row changes."""
        return self._rows.active()

    def get(self, key: ContainerKey) -> Row | None:
        """Return the row of this container, whatever its state."""
        return self._rows.get(key)

    def holder(self, container_id: str) -> Row | None:
        """Return the row whose *current* container id this is: an old attempt's id finds nothing."""
        key = self._keys_by_id.get(container_id)
        return self._rows.get(key) if key is not None else None

    def full_id(self, container_id: str) -> str:
        """Return the id that this stands for: containerd accepts unambiguous prefixes of ids, and people type them."""
        return full_id(container_id, self._keys_by_id)

    def full_sandbox_id(self, sandbox_id: str) -> str:
        """Return the sandbox id that this stands for."""
        return full_id(sandbox_id, self.sandboxes)

    def next_order(self) -> int:
        """Return a number for a new row: rows sort by it in the order of their creation."""
        self._next_order += 1
        return self._next_order

    def put(self, *rows: Row) -> None:
        """Add or replace rows."""
        for row in rows:
            key = row.grant.container
            old = self._rows.put(row)
            if old is not None:
                self._keys_by_id.pop(old.container_id, None)
            if row.container_id:
                self._keys_by_id[row.container_id] = key
            if row.state not in ACTIVE or row.acknowledged is None:
                self._confirmed.forget(key)
            if row.state in ACTIVE:
                self._confirmed.note_grant(row)
            if row.state not in ACTIVE:
                self._aside.discard(key)
                self._left_to_others.pop(row.container_id, None)
            self._next_order = max(self._next_order, row.created_order)
        if rows:
            self._changed()

    def drop(self, *keys: ContainerKey) -> None:
        """Remove these rows; unknown ones are no error."""
        for key in keys:
            row = self._rows.drop(key)
            if row is not None:
                self._keys_by_id.pop(row.container_id, None)
                self._confirmed.forget(key)
                self._aside.discard(key)
                self._left_to_others.pop(row.container_id, None)
        self._changed()

    def confirm(self, key: ContainerKey, pinning: Pinning) -> Row | None:
        """Record that the runtime confirmed this pinning; return the row if it is active."""
        row = self._rows.get(key)
        if row is None or row.state not in ACTIVE:
            return None
        confirmed = row.after(pinning)
        self._rows.put(confirmed)
        self._signal.send()
        if confirmed.known.cpus is not None:
            self._confirmed.note_confirmed(confirmed, row.acknowledged, self._live())
            self._confirmed.settle(self._live())
        if row.grant.kind is CpuKind.PRESERVE:
            self._changed()  # the CPUs that it brought along are withheld
        return confirmed

    def mark_unconfirmed(self, key: ContainerKey, sent: Pinning) -> None:
        """Record an update without a known outcome: until the next answer the container may be on both sets."""
        row = self._rows.get(key)
        if row is not None and row.state in ACTIVE:
            self._rows.put(row.after_unknown(sent))

    def note_taken(self, row: Row, sent: Pinning) -> Row | None:
        """Record an update that the runtime took during a presumed start; return the row if that has not ended."""
        taken = self.starts.take_update(self.holder(row.container_id), sent)
        if taken is not None:
            self._rows.put(taken)
            self._signal.send()
        return taken

    def unconfirmed(self, key: ContainerKey) -> Pinning:
        """Return the sets that were last sent without a known outcome; a field is None where the outcome is known."""
        row = self._rows.get(key)
        return row.unconfirmed if row is not None and row.unconfirmed is not None else Pinning()

    def note_foreign(self, cpus_by_container_id: Mapping[str, CpuSet], devices: tuple[DeviceHolding, ...] = ()) -> None:
        """Withhold the cpusets of these containers, which are not ours to write, and the devices that they have."""
        self._foreign, self._left_alone = dict(cpus_by_container_id), devices
        self._changed()

    def note_stopped(self, sandbox_ids: Collection[str]) -> None:
        """Give back the devices that ended containers of these sandboxes left to their pods."""
        stopped = self.stopped.union(sandbox_ids) & {row.sandbox_id for row in self.rows()}
        if stopped != self.stopped:
            self.stopped = stopped
            self._changed()

    def leave_to_another(self, container_id: str, cpus: CpuSet) -> None:
        """Leave this container to the manager that keeps pinning it: not written any more, its CPUs withheld."""
        self._left_to_others[container_id] = cpus
        self._changed()

    def desired(self) -> Mapping[ContainerKey, Pinning]:
        """Return the pinning that each container should have by the present grants."""
        if not self._is_desired_known:  # a walk over all containers: once for each change of grants
            wanted = self.policy.pinnings(self.allocations)
            left = wanted.keys() & {self._keys_by_id.get(container_id) for container_id in self._left_to_others}
            if left:
                wanted = {**wanted, **dict.fromkeys(left, Pinning(None, None))}
            before = self._desired
            differing = [key for key, now in wanted.items() if (was := before.get(key)) is not now and was != now]
            self._maybe_unmet.update(differing)
            self._desired, self._is_desired_known = wanted, True
        return self._desired

    def sendable(self, key: ContainerKey) -> Pinning | None:
        """Return the pinning that may be written now for this container; None when nothing may be, or nothing is ours.

        The wanted value, less the CPUs that others still use or still have exclusively as far as the runtime has
        confirmed. So a container that must shrink does so first, in whatever order calls are sent. During its start
        nothing may be written: it would be lost. During one that is only presumed each value is written once.
        """
        row = self._rows.get(key)
        if row is None or self.starts.loses_updates(row):
            return None
        target = self._free_of_others(row)
        if target is None or not self.starts.has_taken(row, row.unmet(target)):
            return target
        return None

    def _free_of_others(self, row: Row) -> Pinning | None:
        """Return the pinning it should have, less the CPUs that others use or have alone; None when nothing is left."""
        key = row.key
        wanted = self.desired().get(key)
        if wanted is None or wanted.cpus is None:
            return wanted
        blocked = self.blocked_cpus(row, wanted.cpus) | self.starts.spared(row, wanted.cpus, self.policy.machine)
        if not blocked:
            return wanted
        held = row.known.cpus or CpuSet()
        if row.state != "running":  # it has not been on its CPUs yet, so it need not come onto them now
            held = held - self._confirmed.of_others(key)
        cpus = wanted.cpus - (blocked - held)  # where it runs already it may go on
        # One that shares is waited for by none: it would start where it was created, on CPUs of others alone.
        if not cpus and (key in self._aside or (row.state != "running" and not row.grant.owned)):
            cpus = self._spare_cpus(key)
        return replace(wanted, cpus=cpus) if cpus else None

    def step_aside(self, key: ContainerKey) -> None:
        """Let this container step aside until its own CPUs are free (see ``node.ledger.deadlock``).

        CPUs that it is on and does not own any more stop being exclusive at once, before a call moves it.
        """
        self._aside.add(key)
        self._confirmed.note_confirmed(self._rows[key], self._rows[key].acknowledged, self._live())

    def can_step_aside(self, key: ContainerKey) -> bool:
        """Return whether it has not stepped aside yet, and has CPUs to move to or to share where it is."""
        row = self._rows.get(key)
        if row is None or key in self._aside or row.container_id in self.starts:  # aside once only: so cycles end
            return False
        return self.sendable(key) is not None or bool(self._spare_cpus(key))

    def settle_confirmed(self) -> dict[ContainerKey, Row]:
        """Give up exclusive CPUs that a settled container no longer owns; return those with others on what they own.

        One whose start is only presumed gives them up too: others may share what it comes alive on, but not own it.
        A container that stepped aside and has its own CPUs back, without others on them, no longer counts as aside.
        """
        kept = {}
        for key in sorted(self._aside | self._confirmed.beyond(self._rows)):
            row, wanted = self._rows[key], self._wanted_cpus(key)
            if row.known.cpus is None or wanted is None:
                continue
            is_there = row.known.cpus <= wanted
            if self.starts.presumed(row) is not None or (is_there and not self.occupants(row)):
                self._aside.discard(key)
                self._confirmed.note_confirmed(row, row.acknowledged, self._live())
            elif is_there:
                kept[key] = row
        return kept

    def _spare_cpus(self, key: ContainerKey) -> CpuSet:
        """Return CPUs without an owner: the root's shared set, else the reserved; less what others have exclusively."""
        root = self.policy.pools(self.allocations)[0]
        others = self._confirmed.of_others(key)
        return (root.shared - others) or (root.reserved - others)

    def waits_for(self, row: Row) -> frozenset[ContainerKey]:
        """Return the containers that must move before this one can have all its CPUs."""
        wanted = self._wanted_cpus(row.key)
        if wanted is None:
            return frozenset()
        missing = wanted - (row.known.cpus or CpuSet()) if row.state == "running" else wanted
        alone = self._confirmed.holders_of(missing)
        occupants = {other.key for other in self.occupants(row) if not self.occupied_by(row, other).isdisjoint(missing)}
        return frozenset((alone | occupants) - {row.key} - self._rows.sharers(row))

    def blocked_cpus(self, row: Row, cpus: CpuSet) -> CpuSet:
        """Return those of ``cpus`` that this row may not use yet: exclusive to others, or owned but still in use."""
        blocked = self._confirmed.of_others(row.grant.container).mask
        for other in self.occupants(row):
            blocked |= self.occupied_by(row, other).mask
        return CpuSet(blocked & cpus.mask)

    def occupied_by(self, row: Row, other: Row) -> CpuSet:
        """Return the CPUs that ``row`` owns and ``other`` may be on: all of them while its pinning is unknown."""
        known = other.acknowledged
        if known is None:
            return row.grant.owned
        return row.grant.owned & known.cpus if known.cpus is not None else CpuSet()

    def occupants(self, row: Row) -> tuple[Row, ...]:
        """Return other containers that may be on CPUs that this row owns, or come alive there, and are ours to move."""
        owned, key = row.grant.owned.mask, row.grant.container
        if not owned or self._wanted_cpus(key) is None:
            return ()
        sharers = self._rows.sharers(row)
        found = []
        for other in self.active():
            known = other.acknowledged
            if known is not None and (known.cpus is None or not known.cpus.mask & owned):
                continue
            if other.grant.container == key or other.grant.container in sharers:
                continue
            if other.container_id and self._wanted_cpus(other.key) is not None:
                found.append(other)
        others = (
            other for other in self.remnants() if other.key != key and not other.grant.shares_cpus_with(row.grant)
        )
        return (*found, *(other for other in others if self.occupied_by(row, other)))

    def remnants(self) -> tuple[Row, ...]:
        """Return containers that were released or replaced while their start was under way, as they were then.

        What an annotation preserved is left out, as everywhere.
        """
        rows = [call.row for call in self.starts.values()]
        return tuple(r for r in rows if not self._holds(r.container_id) and r.grant.kind is not CpuKind.PRESERVE)

    def _holds(self, container_id: str) -> bool:
        row = self.holder(container_id)
        return row is not None and row.state in ACTIVE

    def _live(self) -> tuple[Row, ...]:
        """Return all that run or may come alive."""
        return (*self.active(), *self.remnants()) if self.starts else self.active()

    def _wanted_cpus(self, key: ContainerKey) -> CpuSet | None:
        """Return where it should be; None where the operator or an annotation leaves its CPUs alone."""
        wanted = self.desired().get(key)
        return wanted.cpus if wanted is not None else None

    def unmet(self) -> tuple[Row, ...]:
        """Return live containers whose confirmed pinning differs from the one wanted now, whether it is due or not."""
        desired = self.desired()
        looked_at = self._maybe_unmet | self._rows.changed
        rows = [self._rows[key] for key in sorted(looked_at) if key in self._rows]
        live = [row for row in rows if row.container_id and row.state in ACTIVE]
        found = tuple([row for row in live if row.needs_call(desired[row.grant.container])])
        self._rows.changed.clear()
        self._maybe_unmet = {row.grant.container for row in found}
        return tuple([row for row in found if row.needs_call(self._before_it_runs(row, desired[row.grant.container]))])

    def _before_it_runs(self, row: Row, wanted: Pinning) -> Pinning:
        """Return the wanted pinning without CPUs on which the container is not to start and has not been so far."""
        if wanted.cpus is None or row.state == "running":
            return wanted
        spared = self.starts.spared(row, wanted.cpus, self.policy.machine) - (row.known.cpus or CpuSet())
        return replace(wanted, cpus=wanted.cpus - spared)

    def outstanding(self) -> Iterator[tuple[Row, Pinning, Pinning | None]]:
        """Yield for each ``unmet`` container its row, what it should have, and what may be written right now."""
        desired = self.desired()
        return ((row, desired[row.grant.container], self.sendable(row.grant.container)) for row in self.unmet())

    def unsettled(self) -> tuple[Row, ...]:
        """Return live containers whose confirmed pinning differs from what may be written now."""
        return tuple(row for row in self.active() if row.container_id and self.due(row))

    def due(self, row: Row) -> Pinning | None:
        """Return where this container may be now if a call is needed to bring it there, else None."""
        # Before its start it may have been created onto CPUs that are exclusive to another until a call is confirmed.
        wanted = self.desired().get(row.key)
        if row.state != "created" and (wanted is None or not row.needs_call(wanted)):
            return None
        target = self.sendable(row.key)
        return target if target is not None and row.needs_call(target) else None

    def of_pod(self, pod_uid: str) -> tuple[Row, ...]:
        """Return the active rows of this pod."""
        return tuple([row for row in self.active() if row.grant.request.container.pod_uid == pod_uid])

    def of_sandbox(self, sandbox_id: str) -> tuple[Row, ...]:
        """Return all rows of this sandbox, exited ones too."""
        return tuple(row for row in self.rows() if row.sandbox_id == sandbox_id)

    def grants_with(self, grants: Iterable[Grant]) -> tuple[Row, ...]:
        """Return the rows of these grants, with the grants in them."""
        return tuple(replace(self._rows[g.container], grant=g) for g in grants if g.container in self._rows)

    def _changed(self) -> None:
        self.version += 1
        withheld = CpuSet.of_masks(cpus.mask for cpus in (*self._foreign.values(), *self._left_to_others.values())).mask
        # Only by request: what the policy none passed on may lose its CPUs to the next policy.
        for row in self._rows.preserving.values():
            if row.acknowledged and row.acknowledged.cpus:
                withheld |= row.acknowledged.cpus.mask
        ended = [self._rows[key] for key in sorted(self._rows.ended_with_devices)]
        holdings = (*self._left_alone, *kept(ended, self.stopped)) if ended else self._left_alone
        allocations = Allocations(tuple([row.grant for row in self.active()]), CpuSet(withheld), holdings)
        if self._left_to_others or allocations != self.allocations:  # most changes are of states
            self.allocations, self._is_desired_known = allocations, False
        self._signal.send()


def full_id(text: str, known: Collection[str]) -> str:
    """Return the one of these ids that the text begins; without one, the text."""
    if not text or text in known:
        return text
    matches = [full for full in known if full.startswith(text)]
    return matches[0] if len(matches) == 1 else text
