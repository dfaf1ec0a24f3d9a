"""How long a reload that moves everyone keeps the event loop from anything else. Run: python benchmarks/reload.py.

The daemon of ``cri-proxy run`` runs in this process, the runtime in one of its own, with 240 containers. The
configuration gives them one half of the machine's CPUs, then the other, and so on: everybody has to move, those with
CPUs of their own too. Of each reload, until the last update is confirmed, counts the longest turn of the loop: whoever
calls waits for it. A turn is measured in CPU time of the loop's thread; as a busy machine makes that longer as well,
it stands beside the longest turns while the containers were made, a decision each.
"""

import asyncio
import compileall
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.daemon import Bench, stop_process
from benchmarks.embedded_runtime import MACHINE
from benchmarks.installed import PACKAGES, ROOT
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.run import settings_from
from cri_proxy.daemon.app import Daemon
from cri_proxy.logs import configure_logging
from cri_proxy.relay.event_loop import RelayLoop
from sysfs.descriptions.machine import describe
from tests.testbed.wait import until

CONTAINERS = 240
RELOADS = 6
LONGEST_BAR_SECONDS = 0.010
HALVES = ("0-63,128-191", "64-127,192-255")
CONFIG = """
availableResources: {{cpu: "cpuset:{cpus}"}}
log: {{level: error, format: json}}
"""


class TimedLoop(RelayLoop):
    """The daemon's loop, with the longest turn since ``longest_seconds`` was set to 0."""

    longest_seconds = 0.0

    def _run_once(self) -> None:
        begin = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # asyncio's own, which nothing else tells the end of a turn
        self.longest_seconds = max(self.longest_seconds, time.thread_time() - begin)


class Reloads:
    """A daemon in this process; every number is that of the loop it runs on."""

    def __init__(self, bench: Bench) -> None:
        """``bench`` has the runtime and the sockets; nothing runs yet."""
        self._bench = bench
        self._file = bench.directory / "reload.yaml"
        self._write(0)
        words = [*bench.words[1:], "--config", str(self._file)]
        args = command_parser("run", load_command("run")).parse_args(words)
        self._daemon = Daemon(settings_from(args), log=configure_logging("error", "json"))

    def _write(self, number: int) -> None:
        self._file.write_text(CONFIG.format(cpus=HALVES[number % 2]))

    async def measure(self, loop: TimedLoop) -> tuple[list[float], list[float]]:
        """The longest turns: of making containers, several at a time, and of the reloads."""
        await self._daemon.start()
        try:
            await until("it decides", self._is_ready, seconds=60)
            making = []
            for first in range(0, CONTAINERS, CONTAINERS // RELOADS):
                loop.longest_seconds = 0.0
                await self._bench.run_pods(first, CONTAINERS // RELOADS)
                making.append(loop.longest_seconds)
            await until("everybody is in place", self._is_settled, seconds=60)
            return making, [await self._reload(number, loop) for number in range(1, RELOADS + 1)]
        finally:
            await self._daemon.stop()

    async def _reload(self, number: int, loop: TimedLoop) -> float:
        before = self._pinned()
        self._write(number)
        loop.longest_seconds = 0.0
        self._daemon.reload()
        await until("it was taken", lambda: self._was_taken(number), seconds=60)
        await until("everybody is in place", self._is_settled, seconds=60)
        longest = loop.longest_seconds
        after = self._pinned()
        stayed = sum(before[name] == after[name] for name in before)
        if stayed:
            raise SystemExit(f"{stayed} containers were to move and did not")
        return longest

    async def _is_ready(self) -> bool:
        return self._daemon.node is not None and self._daemon.node.coordinator.is_ready

    async def _was_taken(self, number: int) -> bool:
        watchers = self._daemon.watchers
        view = watchers.reloader.view() if watchers is not None else None
        if view is not None and view.rejected:
            raise SystemExit(view.last.reason if view.last is not None else "rejected")
        return view is not None and view.applied == number

    async def _is_settled(self) -> bool:
        return self._daemon.node is not None and not self._daemon.node.context.ledger.unmet()

    def _pinned(self) -> dict[str, str]:
        if self._daemon.node is None:
            return {}
        rows = self._daemon.node.context.ledger.active()
        return {row.grant.request.pod.name: str(row.acknowledged and row.acknowledged.cpus) for row in rows}


def main() -> None:
    """Measure and print."""
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=1)
    loop = TimedLoop()
    with tempfile.TemporaryDirectory() as name, asyncio.Runner(loop_factory=lambda: loop) as runner:
        bench = Bench(Path(name))
        runtime = bench.start_runtime()
        try:
            making, reloads = runner.run(Reloads(bench).measure(loop))
        finally:
            stop_process(runtime)
    cpus = len(describe(MACHINE).online)
    print(
        f"longest turn of the loop, {CONTAINERS} containers on {cpus} CPUs, of {RELOADS} reloads that move all: "
        f"median {median(reloads) * 1000:.1f} ms (bar {LONGEST_BAR_SECONDS * 1000:g} ms), "
        f"{min(reloads) * 1000:.1f} to {max(reloads) * 1000:.1f}; "
        f"making them: median {median(making) * 1000:.1f} ms, {max(making) * 1000:.1f} at most"
    )


if __name__ == "__main__":
    main()
