"""A machine of 128 CPUs with the embedded runtime on it, and the daemon in front as a process of its own."""

import asyncio
import contextlib
import re
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.status.model import StatusView
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from cri_proxy.state.process_lock import DeciderLock, LockHeld
from sysfs.descriptions.machine import describe
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.testbed.child import Child
from tests.testbed.daemon import DaemonProcess, program, run_arguments
from tests.testbed.errors import TryoutError
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

MACHINE = describe({"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"})
NODE = KubeletNode(256 << 30, log_directory="")
AT_ONCE = 8
SECONDS = 30.0
CAUGHT_UP_SECONDS = 90.0
"""Until everything is made up for: what a failed save or update has left out may wait for the slow check, twice."""


def spec(number: int) -> PodSpec:
    """Every fourth pod has whole CPUs, a fraction, shared CPUs with a request, and none."""
    container = (
        guaranteed("c", 1000),
        guaranteed("c", 500),
        ContainerSpec("c", cpu_request_mcpu=100),
        ContainerSpec("c"),
    )[number % 4]
    return PodSpec(f"pod-{number}", (container,))


class Place:
    """The runtime lives in this process, so what it was asked and what it holds can be looked at."""

    def __init__(self, directory: Path, relay: str, root: Path) -> None:
        """Nothing runs yet; everything is written below ``directory``. ``root`` has the machine's files."""
        self.directory = directory
        self.runtime_endpoint = f"unix://{directory}/runtime.sock"
        self._options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=2", "--relay", relay)
        self.runtime = self.new_runtime()
        self._server = RuntimeServer(self.runtime, self.runtime_endpoint)
        self.daemons: list[DaemonProcess] = []
        self.daemon = self.new_daemon()

    @staticmethod
    def new_runtime() -> ScriptedRuntime:
        return ScriptedRuntime(MACHINE, image_names=(IMAGE,))

    def command(self, *options: str) -> tuple[str, ...]:
        return (*program(), *run_arguments(self.directory, self.runtime_endpoint, (*self._options, *options)))

    def new_daemon(self, *options: str) -> DaemonProcess:
        given = (*self._options, *options)
        self.daemons.append(DaemonProcess(self.directory, runtime_endpoint=self.runtime_endpoint, options=given))
        return self.daemons[-1]

    async def start_runtime(self, runtime: ScriptedRuntime | None = None) -> None:
        self.runtime = runtime or self.runtime
        self._server = RuntimeServer(self.runtime, self.runtime_endpoint)
        await self._server.start()

    async def stop_runtime(self) -> None:
        """Its socket goes, its calls break, its containers run on."""
        await self._server.stop()

    @contextlib.asynccontextmanager
    async def kubelet(self) -> AsyncIterator[PodKubelet]:
        """Calls through the daemon, on a connection that is made anew when it breaks."""
        client = RuntimeClient(self.daemon.endpoint)
        try:
            yield PodKubelet(client, NODE)
        finally:
            await client.close()

    async def run_pods(self, count: int) -> list[RunningPod]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def run(kubelet: PodKubelet, number: int) -> RunningPod:
            async with slots:
                return await kubelet.run_pod(spec(number))

        async with self.kubelet() as kubelet:
            pods = await asyncio.gather(*(run(kubelet, number) for number in range(count)))
        await self.settled()
        return pods

    async def settled(self) -> None:
        """Wait until everybody is where it should be by the runtime's word, and nobody is moved."""

        async def is_at_rest() -> bool:
            before = len(self.runtime.updates)
            status = await self.status()
            await asyncio.sleep(0.2)
            return not not_there(status) and not status.violations and len(self.runtime.updates) == before

        await until("nobody is moved any more", is_at_rest, seconds=CAUGHT_UP_SECONDS)

    async def saved(self) -> None:
        """Wait until a kill would lose nothing: the answers to the last calls are saved after they were given."""

        async def it_is() -> bool:
            wanted = {(c.container_id, c.state, None) for c in (await self.status()).containers}
            with contextlib.closing(sqlite3.connect(self.directory / "state" / "state.db")) as connection:
                held = connection.execute("SELECT container_id, state, doubted FROM grants WHERE state != 'exited'")
                return set(held.fetchall()) == wanted

        await until("the store has what the daemon shows", it_is, seconds=CAUGHT_UP_SECONDS)

    async def status(self) -> StatusView:
        return await self.daemon.admin.status()

    async def measured(self, metric: str) -> int:
        """The value of this series, which has no labels, as a scraper sees it."""
        reader, writer = await asyncio.open_unix_connection(str(self.daemon.admin.path))
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        found = re.search(rf"^{metric} (\d+)", text, re.MULTILINE)
        assert found is not None
        return int(found[1])

    async def end_of_a_second(self) -> int:
        """The exit status of another daemon that is started in this place, and does not take over."""
        second = Child(self.command(), log=self.daemon.log)

        async def exit_status() -> int | None:
            return second.exit_status

        try:
            return await until("the second has ended", exit_status, seconds=SECONDS)
        finally:
            await second.end(number=signal.SIGKILL)

    def pinned(self) -> dict[str, tuple[str, str]]:
        return {c.id: (c.kernel_cpus, c.kernel_mems) for c in self.runtime.node.containers.values() if c.running}

    async def knows_its_containers(self, *, seconds: float) -> None:
        """Wait until the daemon shows exactly those that the runtime has and that run, or were never started.

        One whose start was turned away is such a one: its caller has left it there.
        """

        async def shown() -> set[str]:
            return {c.container_id for c in (await self.status()).containers}

        def held() -> set[str]:
            live = (pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING)
            return {c.id for c in self.runtime.node.containers.values() if c.state in live}

        async def alike() -> bool:
            return await shown() == held()

        with contextlib.suppress(TryoutError):  # said better below
            await until("the daemon knows what the runtime has", alike, seconds=seconds)
        assert await shown() == held()

    async def decides(self, pid: int) -> None:
        """Wait until this process has the lock and makes decisions."""

        async def it_does() -> bool:
            # A lock that is tried too early is in the way of the process that is to get it.
            noted = await asyncio.to_thread(noted_holder, self.directory / "state")
            if noted != pid:
                return False
            try:
                DeciderLock.acquire(self.directory / "state").release()
            except LockHeld as held:
                return held.pid == pid and await self.daemon.admin.decides()
            return False

        await until(f"process {pid} decides", it_does, seconds=SECONDS)


def noted_holder(state_dir: Path) -> int:
    """Return the process that has noted itself in the decider's lock, as it does when it has the lock; 0 = none."""
    try:
        words = (state_dir / "decider.lock").read_text().split()
    except OSError:
        return 0
    return int(words[0]) if words else 0


def not_there(status: StatusView) -> list[str]:
    """Containers that the runtime has not confirmed to be where they should be, or that it is told of once more."""
    return [
        c.container_id
        for c in status.containers
        if c.cpus not in (None, c.acknowledged_cpus)
        or c.mems not in (None, c.acknowledged_mems)
        or any("an update waits" in note for note in c.notes)
    ]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call: when it began and ended by the monotonic clock, and what it failed with ('' = it did not)."""

    begun_at: float
    ended_at: float
    failure: str = ""


@dataclass(slots=True)
class Traffic:
    """Version, over and over: what the kubelet asks and no policy looks at."""

    endpoint: str
    attempts: list[Attempt] = field(default_factory=list)
    _task: "asyncio.Task[None] | None" = None

    async def __aenter__(self) -> "Traffic":
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def failed(self) -> list[Attempt]:
        return [a for a in self.attempts if a.failure]

    async def _run(self) -> None:
        client = RuntimeClient(self.endpoint)
        request = pb.VersionRequest().SerializeToString()
        try:
            while True:
                begun_at, failure = time.monotonic(), ""
                try:
                    await client.unary(RUNTIME + "Version", request, timeout_seconds=SECONDS)
                except (CallFailed, RuntimeUnavailable) as error:
                    failure = str(error)
                self.attempts.append(Attempt(begun_at, time.monotonic(), failure))
                await asyncio.sleep(0.002)
        finally:
            await client.close()


class GrpcTraffic:
    """The same and more by a client that does what the kubelet's does when it is asked to leave (gRPC's C core).

    ``churn`` makes and removes pods: calls that are held and decided on.
    """

    def __init__(self, endpoint: str) -> None:
        # grpc-stubs demand serializers that grpcio leaves optional
        self._channel: Any = grpc.aio.insecure_channel(endpoint.replace("unix://", "unix:"))
        self.done = 0
        self.longest_seconds = 0.0
        self.failures: list[str] = []
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """As ``RuntimeChannel``; a failure is kept, and raised."""
        begun_at = time.monotonic()
        try:
            reply: bytes = await self._channel.unary_unary(method)(message, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            self.failures.append(f"{method}: {error.code().name}: {error.details()}")
            raise
        self.done += 1
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - begun_at)
        return reply

    def events(self) -> "grpc.aio.UnaryStreamCall[bytes, bytes]":
        """The kubelet's stream of container events, which has no end."""
        start = self._channel.unary_stream(RUNTIME + "GetContainerEvents")
        call: grpc.aio.UnaryStreamCall[bytes, bytes] = start(pb.GetEventsRequest().SerializeToString())
        return call

    def start(self, *, churn: bool) -> None:
        loop = asyncio.get_running_loop()
        work = [self._churn(1000), self._churn(2000)] if churn else [self._versions(), self._versions()]
        self._tasks = [loop.create_task(each) for each in work]

    async def end(self) -> None:
        """Let the last calls end. Raises what went wrong in between."""
        self._ending.set()
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        await self._channel.close(None)

    async def _versions(self) -> None:
        message = pb.VersionRequest().SerializeToString()
        while not self._ending.is_set():
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self.unary(RUNTIME + "Version", message, timeout_seconds=SECONDS)

    async def _churn(self, number: int) -> None:
        kubelet = PodKubelet(self, NODE)  # type: ignore[arg-type]  # it needs ``unary`` alone
        while not self._ending.is_set():
            number += 1
            with contextlib.suppress(grpc.aio.AioRpcError):
                pod = await kubelet.run_pod(spec(number))
                await kubelet.remove_pod(pod.sandbox_id)


@contextlib.asynccontextmanager
async def one_place(directory: Path, relay: str, root: Path) -> AsyncIterator[Place]:
    """A place whose runtime and daemon run."""
    place = Place(directory, relay, root)
    try:
        await place.start_runtime()
        await place.daemon.start()
        yield place
    finally:
        for daemon in place.daemons:
            daemon.send(signal.SIGKILL)
            await daemon.stop()
        await place.stop_runtime()
