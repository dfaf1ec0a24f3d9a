"""Run a container's ``notify-exec`` command in the background when its resource files changed; retry, then give up.

It runs through the runtime's ExecSync, with a time limit, one at a time for each container; changes that come meanwhile
count as one. The pauses between attempts grow; after the last one only another change runs it again.
"""

import asyncio
from collections.abc import Sequence

from cri_proxy import events
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.foreign_text import admit
from cri_proxy.node.context import Context
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey

EXEC = "/runtime.v1.RuntimeService/ExecSync"
COMMAND_SECONDS = 10
# The runtime ends the command by itself; its answer needs a little longer.
ANSWER_SECONDS = COMMAND_SECONDS + 2.0
PAUSES_SECONDS = (1.0, 5.0, 30.0)
# A change of a shared set concerns many containers: not all of their commands at once.
CONCURRENT = 4
SHOWN_BYTES = 256  # what a command says of its failure: its first line or two
OUTPUT_BYTES = 64 << 10  # what is looked at for that: decoding megabytes holds up the event loop


class Notifier:
    """Runs the containers' commands. ``run`` and ``failed`` count commands since the start."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.tasks = Tasks(lambda error: context.journal.failed_open("notify-exec", error))
        self._slots = asyncio.Semaphore(CONCURRENT)
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
            self._wanted.discard(key)
            row = self._context.ledger.get(key)
            command = row.grant.request.preferences.notify if row is not None else ()
            if row is None or row.state != "running" or not command:
                return
            async with self._slots:
                problem = await self._problem_of(row.container_id, command)
            self._report(row, problem, is_last=pause_seconds is None)
            if not problem or pause_seconds is None:
                return
            await self._context.clock.sleep(pause_seconds)

    async def _problem_of(self, container_id: str, command: Sequence[str]) -> str:
        """Run the command; return '' when it succeeds, else the problem."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=COMMAND_SECONDS)
        try:
            reply = await self._context.channel.unary(EXEC, request.SerializeToString(), timeout_seconds=ANSWER_SECONDS)
        except CallFailed as error:
            return error.message
        except RuntimeUnavailable as error:
            return error.problem
        answer = pb.ExecSyncResponse.FromString(reply)
        if not answer.exit_code:
            return ""
        words = admit(answer.stderr[:OUTPUT_BYTES].decode(errors="replace").strip(), SHOWN_BYTES)
        return f"exit status {answer.exit_code}{': ' if words else ''}{words}"

    def _report(self, row: Row, problem: str, *, is_last: bool) -> None:
        self.run += 1
        if not problem:
            self._context.journal.noted_of(row, events.NOTIFIED)
            return
        self.failed += 1
        following = "given up until the next change" if is_last else "tried again"
        self._context.journal.noted_of(row, events.NOTIFY_FAILED, reason=problem, next=following)
