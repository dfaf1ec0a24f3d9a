"""State in the ledger: the CPUs that each container has exclusively as confirmed by the runtime, and contested ones.

A grant changes at once; the container stays where it is until its update is confirmed. Until then no other container
may use the CPUs that it had exclusively.
"""

from collections.abc import Iterable

from cri_proxy.node.ledger.ordered_rows import OrderedRows
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, Pinning
from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet


class ConfirmedCpus:
    """Exclusive CPUs by container. Part of the ledger, which passes on what the runtime confirms."""

    def __init__(self) -> None:
        self._exclusive: dict[ContainerKey, CpuSet] = {}
        self._contested: dict[ContainerKey, CpuSet] = {}  # owned, but shared before and not left by all others
        # Containers whose CPUs are those of their pod, or of this claim of it.
        self._sharing: dict[ContainerKey, CpuClaim | None] = {}
        self._all: CpuSet | None = None

    def copy(self) -> "ConfirmedCpus":
        """Return the same state, to be changed apart from this."""
        other = ConfirmedCpus()
        other._exclusive, other._contested, other._all = dict(self._exclusive), dict(self._contested), self._all
        other._sharing = dict(self._sharing)
        return other

    def of(self, key: ContainerKey) -> CpuSet:
        """Return the CPUs that this container has exclusively."""
        return self._exclusive.get(key, CpuSet())

    def of_others(self, key: ContainerKey) -> CpuSet:
        """Return the exclusive CPUs of all others; containers that share their pod's CPUs are no others there."""
        if self._all is None:
            self._all = CpuSet.of_masks(cpus.mask for cpus in self._exclusive.values())
        own = self.of(key).mask
        # They run on the same CPUs by intent (KEP-2837 or one claim): none of them waits for another.
        for other in self._sharing if key in self._sharing else ():
            if self._share_pod_cpus(key, other):
                own |= self.of(other).mask
        return CpuSet(self._all.mask & ~own)

    def _share_pod_cpus(self, one: ContainerKey, other: ContainerKey) -> bool:
        """Return whether both share the CPUs of their pod, or of a claim of it."""
        if one.pod_uid != other.pod_uid or one not in self._sharing or other not in self._sharing:
            return False
        return self._sharing[one] == self._sharing[other]

    def holders_of(self, cpus: CpuSet) -> set[ContainerKey]:
        """Return the containers that have some of these exclusively."""
        return {key for key, exclusive in self._exclusive.items() if not exclusive.isdisjoint(cpus)}

    def beyond(self, rows: OrderedRows) -> set[ContainerKey]:
        """Return the containers that have CPUs exclusively that their grants no longer name."""
        return {k for k, exclusive in self._exclusive.items() if not exclusive <= rows[k].grant.owned}

    def forget(self, key: ContainerKey) -> None:
        """Drop the container: it has nothing exclusively any more."""
        self._sharing.pop(key, None)
        self._clear(key)

    def _clear(self, key: ContainerKey) -> None:
        self._contested.pop(key, None)
        if self._exclusive.pop(key, None):  # most have none, and no update of theirs changes the union
            self._all = None

    def note_grant(self, row: Row) -> None:
        """Record a changed grant: contested CPUs that it no longer names will not become exclusive."""
        key = row.grant.container
        if row.grant.shares_cpus:
            self._sharing[key] = row.grant.request.claim
        else:
            self._sharing.pop(key, None)
        if key in self._contested:
            self._contested[key] = self._contested[key] & row.grant.owned

    def note_confirmed(self, row: Row, known: Pinning | None, others: Iterable[Row]) -> None:
        """Record that the runtime confirmed ``row``'s pinning, after ``known``.

        Owned CPUs become exclusive, except those a running container shared with others that still use them.
        """
        on = row.known.cpus
        if on is None:
            return
        key = row.grant.container
        # Only of a running one: before its start the barrier clears the CPUs, so it shares them with no process.
        before = (known.cpus if known is not None and row.state == "running" else None) or CpuSet()
        if contested := (row.grant.owned & before) - self.of(key):
            contested = contested & self._used_by_others(others, key)
        self._clear(key)
        self._exclusive[key] = exclusive = (row.grant.owned & on) - contested
        if exclusive:
            self._all = None
        if contested:
            self._contested[key] = contested & on

    def settle(self, rows: Iterable[Row]) -> None:
        """Mark contested CPUs as exclusive once no other container runs on them."""
        if not self._contested:
            return
        # Once for all contested ones: ``rows`` may be an iterator.
        present = tuple(rows)
        for key, cpus in list(self._contested.items()):
            left = cpus & self._used_by_others(present, key)
            self._exclusive[key] = self.of(key) | (cpus - left)
            self._contested[key] = left
            if not left:
                del self._contested[key]
        self._all = None

    def _used_by_others(self, rows: Iterable[Row], key: ContainerKey) -> CpuSet:
        """Return the CPUs that the runtime has the others on; those that share the pod's CPUs with it are none."""
        known = (row.acknowledged for row in rows if row.key != key and not self._share_pod_cpus(key, row.key))
        return CpuSet.of_masks(pinning.cpus.mask for pinning in known if pinning is not None and pinning.cpus)
