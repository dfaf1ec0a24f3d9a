"""Which CPUs containers have alone as far as the runtime has confirmed: held until a call has moved them away.

A grant can change at once; the container stays where it is until its update is confirmed, and until then nobody
else may come onto CPUs that it was promised alone.
"""

from collections.abc import Iterable

from cri_proxy.node.ledger.ordered_rows import OrderedRows
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, Pinning
from sysfs.cpuset import CpuSet


class ConfirmedCpus:
    """CPUs by container. Part of the ledger, which tells it what the runtime confirms."""

    def __init__(self) -> None:
        """Nobody has anything alone."""
        self._alone: dict[ContainerKey, CpuSet] = {}
        self._contested: dict[ContainerKey, CpuSet] = {}  # owned, but shared before and not left by all others
        self._all: CpuSet | None = None

    def copy(self) -> "ConfirmedCpus":
        """The same claims, to be changed apart from these."""
        other = ConfirmedCpus()
        other._alone, other._contested, other._all = dict(self._alone), dict(self._contested), self._all
        return other

    def of(self, key: ContainerKey) -> CpuSet:
        """What this container has alone."""
        return self._alone.get(key, CpuSet())

    def of_others(self, key: ContainerKey) -> CpuSet:
        """What all others have alone."""
        if self._all is None:
            self._all = CpuSet.of_masks(cpus.mask for cpus in self._alone.values())
        return CpuSet(self._all.mask & ~self.of(key).mask)

    def holders_of(self, cpus: CpuSet) -> set[ContainerKey]:
        """Who has some of these alone."""
        return {key for key, alone in self._alone.items() if not alone.isdisjoint(cpus)}

    def beyond(self, rows: OrderedRows) -> set[ContainerKey]:
        """Who has something alone that its grant does not say any more."""
        return {key for key, alone in self._alone.items() if alone and not alone <= rows[key].grant.owned}

    def forget(self, key: ContainerKey) -> None:
        """The container has nothing alone any more."""
        self._alone.pop(key, None)
        self._contested.pop(key, None)
        self._all = None

    def granted(self, row: Row) -> None:
        """Its grant may have changed: what it does not own any more will not become its alone."""
        key = row.grant.container
        if key in self._contested:
            self._contested[key] = self._contested[key] & row.grant.owned

    def confirmed(self, row: Row, known: Pinning | None, others: Iterable[Row]) -> None:
        """The runtime has this container where ``row`` says, and had it where ``known`` says before.

        It has alone what it owns and is on, except what a running one shared before and others have not left yet.
        """
        on = row.acknowledged.cpus if row.acknowledged is not None else None
        if on is None:
            return
        key = row.grant.container
        before = (known.cpus if known is not None and row.state == "running" else None) or CpuSet()
        contested = (row.grant.owned & before) - self.of(key)
        if contested:
            contested = contested & _sat_on(others, key)
        self.forget(key)
        self._alone[key] = (row.grant.owned & on) - contested
        if contested:
            self._contested[key] = contested & on

    def settle(self, rows: Iterable[Row]) -> None:
        """Whoever has been left alone by now has what it owns."""
        if not self._contested:
            return
        everybody = tuple(rows)
        for key, cpus in list(self._contested.items()):
            left = cpus & _sat_on(everybody, key)
            self._alone[key] = self.of(key) | (cpus - left)
            self._contested[key] = left
            if not left:
                del self._contested[key]
        self._all = None


def _sat_on(rows: Iterable[Row], key: ContainerKey) -> CpuSet:
    """Where the runtime has the others."""
    known = (row.acknowledged for row in rows if row.key != key)
    return CpuSet.of_masks(pinning.cpus.mask for pinning in known if pinning is not None and pinning.cpus)
