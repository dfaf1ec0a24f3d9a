"""The ledger's way to the store: a change is durable before the runtime is called, or the operator's rule applies."""

import asyncio
from collections.abc import Callable, Sequence

from cri_proxy.errors import StoreError
from cri_proxy.state.rows import GrantStore, Row, SandboxRow
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey

# A commit is one fsync, milliseconds on any disk that works; past this the disk is as good as gone, and every
# container of the node would wait for it.
COMMIT_BOUND_SECONDS = 2.0


class Persistence:
    """Saves rows in order; a failure or a slow disk is remembered as ``problem`` until a save succeeds again."""

    def __init__(self, store: GrantStore, tasks: Tasks, on_problem: Callable[[str], None]) -> None:
        """``on_problem`` hears of each new problem once."""
        self._store = store
        self._tasks = tasks
        self._on_problem = on_problem
        self.problem = ""
        self.failures = 0

    async def save(self, puts: Sequence[Row | SandboxRow], deletes: Sequence[ContainerKey | str] = ()) -> bool:
        """Make this durable; False when the store failed or took too long (the save may still land later)."""
        try:
            async with asyncio.timeout(COMMIT_BOUND_SECONDS):
                await self._store.save(puts, deletes)
        except TimeoutError:
            return self._failed(f"a commit took more than {COMMIT_BOUND_SECONDS:g} s")
        except StoreError as error:
            return self._failed(str(error))
        self.problem = ""
        return True

    def save_later(self, puts: Sequence[Row | SandboxRow], deletes: Sequence[ContainerKey | str] = ()) -> None:
        """The same without waiting: for what the runtime already knows."""
        self._tasks.start(self._save_and_forget(tuple(puts), tuple(deletes)), name="save")

    async def _save_and_forget(self, puts: Sequence[Row | SandboxRow], deletes: Sequence[ContainerKey | str]) -> None:
        await self.save(puts, deletes)

    def _failed(self, problem: str) -> bool:
        self.failures += 1
        if problem != self.problem:
            self._on_problem(problem)
        self.problem = problem
        return False
