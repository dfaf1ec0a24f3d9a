"""Run a container's ``notify-exec`` command in the background when its resource files changed; retry, then give up.

It runs through the runtime's ExecSync, with a time limit, one at a time for each container; changes that come meanwhile
count as one. Namespaces take turns. The pauses between attempts grow; after the last one only another change runs it
again.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cri_proxy import events
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.foreign_text import admit
from cri_proxy.http2.status import Code
from cri_proxy.node.context import Context
from cri_proxy.runtime.channel import SERVICE, ask
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey

EXEC = SERVICE + "ExecSync"
COMMAND_SECONDS = 10
# The runtime ends the command by itself; its answer needs a little longer.
ANSWER_SECONDS = COMMAND_SECONDS + 2.0
PAUSES_SECONDS = (1.0, 5.0, 30.0)
# A change of a shared set concerns many containers: not all of their commands at once.
CONCURRENT = 4
# Of one namespace, so that commands of one that hang leave a slot to the others.
CONCURRENT_OF_ONE = 3
SHOWN_BYTES = 256  # what a command says of its failure: its first line or two
# Of a command's output, which its pod's author chooses and the runtime collects up to 16 MiB of. A longer reply is not
# read: what failed is said at the beginning, and megabytes hold up the event loop.
OUTPUT_BYTES = 64 << 10


class Turns:
    """Slots for which namespaces take turns: the next is that of the waiting one with the fewest, then in a circle.

    Within a namespace who came first is first.
    """

    def __init__(self, slots: int, most_of_one: int) -> None:
        self._free = slots
        self._most_of_one = most_of_one
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by namespace, the one served last at the end

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it inside the block."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(mine)
        self._hand_out()
        try:
            await mine
            yield
        finally:
            if mine.cancelled():  # before its turn: ``_hand_out`` passes it over
                self._hand_out()
            else:
                self._give_back(namespace)

    def _give_back(self, namespace: str) -> None:
        self._free += 1
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and (
            ready := [name for name in self._waiting if self._running.get(name, 0) < self._most_of_one]
        ):
            namespace = min(ready, key=lambda name: self._running.get(name, 0))  # of several the first
            queue = self._waiting.pop(namespace)
            mine = queue.popleft()
            if queue:
                self._waiting[namespace] = queue
            if not mine.cancelled():
                self._running[namespace] += 1
                self._free -= 1
                mine.set_result(None)


class Notifier:
    """Runs the containers' commands. ``run`` and ``failed`` count commands since the start."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.tasks = Tasks(lambda error: context.journal.failed_open("notify-exec", error))
        self._turns = Turns(CONCURRENT, CONCURRENT_OF_ONE)
        self._wanted: set[ContainerKey] = set()
        self._busy: set[ContainerKey] = set()
        self.run = 0
        self.failed = 0

    def changed(self, row: Row | None) -> None:
        """Run the command of a running container whose files have changed, if it has one. Returns at once."""
        if row is None or not row.grant.request.preferences.notify or row.state != "running":
            return
        self._wanted.add(row.key)
        if row.key not in self._busy:
            self._busy.add(row.key)
            self.tasks.start(self._notify(row.key), name=f"notify {row.key.name}")

    async def _notify(self, key: ContainerKey) -> None:
        try:
            while key in self._wanted:
                await self._until_it_succeeds(key)
        finally:
            self._busy.discard(key)

    async def _until_it_succeeds(self, key: ContainerKey) -> None:
        for pause_seconds in (*PAUSES_SECONDS, None):
            # Before the command: a change while it runs makes another run.
            self._wanted.discard(key)
            row = self._context.ledger.get(key)
            command = row.grant.request.preferences.notify if row is not None else ()
            if row is None or row.state != "running" or not command:
                return
            async with self._turns.turn(row.grant.request.pod.namespace):
                problem, may_retry = await self._problem_of(row.container_id, command)
            is_last = pause_seconds is None or not may_retry
            self._report(row, problem, is_last=is_last)
            if not problem or pause_seconds is None or is_last:
                return
            await self._context.clock.sleep(pause_seconds)

    async def _problem_of(self, container_id: str, command: Sequence[str]) -> tuple[str, bool]:
        """Run the command; return '' when it succeeds, else the problem, and whether another attempt may help."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=COMMAND_SECONDS)
        try:
            channel, read = self._context.channel, pb.ExecSyncResponse.FromString
            answer = await ask(channel, request, read, timeout_seconds=ANSWER_SECONDS)
        except CallFailed as error:
            return error.message, error.code != Code.RESOURCE_EXHAUSTED  # it has run, and would say as much again
        except RuntimeUnavailable as error:
            return error.problem, True
        if not answer.exit_code:
            return "", True
        words = admit(answer.stderr[:OUTPUT_BYTES].decode(errors="replace").strip(), SHOWN_BYTES)
        return f"exit status {answer.exit_code}{': ' if words else ''}{words}", True

    def _report(self, row: Row, problem: str, *, is_last: bool) -> None:
        self.run += 1
        if not problem:
            self._context.journal.noted_of(row, events.NOTIFIED)
            return
        self.failed += 1
        following = "given up until the next change" if is_last else "tried again"
        self._context.journal.noted_of(row, events.NOTIFY_FAILED, reason=problem, next=following)
