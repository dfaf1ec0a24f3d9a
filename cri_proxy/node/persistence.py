"""Save rows in call order, awaited or not, with a time limit; report a failure once, and later save all again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cri_proxy.clock import steady_seconds
from cri_proxy.errors import StoreError
from cri_proxy.state.rows import Deletable, GrantStore, Saveable
from cri_proxy.tasks import Tasks

# A commit is one fsync, milliseconds on a disk that works. Every container of the node would wait for a slower one.
COMMIT_BOUND_SECONDS = 2.0


@dataclass(eq=False)
class Persistence:
    """Saves rows in the order of the calls; ``problem`` is what failed last, until a save succeeds again.

    ``on_problem`` gets each new problem once, ``on_saved`` the seconds that one which a call waits for took.
    ``everything`` returns what the store should hold now, for saves that failed.
    """

    _store: GrantStore
    _tasks: Tasks
    _on_problem: Callable[[str], None]
    on_saved: Callable[[float], None] | None = None
    everything: Callable[[], Sequence[Saveable]] = tuple
    problem: str = field(default="", init=False)
    failures: int = field(default=0, init=False)
    is_behind: bool = field(default=False, init=False)  # the store lacks what a failed save should have written
    _may_catch_up_early: bool = field(default=True, init=False)

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> bool:
        """Make this durable; False when the store failed or took too long (the save may still succeed later).

        Cancelling the caller does not cancel the save.
        """
        begun_at = steady_seconds()
        is_saved = await self.save_later(puts, deletes)
        if is_saved and self.on_saved is not None:
            self.on_saved(steady_seconds() - begun_at)
        return is_saved

    def save_later(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> asyncio.Future[bool]:
        """Save without waiting: for what the runtime already knows."""
        # A task of its own, so that it starts after those of earlier calls: tasks start in their order.
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._save(tuple(puts), tuple(deletes), saved), name="save")
        return saved

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
            self.save_later(())

    def _catch_up(self) -> None:
        # Before the saves, which set it again where one fails.
        self.is_behind = False
        for each in self.everything():
            self.save_later([each])

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
