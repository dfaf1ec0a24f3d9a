"""Store and runtime of a simulated node answer at once: no tasks and time limits, which disks and sockets need."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from cri_proxy.node.decision_log.records import KeptDecision, Records
from cri_proxy.node.persistence import Persistence
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.state.decisions import DecisionRecord, PackedDecision
from cri_proxy.state.rows import Deletable, Saveable


@dataclass(frozen=True, slots=True)
class WholeDecision(PackedDecision):
    """A decision that is kept as it is: nothing of it is written, and ``text`` is empty."""

    record: DecisionRecord


class WholeRecords(Records):
    """Records that are kept and saved whole. To write and compress one takes as long as half a decision."""

    def _pack(self, record: DecisionRecord) -> PackedDecision:
        return WholeDecision(
            record.key, record.request.full_name, record.outlives_row, record.at_seconds, text="", record=record
        )

    def _kept_of(self, packed: PackedDecision) -> KeptDecision:
        return KeptDecision(packed, b"", b"")

    def _read(self, kept: KeptDecision) -> DecisionRecord:
        if not isinstance(kept.packed, WholeDecision):
            raise ValueError("a record of another process")
        return kept.packed.record


class PromptRuntime(EmbeddedRuntime):
    """An embedded runtime whose calls have no time limit: nothing in them waits."""

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """See RuntimeChannel."""
        return await self.call(method, message)


class PromptPersistence(Persistence):
    """Saves in a store that never waits, in the call itself."""

    def _begin(self, puts: Sequence[Saveable], deletes: Sequence[Deletable]) -> asyncio.Future[bool]:
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        _run(self._store.save(puts, deletes))
        saved.set_result(True)
        return saved


def _run(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine that never waits. Raises what it raises."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError(f"{work} waits")
