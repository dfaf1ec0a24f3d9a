"""What containers and callers notice of another version of the daemon. Run: python benchmarks/upgrade.py TREE...

Each TREE is a checkout of another version (``git worktree add --detach TREE COMMIT``). For each, a private containerd
runs 20 containers behind that version; then this tree's takes its place, and that version this one's again: by a
restart, and where it can by ``--take-over``. Meanwhile two callers do what a kubelet does: one lists containers, the
other creates, starts and removes them, and each tries what fails again after 100 ms. Printed are how long a call took
from its first attempt to its answer, what the kernel let the containers run on (read every 10 ms), the updates that
the daemon says it sent, and the files of the store. ``PATH`` says which containerd and runc.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from tests.e2e.stage import Stage, TwoCpus
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.daemon import DaemonProcess
from tests.testbed.errors import TryoutError
from tests.testbed.kernel import Allowed, own_allowed, read_allowed
from tests.testbed.wait import until

OURS = Path(__file__).resolve().parent.parent
AGAIN_SECONDS = 0.1
LOOK_SECONDS = 0.01
AROUND_SECONDS = 1.5  # before and after a change
SETTLED_SECONDS = 5.0  # after a start, for updates that come late
CALL_SECONDS = 30.0
PROGRAM = "import sys; sys.path.insert(0, {tree!r}); from cri_proxy.cli.main import main; sys.exit(main())"


@dataclass(frozen=True, slots=True)
class Version:
    """A tree, and the schema version of the stores that its program writes."""

    name: str
    tree: Path
    schema: int

    @classmethod
    def of(cls, tree: Path) -> Self:
        """The version of a checkout."""
        asked = "from cri_proxy.state import migrate; print(len(migrate.STEPS))"
        found = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tree)!r}); {asked}"],
            check=True,
            capture_output=True,
            text=True,
            cwd=tree,
        )
        commit = ["git", "-C", str(tree), "log", "-1", "--format=%h of %as"]
        name = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
        return cls(f"{name}, schema {found.stdout.strip()}", tree, int(found.stdout))

    def daemon(self, directory: Path, runtime: str, options: tuple[str, ...]) -> DaemonProcess:
        """A daemon of this version on these sockets and this state."""
        command = (sys.executable, "-P", "-c", PROGRAM.format(tree=str(self.tree)))
        environment = {"PYTHONPATH": os.pathsep.join((str(self.tree), *os.environ.get("PYTHONPATH", "").split(":")))}
        return DaemonProcess(
            directory, runtime_endpoint=runtime, options=options, command=command, environment=environment
        )


@dataclass(slots=True)
class Caller:
    """What one caller waited for, in seconds from the first attempt to the answer, and how many attempts failed."""

    waits: list[float] = field(default_factory=list)
    failures: int = 0

    async def call(self, attempt: Callable[[], Awaitable[object]], *, counts: bool = True) -> object:
        """Try until it is answered."""
        begun = time.monotonic()
        while True:
            try:
                answer = await attempt()
            except (CallFailed, RuntimeUnavailable):
                self.failures += 1
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if counts:
                self.waits.append(time.monotonic() - begun)
            return answer


class Watch:
    """Callers and the kernel's answers around one change. ``async with`` begins and ends them."""

    def __init__(self, stage: Stage, processes: tuple[int, ...]) -> None:
        """``processes`` are the first ones of the containers that nothing may happen to."""
        self.lists, self.creates = Caller(), Caller()
        self.moved: set[int] = set()
        self._stage = stage
        self._processes = processes
        self._before = _allowed(processes)
        self._sandbox = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._sandbox = await self._stage.kubelet.run_sandbox(PodSpec("callers", (ContainerSpec("c"),)))
        self._tasks = [loop.create_task(each) for each in (self._list(), self._create(), self._look())]
        await asyncio.sleep(AROUND_SECONDS)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.sleep(AROUND_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._stage.remove_pod(self._sandbox)

    def report(self) -> None:
        """Print what was noticed."""
        for name, caller in (("list", self.lists), ("create or start", self.creates)):
            longest, usual = max(caller.waits), median(caller.waits)
            print(
                f"  a {name} waits {longest:.2f} s at most, {usual:.3f} usually; attempts that fail: {caller.failures}"
            )
        print(f"  moved in the kernel: {len(self.moved)} of {len(self._processes)} containers")

    async def _list(self) -> None:
        kubelet = self._stage.kubelet
        request = pb.ListContainersRequest()
        while True:
            await self.lists.call(lambda: kubelet.call("ListContainers", request, pb.ListContainersResponse))
            await asyncio.sleep(LOOK_SECONDS)

    async def _create(self) -> None:
        kubelet, spec, number = self._stage.kubelet, PodSpec("callers", (ContainerSpec("c"),)), 0

        async def create() -> str:
            nonlocal number
            number += 1  # a kubelet that knows no outcome counts up, too
            return await kubelet.create(spec, spec.containers[0], self._sandbox, attempt=number)

        while True:
            made = str(await self.creates.call(create))
            await self.creates.call(lambda made=made: kubelet.start(made))  # type: ignore[misc]
            await self.creates.call(lambda made=made: self._stage.direct.remove(made), counts=False)  # type: ignore[misc]

    async def _look(self) -> None:
        while True:
            now = _allowed(self._processes)
            self.moved |= {pid for pid in self._processes if now[pid] != self._before[pid]}
            await asyncio.sleep(LOOK_SECONDS)


def _allowed(processes: tuple[int, ...]) -> dict[int, Allowed]:
    return {pid: read_allowed(Path(f"/proc/{pid}/status").read_text()) for pid in processes}


class Bench:
    """One containerd with 20 containers, and one daemon after the other in front of it."""

    def __init__(self, containerd: PrivateContainerd, directory: Path, first: Version) -> None:
        """``directory`` has the daemons' sockets and state. ``first`` is to start first."""
        low, high, *_ = own_allowed().cpus
        self._two = TwoCpus(low, high)
        self._directory = directory
        self._containerd = containerd
        self.running = first
        self.stage = Stage(containerd, self._daemon(first))

    def _daemon(self, version: Version, *more: str) -> DaemonProcess:
        return version.daemon(self._directory, self._containerd.endpoint, (*self._two.options, *more))

    async def twenty(self) -> tuple[int, ...]:
        """Run one container that owns a CPU and 19 that share the other; return their first processes."""
        sharers = [ContainerSpec(f"c{number}", cpu_request_mcpu=10 * (number % 2)) for number in range(19)]
        shared, alone = await self.stage.run("shared", *sharers), await self.stage.run("alone", guaranteed("c0", 1000))
        await self.stage.gets(shared, self._two.both - await self.stage.cpus(alone))
        ids = [container_id for pod in (shared, alone) for _, container_id in pod.containers]
        return tuple([await self.stage.direct.pid(each) for each in ids])

    async def change(self, version: Version, processes: tuple[int, ...], *, take_over: bool = False) -> bool:
        """Put this version in the place of the one that runs, print what was noticed; return whether it serves."""
        updates, was = self._updates(), self.running
        old, new = self.stage.daemon, self._daemon(version, *(("--take-over",) if take_over else ()))
        print(f"\n{was.name} -> {version.name}{', taking over' * take_over}")
        async with Watch(self.stage, processes) as watch:
            begun = time.monotonic()
            if not take_over:
                await old.stop()
            stopped = time.monotonic()
            try:
                await new.start()
            except TryoutError as error:
                print(f"  it does not start: {str(error).strip().rpartition(chr(10))[2]}")
                self.stage.daemon = self._daemon(was)
                await self.stage.daemon.start()
                return False
            await until("the new process decides", self._decided_by(new), seconds=CALL_SECONDS)
            ready = time.monotonic()
            await asyncio.sleep(SETTLED_SECONDS)
        await old.stop()
        self.stage.daemon, self.running = new, version
        known = len((await new.admin.status()).containers)
        print(f"  the old one ends in {stopped - begun:.2f} s, the new one decides {ready - stopped:.2f} s later")
        watch.report()
        print(f"  updates sent: {self._updates() - updates}; containers known: {known}; store: {self._files()}")
        return True

    def _decided_by(self, daemon: DaemonProcess) -> Callable[[], Awaitable[bool]]:
        async def it_is() -> bool:
            words = (self._directory / "state" / "decider.lock").read_text().split()
            return words[:1] == [str(daemon.pid)] and await daemon.admin.decides()

        return it_is

    def _updates(self) -> int:
        log = self.stage.daemon.log
        return log.read_text().count('"event": "updated"') if log.exists() else 0

    def _files(self) -> str:
        return " ".join(sorted(path.name for path in (self._directory / "state").glob("state.db*")))


async def there_and_back(containerd: PrivateContainerd, version: Version, ours: Version) -> None:
    """Measure from this version to ours, and back."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-up-", dir="/tmp"))
    bench = Bench(containerd, directory, version)
    try:
        await bench.stage.daemon.start()
        processes = await bench.twenty()
        await bench.change(ours, processes)
        if await bench.change(version, processes):
            await bench.change(ours, processes, take_over=True)
        if bench.running is ours and version.schema >= ours.schema:
            await bench.change(version, processes, take_over=True)
        await bench.stage.remove_pods()
    finally:
        await bench.stage.daemon.stop()
        await bench.stage.close()
        shutil.rmtree(directory, ignore_errors=True)


async def measure(versions: list[Version], ours: Version) -> None:
    """Measure all of these against ours, on one containerd."""
    containerd = PrivateContainerd(Path(tempfile.mkdtemp(prefix="cri-proxy-up-", dir="/tmp")))
    try:
        await containerd.start()
        for version in versions:
            await there_and_back(containerd, version, ours)
    finally:
        await containerd.stop()


if __name__ == "__main__":
    subprocess.run(["containerd", "--version"], check=True)
    this = Version.of(OURS)
    asyncio.run(measure([this, *(Version.of(Path(tree).resolve()) for tree in sys.argv[1:])], this))
