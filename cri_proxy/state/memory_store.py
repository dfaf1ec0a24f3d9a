"""Implement the store of grants in memory, by the tables of the one on disk: for simulation, demo and tests."""

import sqlite3
from collections.abc import Sequence

from cri_proxy.errors import StoreError
from cri_proxy.state import migrate, tables
from cri_proxy.state.rows import Deletable, Saveable, Saved


class MemoryStore:
    """Implements ``cri_proxy.state.rows.GrantStore``; every save raises ``failure`` while that is set."""

    def __init__(self, saved: Saved | None = None) -> None:
        """Start with this content."""
        start = saved or Saved()
        self._tables = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        tables.apply(self._tables, [(sql, ()) for sql in migrate.statements(0)])
        tables.apply(self._tables, tables.change([*start.rows, *start.sandboxes, *start.decisions], ()))
        self._is_closed = False
        self.failure: StoreError | None = None

    def load(self) -> Saved:
        """Return everything saved so far. Raises StoreError when closed."""
        self._require_open()
        return tables.read(self._tables)

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        """Delete, then put. Raises StoreError when closed, or ``failure``."""
        self._require_open()
        if self.failure is not None:
            raise self.failure
        tables.apply(self._tables, tables.change(puts, deletes))

    async def close(self) -> None:
        """Refuse everything from now on."""
        self._is_closed = True

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreError("memory", "the store is closed")
