"""Runs mutants in one pytest that has collected its tests: each in a fork, against the tests of its function.

The process that collects runs no test itself, so it has no threads and no state, and every fork starts from the same.
"""

import faulthandler
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.mutation.live import LiveFunctions, NotLiveError, numbered_blocks
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.results import Fate

# A test of a mutant may take that much longer than it took before: other programs run on the machine as well.
_SLOWER: Final = 10
_SLOWER_SECONDS: Final = 3.0
_MEMORY_BYTES: Final = 4 << 30  # a mutant that fills a list without end


@dataclass(slots=True)
class Known:
    """What the run without a fault has shown: how long each test took, and which blocks of code it ran."""

    seconds: dict[str, float] = field(default_factory=dict)
    blocks: dict[str, list[int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Verdicts:
    """A pytest plugin that notes whether a test has failed."""

    def __init__(self) -> None:
        self.is_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.is_failed |= report.failed


class MutationRun:
    """A pytest plugin that runs mutants in the place of the collected tests."""

    def __init__(
        self, mutants: Sequence[Mutant], note: Callable[[Fate], None], *, jobs: int, patience: float, seconds: float
    ) -> None:
        """``patience``: seconds of tests before a mutant counts as one that survives. ``seconds``: of all mutants."""
        self._mutants = mutants
        self._note = note
        self._jobs = jobs
        self._patience = patience
        self._seconds = seconds
        self._verdicts = Verdicts()
        self._known = Known()
        self._kills: dict[str, Counter[str]] = defaultdict(Counter)  # tests by what they killed: function, module, area
        self.failed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.register(self._verdicts)
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # forks share it; one made late deletes the others'
        self._live = LiveFunctions()
        gc.collect()
        gc.freeze()
        self._known = self._run_unchanged(session.items)
        self.failed = self._known.failed
        self._numbers = numbered_blocks(self._mutants)
        self._by_block: dict[int, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            if item.nodeid not in self.failed:
                for block in self._known.blocks.get(item.nodeid, ()):
                    self._by_block[block].append(item)
        self._run_all()
        return True

    def _run_unchanged(self, items: Sequence[pytest.Item]) -> Known:
        """Run all tests in ``jobs`` forks, without a fault; the tests of a file stay together."""
        files = {file: number for number, file in enumerate(dict.fromkeys(item.path for item in items))}
        running = {}
        for job in range(self._jobs):
            mine = [item for item in items if files[item.path] % self._jobs == job]
            running[_fork(lambda mine=mine: self._watch(mine))] = b""  # type: ignore[misc]
        known = Known()
        for pipe, _ in list(running):
            with os.fdopen(pipe, "rb") as stream:
                told = json.loads(stream.read() or b"{}")
            known.seconds |= told.get("seconds", {})
            known.failed += told.get("failed", ["a fork ended early"])
            known.blocks |= told.get("blocks", {})
        for _, pid in running:
            os.waitpid(pid, 0)
        return known

    def _watch(self, items: Sequence[pytest.Item]) -> dict[str, object]:
        met = self._live.watch(self._mutants)
        seconds, blocks, failed = {}, {}, []
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._live.forget_results()
            met.clear()
            start = time.monotonic()
            self._verdicts.is_failed = False
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = time.monotonic() - start
            blocks[item.nodeid] = sorted(met)
            if self._verdicts.is_failed:
                failed.append(item.nodeid)
        return {"seconds": seconds, "blocks": blocks, "failed": failed}

    def _run_all(self) -> None:
        ends = time.monotonic() + self._seconds
        waiting = list(reversed(self._mutants))
        running: dict[int, tuple[int, Mutant, float]] = {}
        while waiting or running:
            while waiting and len(running) < self._jobs and time.monotonic() < ends:
                mutant = waiting.pop()
                items = self._order(mutant)
                if not items:
                    self._note(Fate.of(mutant, "untested", "", 0.0))
                    continue
                pipe, pid = _fork(lambda mutant=mutant, items=items: self._judge(mutant, items))  # type: ignore[misc]
                running[pipe] = pid, mutant, time.monotonic()
            if not running:
                return
            for pipe in select.select(list(running), [], [])[0]:
                pid, mutant, start = running.pop(pipe)
                self._end(pipe, pid, mutant, start)

    def _end(self, pipe: int, pid: int, mutant: Mutant, start: float) -> None:
        with os.fdopen(pipe, "rb") as stream:
            told = json.loads(stream.read() or b"{}")
        os.waitpid(pid, 0)
        status, by = told.get("status", "hung"), told.get("by", "")  # killed by a limit, it said nothing
        if status == "killed":
            self._kills[mutant.place][by] += 1
            self._kills[mutant.module.name][by] += 1
            self._kills[mutant.area][by] += 1
        self._note(Fate.of(mutant, status, by, time.monotonic() - start))

    def _order(self, mutant: Mutant) -> list[pytest.Item]:
        """The tests that come there: those that killed its neighbours, its own, those that killed others, the fastest.

        Where thousands come there, a slow one that finds much would not have its turn before the patience ends.
        """
        items = self._by_block.get(self._numbers[mutant.change.block], ())
        near, far, in_area = (self._kills[name] for name in (mutant.place, mutant.module.name, mutant.area))
        mirror = "/".join(("tests/unit", *mutant.module.file.relative_to(ROOT).parts[:-1]))
        mirror += f"/test_{mutant.module.file.stem}"

        def rank(item: pytest.Item) -> tuple[int, bool, int, int, float]:
            test = item.nodeid
            is_other = not test.startswith(mirror)
            return -near[test], is_other, -far[test], -in_area[test], self._known.seconds[test]

        return sorted(items, key=rank)

    def _judge(self, mutant: Mutant, items: Sequence[pytest.Item]) -> dict[str, object]:
        try:
            self._live.plant(mutant)
        except NotLiveError:
            return {"status": "untested"}
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        spent_seconds, done = 0.0, 0
        for item, following in zip(items, [*items[1:], None], strict=True):
            usual = self._known.seconds[item.nodeid]
            limit = _SLOWER * usual + _SLOWER_SECONDS
            signal.setitimer(signal.ITIMER_PROF, limit)  # CPU time: a loop without end. Its signal ends the process.
            faulthandler.dump_traceback_later(2 * limit, exit=True)  # a wait without end, in a fixture too
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._verdicts.is_failed:
                return {"status": "killed", "by": item.nodeid}
            done += 1
            spent_seconds += usual  # not what it took now: the same tests on a busy machine
            if spent_seconds > self._patience:
                break
        return {"status": "survived", "by": f"{done} of {len(items)} tests passed"}


def _fork(work: Callable[[], dict[str, Any]]) -> tuple[int, int]:
    """Do this work in a fork; the pipe that tells its result as JSON, and the process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        return reads, pid
    status = 1
    try:
        os.close(reads)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        told = work()
        with os.fdopen(writes, "w") as stream:
            json.dump(told, stream)
        status = 0
    finally:
        os._exit(status)
