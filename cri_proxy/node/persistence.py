"""Save rows in call order, awaited or not, with a time limit; report a failure once, and later save all again.

A daemon gathers for a moment what the runtime knows already, the newest of each row alone: a pod's start has four such
saves, and a commit costs a millisecond of CPU in two processes.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.clock import steady_seconds
from cri_proxy.errors import StoreError
from cri_proxy.state.decisions import PackedDecision
from cri_proxy.state.rows import Deletable, GonePod, GrantStore, Row, Saveable, is_to_be_synced
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey

# A commit is one fsync, milliseconds on a disk that works. Every container of the node would wait for a slower one.
COMMIT_BOUND_SECONDS = 2.0
GATHER_SECONDS: Final = 1.0
"""How long a daemon gathers. A kill meanwhile is like one after the runtime's answer, whose list tells the rest."""


@dataclass(slots=True)
class _Gathered:
    """Puts and deletes as one save, which applies deletes first."""

    rows: dict[ContainerKey, Row] = field(default_factory=dict)
    decisions: dict[ContainerKey, PackedDecision] = field(default_factory=dict)
    sandboxes: dict[str, Saveable] = field(default_factory=dict)
    deletes: dict[Deletable, None] = field(default_factory=dict)

    def add(self, puts: Sequence[Saveable], deletes: Sequence[Deletable]) -> None:
        """Add a later save."""
        for key in deletes:
            self._delete(key)
            self.deletes[key] = None
        for put in puts:
            match put:
                case Row():
                    self.rows[put.key] = put
                case PackedDecision():
                    self.decisions[put.key] = put
                case _:
                    self.sandboxes[put.sandbox_id] = put

    def hides(self, deletes: Sequence[Deletable]) -> bool:
        """Return whether the store must have a decision before these deletes: they leave one that it replaces there."""
        own = (self.decisions.get(key) for key in deletes if isinstance(key, ContainerKey))
        return any(decision is not None and not decision.outlives_row for decision in own)

    def _delete(self, key: Deletable) -> None:
        """Take out what ``GrantStore.save`` would delete, had it been saved."""
        match key:
            case GonePod():
                for gone in [known for known in self.decisions if known.pod_uid == key.uid]:
                    del self.decisions[gone]
            case ContainerKey():
                self.rows.pop(key, None)
            case _:
                self.sandboxes.pop(key, None)

    @property
    def puts(self) -> tuple[Saveable, ...]:
        """What is to be in the store."""
        return (*self.sandboxes.values(), *self.rows.values(), *self.decisions.values())


@dataclass(eq=False)
class Persistence:
    """Saves rows in the order of the calls; ``problem`` is what failed last, until a save succeeds again.

    ``on_problem`` gets each new problem once, ``on_saved`` the seconds that one which a call waits for took.
    ``everything`` returns what the store should hold now, for saves that failed. ``gather_seconds`` 0: nothing is
    gathered. ``late`` is called once they have passed, and may save what it has put off until then.
    """

    _store: GrantStore
    _tasks: Tasks
    _on_problem: Callable[[str], None]
    on_saved: Callable[[float], None] | None = None
    everything: Callable[[], Sequence[Saveable]] = tuple
    gather_seconds: float = 0.0
    late: Callable[[], object] = field(default=tuple, init=False)
    problem: str = field(default="", init=False)
    failures: int = field(default=0, init=False)
    is_behind: bool = field(default=False, init=False)  # the store lacks what a failed save should have written
    _may_catch_up_early: bool = field(default=True, init=False)
    _gathered: _Gathered = field(default_factory=_Gathered, init=False)
    _due: asyncio.TimerHandle | None = field(default=None, init=False)

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> bool:
        """Make this durable; False when the store failed or took too long (the save may still succeed later).

        Cancelling the caller does not cancel the save.
        """
        begun_at = steady_seconds()
        is_saved = await self._start(puts, deletes)
        if is_saved and self.on_saved is not None:
            self.on_saved(steady_seconds() - begun_at)
        return is_saved

    def save_later(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        """Save without waiting: for what the runtime already knows, and its lists show."""
        if any(map(is_to_be_synced, puts)) or not self.gathers():
            self._start(puts, deletes)
            return
        if self._gathered.hides(deletes):
            self._flush()
        self._gathered.add(puts, deletes)

    def save_now(self, put: Saveable) -> None:
        """Begin to save at once, without waiting: for what no list of the runtime shows."""
        self._start([put], ())

    def gathers(self) -> bool:
        """Return whether saves are gathered; if so, ``late`` will be called."""
        if self.gather_seconds and self._due is None:
            self._due = asyncio.get_running_loop().call_later(self.gather_seconds, self._save_gathered)
        return bool(self.gather_seconds)

    def stop_gathering(self) -> None:
        """Save what was gathered, and from now on everything at once."""
        self.gather_seconds = 0.0
        if self._due is not None:
            self._due.cancel()
        self._save_gathered()

    def _save_gathered(self) -> None:
        # A task, for errors of what is put off to be reported.
        self._tasks.start(self._save_late(), name="save")

    async def _save_late(self) -> None:
        try:
            self.late()
        finally:
            self._due = None
            self._flush()

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, _Gathered()
        puts, deletes = gathered.puts, tuple(gathered.deletes)
        if puts or deletes:
            self._begin(puts, deletes)

    def mark_incomplete(self, problem: str) -> None:
        """Note that the store lacks what should be in it, and why."""
        self.failures += 1
        self.is_behind = True
        if problem != self.problem:
            self._on_problem(problem)
        self.problem = problem

    def catch_up(self) -> None:
        """Save again what failed saves may have left out; each by itself, so that one failure affects no other.

        Without any, save nothing: that shows a file that is gone or a disk that hangs, before a decision is lost there.
        """
        self._may_catch_up_early = True
        if self.is_behind:
            self._catch_up()
        else:
            self._start((), ())

    def _catch_up(self) -> None:
        # Before the saves, which set it again where one fails.
        self.is_behind = False
        for each in self.everything():
            self._start([each], ())

    def _start(self, puts: Sequence[Saveable], deletes: Sequence[Deletable]) -> asyncio.Future[bool]:
        """Begin to save this, after what was gathered: in a save of its own, which a value in the other cannot fail."""
        self._flush()
        return self._begin(puts, deletes)

    def _begin(self, puts: Sequence[Saveable], deletes: Sequence[Deletable]) -> asyncio.Future[bool]:
        # A task of its own, so that it starts after those of earlier calls: tasks start in their order.
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._save(tuple(puts), tuple(deletes), saved), name="save")
        return saved

    async def _save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable], saved: asyncio.Future[bool]) -> None:
        """Save this; the result of ``saved`` is whether it is durable, unless the caller was cancelled."""
        is_saved = False
        try:
            # It ends the wait alone: the store's thread goes on, and may succeed after all.
            async with asyncio.timeout(COMMIT_BOUND_SECONDS):
                await self._store.save(puts, deletes)
            is_saved = True
        except TimeoutError:
            self.mark_incomplete(f"a commit took more than {COMMIT_BOUND_SECONDS:g} s")
        except StoreError as error:
            self.mark_incomplete(str(error))
        finally:
            if not saved.done():
                saved.set_result(is_saved)
        if not is_saved:
            return
        self.problem = ""
        if self.is_behind and self._may_catch_up_early:
            # Only once before the next slow check: a row that can never be saved must not cause an endless loop.
            self._may_catch_up_early = False
            self._catch_up()
