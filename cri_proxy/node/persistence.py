"""Save ledger changes: durable before the runtime is called, else the operator's ``onStoreError`` applies."""

import asyncio
import time
from collections.abc import Callable, Sequence

from cri_proxy.errors import StoreError
from cri_proxy.state.rows import GrantStore, Saveable
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey

# A commit is one fsync, milliseconds on a disk that works. Every container of the node would wait for a slower one.
COMMIT_BOUND_SECONDS = 2.0


class Persistence:
    """Saves rows in the order of the calls; ``problem`` is what failed last, until a save succeeds again."""

    def __init__(
        self,
        store: GrantStore,
        tasks: Tasks,
        on_problem: Callable[[str], None],
        *,
        on_saved: Callable[[float], None] | None = None,
        everything: Callable[[], Sequence[Saveable]] = tuple,
    ) -> None:
        """Write to this store.

        ``on_problem`` gets each new problem once, ``on_saved`` the seconds that each successful save took.
        ``everything`` returns what the store should hold now, for saves that failed.
        """
        self._store = store
        self._tasks = tasks
        self._on_problem = on_problem
        self._on_saved = on_saved
        self._everything = everything
        self.problem = ""
        self.failures = 0
        self._missed = 0
        self._may_catch_up_early = True

    @property
    def is_behind(self) -> bool:
        """Whether the store lacks what a failed save should have written."""
        return self._missed > 0

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str] = ()) -> bool:
        """Make this durable; False when the store failed or took too long (the save may still succeed later).

        Cancelling the caller does not cancel the save.
        """
        # A task of its own, so that it starts after those of earlier save_later calls: tasks start in their order.
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._save_and_answer(tuple(puts), tuple(deletes), saved), name="save")
        return await saved

    def save_later(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str] = ()) -> None:
        """Save without waiting: for what the runtime already knows."""
        self._tasks.start(self._save_and_forget(tuple(puts), tuple(deletes)), name="save")

    def mark_incomplete(self, problem: str) -> None:
        """Note that the store lacks everything, and why, before anything was saved."""
        self._failed(problem)

    def catch_up(self) -> None:
        """Save again what failed saves may have left out; each by itself, so that one failure affects no other."""
        self._may_catch_up_early = True
        self._catch_up()

    def _catch_up(self) -> None:
        if self.is_behind:
            self._missed = 0
            for each in self._everything():
                self.save_later([each])

    async def _save_and_forget(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str]) -> None:
        await self._save(puts, deletes)

    async def _save_and_answer(
        self,
        puts: Sequence[Saveable],
        deletes: Sequence[ContainerKey | str],
        saved: asyncio.Future[bool],
    ) -> None:
        is_saved = False
        try:
            is_saved = await self._save(puts, deletes)
        finally:
            if not saved.done():  # the caller was cancelled
                saved.set_result(is_saved)

    async def _save(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str]) -> bool:
        begun_at = time.monotonic()
        try:
            async with asyncio.timeout(COMMIT_BOUND_SECONDS):
                await self._store.save(puts, deletes)
        except TimeoutError:
            return self._failed(f"a commit took more than {COMMIT_BOUND_SECONDS:g} s")
        except StoreError as error:
            return self._failed(str(error))
        self.problem = ""
        if self._on_saved is not None:
            self._on_saved(time.monotonic() - begun_at)
        if self.is_behind and self._may_catch_up_early:
            # Only once before the next slow check: a row that can never be saved must not cause an endless loop.
            self._may_catch_up_early = False
            self._catch_up()
        return True

    def _failed(self, problem: str) -> bool:
        self.failures += 1
        self._missed += 1
        if problem != self.problem:
            self._on_problem(problem)
        self.problem = problem
        return False
