"""The ledger's collection of rows: by container key, in key order, with the active ones cached until a change.

Each confirmation replaces one row, most questions concern all of them: replacing takes one lookup, a walk none.
"""

from bisect import bisect_left
from typing import Self

from cri_proxy.state.rows import Row
from policies.base import ContainerKey

# States in which a row's grant counts; the others only remember where a container was.
ACTIVE = frozenset({"reserved", "pending", "created", "running"})


class OrderedRows(dict[ContainerKey, Row]):
    """Rows by container. Only the ledger changes it, by ``put`` and ``drop``."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[ContainerKey] = []
        self._rows: list[Row] = []
        self._active: tuple[Row, ...] | None = None
        self.changed: set[ContainerKey] = set()
        """Of rows that were put since the ledger has looked at them."""
        # The few rows that every change looks for, among as many as the node has containers.
        self.preserving: dict[ContainerKey, Row] = {}
        """Active ones whose CPUs a request preserves."""
        self.ended_with_devices: dict[ContainerKey, Row] = {}

    def copy(self) -> Self:
        """Return the same rows, to be changed apart from these."""
        other = type(self)()
        other.update(self)
        other._keys, other._rows, other._active = list(self._keys), list(self._rows), self._active
        other.changed = set(self.changed)
        other.preserving, other.ended_with_devices = dict(self.preserving), dict(self.ended_with_devices)
        return other

    def put(self, row: Row) -> Row | None:
        """Add or replace a row; return the one that it replaces."""
        key = row.grant.container
        old, place = self.get(key), bisect_left(self._keys, key)
        if old is None:
            self._keys.insert(place, key)
            self._rows.insert(place, row)
        else:
            self._rows[place] = row
        self[key] = row
        self._active = None
        self.changed.add(key)
        preserves = row.state in ACTIVE and row.grant.request.preferences.preserve_cpu
        _keep(self.preserving, key, row, counts=preserves)
        _keep(self.ended_with_devices, key, row, counts=row.state == "exited" and bool(row.grant.devices))
        return old

    def drop(self, key: ContainerKey) -> Row | None:
        """Remove the row of this container and return it."""
        row = self.pop(key, None)
        if row is not None:
            place = bisect_left(self._keys, key)
            del self._keys[place], self._rows[place]
            self._active = None
            self.preserving.pop(key, None)
            self.ended_with_devices.pop(key, None)
        return row

    def ordered(self) -> tuple[Row, ...]:
        """Return every row, by container."""
        return tuple(self._rows)

    def active(self) -> tuple[Row, ...]:
        """Return the rows whose grant counts, by container: the same tuple until a row changes."""
        if self._active is None:
            self._active = tuple([row for row in self._rows if row.state in ACTIVE])
        return self._active

    def sharers(self, row: Row) -> frozenset[ContainerKey]:
        """Return the other containers that share the CPUs of its pod with this one: they need not leave them."""
        if not row.grant.shares_cpus:
            return frozenset()
        active = (other for other in self.active() if other.grant.shares_cpus_with(row.grant))
        return frozenset(other.key for other in active if other.key != row.key)


def _keep(kept: dict[ContainerKey, Row], key: ContainerKey, row: Row, *, counts: bool) -> None:
    if counts:
        kept[key] = row
    elif kept:
        kept.pop(key, None)
