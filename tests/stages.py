"""Runs the stages of ``make check`` and ``make test``, all of them, and sums up at the end.

``python tests/stages.py check e2e vm``: each argument is a group of stages or the name of one. They run one after
another, but for those of two lanes, which mostly wait: the lanes run at the same time. A stage that fails does not stop
the others. With ``CI=true`` a skipped test fails its stage: there everything that a test needs is installed, so a skip
means that something went unproved. One reason is excused: ``NO_CAPTURES``. Standard library only.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
REPORTS = ROOT / ".cache" / "reports"
# Captures of real hardware that belong to other projects. A clone is complete without them.
CAPTURES = ROOT.parent / "shared" / "sysfs"
NO_CAPTURES = "no captures of other projects beside the checkout, in ../shared/sysfs"
FAILURE_LINES = 8  # of each failed test at the end of all output: who sees only that knows what to look for
GRACE_SECONDS = 60.0  # from the interrupt to the kill: fixtures stop the daemons and machines that they started


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of a group. ``limit_seconds`` ends it: a hanging test must not hide the other stages' results.

    ``lane``: it runs beside the stages of other lanes, after all that have none.
    """

    group: str
    name: str
    command: tuple[str, ...]
    limit_seconds: float = 300
    lane: int = 0

    @property
    def report(self) -> Path | None:
        """Where pytest writes its JUnit report; None for other commands."""
        return REPORTS / f"{self.name}.xml" if self.command[0] == "pytest" else None


MUTANTS = ("--afresh", "--sample=200", "--seed=HEAD", "--jobs=2", "--patience=15", "--seconds=180", "--allowed=10")

STAGES = (
    Stage("check", "format", ("ruff", "format", "--check", "--quiet", ".")),
    Stage("check", "lint", ("ruff", "check", "--quiet", ".")),
    Stage("check", "types", ("mypy",), 600),
    Stage("check", "imports", ("lint-imports", "--no-logo")),
    Stage("check", "examples", ("pytest", "-q", "--doctest-modules", "sysfs", "policies", "cri_proxy")),
    # Three processes for two processors: they often wait for others that tests start. One that is done helps the rest.
    Stage("check", "tests", ("pytest", "-q", "-n", "3", "--dist", "worksteal"), 1800),
    # In a whole run 4 % survive, listed ones among them. What a sample has more by chance is not counted.
    Stage("mutants", "mutants", ("python", "-m", "tests.mutation", *MUTANTS), 900),
    # One after the other in one pytest: histories are killed while both wait for their daemons.
    Stage("kill", "kill", ("pytest", "-q", "tests/kill", "tests/restart"), 1800),
    # Half a processor each: the one waits for containerd, the other for time to pass and for an emulated machine.
    Stage("e2e", "e2e", ("pytest", "-q", "tests/e2e"), 1800, lane=1),
    Stage("e2e", "hostile", ("pytest", "-q", "-m", "containerd", "tests/hostile"), 1800, lane=1),
    Stage("e2e", "browser", ("pytest", "-q", "tests/browser"), 900, lane=1),
    Stage("soak", "soak", ("pytest", "-q", "tests/soak"), 1800, lane=2),
    Stage("vm", "vm", ("pytest", "-q", "tests/vm"), 2400, lane=2),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a stage's command ended: exit status, pytest's report ('' = none), and what we did to it ('' = nothing)."""

    stage: Stage
    seconds: float
    status: int
    report: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a stage. A command that is not pytest counts as one test."""

    stage: str
    seconds: float
    passed: int
    failed: int
    failures: tuple[tuple[str, str], ...] = ()  # the failed tests: name, and how it failed
    skipped: tuple[str, ...] = ()  # 'test: reason'
    problem: str = ""  # why the stage failed beyond failed tests

    @property
    def is_good(self) -> bool:
        return not self.failed and not self.problem


def main(wanted: Sequence[str]) -> int:
    """Run the wanted stages; 0 when all are good, 1 when one is not, 2 for an unknown name."""
    # Whoever starts this in the background has it ignore the signal, which is what ends a stage that hangs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stages = [s for s in STAGES if s.name in wanted or s.group in wanted]
    if unknown := set(wanted) - {s.name for s in STAGES} - {s.group for s in STAGES}:
        print(f"unknown stage {min(unknown)!r}; there are: {' '.join(s.name for s in STAGES)}", file=sys.stderr)
        return 2
    REPORTS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    lanes = [lane for number in {s.lane: None for s in stages} if (lane := [s for s in stages if s.lane == number])]
    beside = [lane for lane in lanes if lane[0].lane] if len(lanes) > 1 else []
    results = [result for lane in lanes if lane not in beside for result in Player().play(lane)]
    results += play_beside(beside)
    print("\n".join(summary(results, time.monotonic() - start)), flush=True)
    return 0 if all(r.is_good for r in results) else 1


def play_beside(lanes: Sequence[Sequence[Stage]]) -> list[Result]:
    """Run these lanes at the same time; the output of a stage is shown once it has ended, so that it stays together."""
    if not lanes:
        return []
    print(f"\n=== at the same time: {', and '.join(', '.join(s.name for s in lane) for lane in lanes)}", flush=True)
    player = Player(is_beside=True)
    with ThreadPoolExecutor(len(lanes)) as threads:
        played = [threads.submit(player.play, lane) for lane in lanes]
        try:
            return [result for lane in played for result in lane.result()]
        except KeyboardInterrupt:
            player.stop()
            raise


class Player:
    """Runs stages one after another. ``is_beside``: another lane is played at the same time."""

    def __init__(self, *, is_beside: bool = False) -> None:
        self._is_beside = is_beside
        self._is_stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._shown = threading.Lock()

    def play(self, stages: Sequence[Stage]) -> list[Result]:
        results: list[Result] = []
        for stage in stages:
            if self._is_stopped:
                break
            header = f"\n=== {stage.name}: {' '.join(stage.command)}"
            if not self._is_beside:
                print(header, flush=True)
                results.append(self.run(stage))
            else:
                with tempfile.TemporaryFile() as output:
                    results.append(self.run(stage, output.fileno()))
                    output.seek(0)
                    with self._shown:
                        print(header, output.read().decode(errors="replace"), sep="\n", flush=True)
            print(f"=== {stage.name}: {verdict(results[-1])}, {results[-1].seconds:.0f} s", flush=True)
        return results

    def run(self, stage: Stage, output: int | None = None) -> Result:
        """Run one stage to its end or limit, its output going straight through, or into this descriptor."""
        command = [str(BIN / stage.command[0]), *stage.command[1:]]
        if stage.report:
            stage.report.unlink(missing_ok=True)
            command += ["-rfEs", f"--junitxml={stage.report}"]
        start = time.monotonic()
        problem, status = "", 0
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        ) as process:
            self._running.add(process)
            try:
                status = process.wait(stage.limit_seconds)
            except subprocess.TimeoutExpired:
                problem = f"not done after {stage.limit_seconds:.0f} s"
                end_group(process)
            except KeyboardInterrupt:
                end_group(process)
                raise
            finally:
                self._running.discard(process)
        seconds = time.monotonic() - start
        report = stage.report.read_text() if stage.report and stage.report.exists() else ""
        ended = Ended(stage, seconds, status, report, problem)
        is_ci = os.environ.get("CI") == "true"
        return judge(ended, skips_fail=is_ci, excused=NO_CAPTURES if is_absent(CAPTURES) else None)

    def stop(self) -> None:
        """End what runs, and begin nothing else."""
        self._is_stopped = True
        for process in tuple(self._running):
            end_group(process)


def is_absent(path: Path) -> bool:
    """Whether nothing has this name. Behind a link that leads nowhere it is not absent but lost.

    Raises OSError where that cannot be seen.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return path.parent.exists() or not path.parent.is_symlink()
    return False


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the command, give it time to clean up, then kill whatever is left of its session."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def judge(ended: Ended, *, skips_fail: bool, excused: str | None = None) -> Result:
    """What a stage's end means: from its exit status and, for pytest, its report.

    Where skips fail the stage, those whose reason is ``excused`` do not.
    """
    name, seconds, problem = ended.stage.name, ended.seconds, ended.problem
    if ended.stage.report is None:
        good = ended.status == 0 and not problem
        return Result(name, seconds, passed=int(good), failed=int(not good), problem=problem)
    if not ended.report:
        return Result(name, seconds, 0, 0, problem=problem or f"pytest ended with status {ended.status}, no report")
    try:
        found = list(cases(ended.report))
    except ElementTree.ParseError as error:  # killed while it wrote
        return Result(name, seconds, 0, 0, problem=problem or f"pytest's report cannot be read: {error}")
    passed = sum(outcome == "passed" for _, outcome, _ in found)
    failures = tuple((test, how) for test, outcome, how in found if outcome == "failed")
    skipped = tuple(f"{test}: {reason}" for test, outcome, reason in found if outcome == "skipped")
    unproved = sum(outcome == "skipped" and reason != excused for _, outcome, reason in found)
    if not problem and unproved and skips_fail:
        problem = f"{unproved} skipped, and CI=true means that nothing may be"
    if not problem and ended.status and not failures:
        problem = f"pytest ended with status {ended.status}"
    return Result(name, seconds, passed, len(failures), failures, skipped, problem)


def cases(report: str) -> Iterator[tuple[str, str, str]]:
    """(test, 'passed' or 'failed' or 'skipped', reason or failure) of each test case in a JUnit report.

    An expected failure stands there as skipped; it is what the test said it would be, so it counts as passed.
    """
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        failed = [how for kind in ("failure", "error") for how in case.findall(kind)]
        if failed:
            yield name, "failed", failed[0].get("message", "")
        elif skipped is not None and skipped.get("type") != "pytest.xfail":
            yield name, "skipped", skipped.get("message", "")
        else:
            yield name, "passed", ""


def verdict(result: Result) -> str:
    """One phrase: good, or what was not."""
    if result.is_good:
        return "good"
    return "FAILED" + (f" ({result.problem})" if result.problem else "")


def summary(results: Sequence[Result], seconds: float) -> Iterator[str]:
    """The table of stages, what was skipped, and the counts in the last line."""
    yield f"\n{'stage':<10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"
    for r in results:
        row = f"{r.stage:<10} {r.passed:>7} {r.failed:>7} {len(r.skipped):>8} {r.seconds:>8.0f}"
        yield row if r.is_good else f"{row}  {verdict(r)}"
    for r in results:
        yield from (f"skipped in {r.stage}: {line}" for line in r.skipped)
        for test, how in r.failures:
            yield f"failed in {r.stage}: {test}"
            yield from (f"    {line[:300]}" for line in how.splitlines()[:FAILURE_LINES])
    passed = sum(r.passed for r in results)
    # A stage that broke without a failed test (no report, a forbidden skip, its limit) is one failure.
    failed = sum(r.failed or int(bool(r.problem)) for r in results)
    yield f"{passed} passed, {failed} failed in {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
