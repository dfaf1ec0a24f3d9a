"""Implement the store of grants in memory, with the rules of the SQLite one: for simulation, demo and tests."""

from collections.abc import Sequence

from cri_proxy.errors import StoreError
from cri_proxy.state.decisions import KEPT_WITHOUT_ROW, PackedDecision
from cri_proxy.state.rows import Deletable, GonePod, Row, Saveable, Saved
from policies.base import ContainerKey


class MemoryStore:
    """Implements ``cri_proxy.state.rows.GrantStore``; every save raises ``failure`` while that is set."""

    def __init__(self, saved: Saved | None = None) -> None:
        """Start with this content."""
        start = saved if saved is not None else Saved()
        self._rows = {row.key: row for row in start.rows}
        self._sandboxes = {sandbox.sandbox_id: sandbox for sandbox in start.sandboxes}
        self._decisions = {decision.key: decision for decision in start.decisions}
        self._is_closed = False
        self.failure: StoreError | None = None

    def load(self) -> Saved:
        """Return everything saved so far. Raises StoreError when closed."""
        if self._is_closed:
            raise StoreError("memory", "the store is closed")
        return Saved(
            tuple(self._rows[key] for key in sorted(self._rows)),
            tuple(self._sandboxes[key] for key in sorted(self._sandboxes)),
            tuple(sorted(self._decisions.values(), key=_age)),
        )

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        """Apply this change as a whole, deletes before puts. Raises StoreError."""
        if self._is_closed:
            raise StoreError("memory", "the store is closed")
        if self.failure is not None:
            raise self.failure
        for key in deletes:
            self._delete(key)
        for put in puts:
            match put:
                case Row():
                    self._rows[put.key] = put
                case PackedDecision():
                    self._decisions[put.key] = put
                    self._forget_old()
                case _:
                    self._sandboxes[put.sandbox_id] = put

    def _delete(self, key: Deletable) -> None:
        match key:
            case GonePod():
                for gone in [known for known in self._decisions if known.pod_uid == key.uid]:
                    del self._decisions[gone]
            case ContainerKey():
                self._rows.pop(key, None)
                if key in self._decisions and not self._decisions[key].outlives_row:
                    del self._decisions[key]
            case _:
                self._sandboxes.pop(key, None)

    def _forget_old(self) -> None:
        old = sorted((d for d in self._decisions.values() if d.outlives_row), key=_age)
        for decision in old[:-KEPT_WITHOUT_ROW]:
            del self._decisions[decision.key]

    async def close(self) -> None:
        """Refuse every load and save from now on."""
        self._is_closed = True


def _age(decision: PackedDecision) -> tuple[float, ContainerKey]:
    return (decision.at_seconds, decision.key)
