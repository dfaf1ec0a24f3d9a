"""What is stuck in a daemon that runs: its loop, which systemd must learn of, or a client, which harms nobody else."""

import asyncio
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.daemon.app import STOP_GRACE_SECONDS
from cri_proxy.http2 import frames
from cri_proxy.intercept.gate import RUNTIME
from cri_proxy.unix_socket import socket_path
from tests.fakes.http2 import request
from tests.fakes.settable_clock import SET_BACK, program
from tests.fakes.sysfs_tree import write_tree
from tests.kill.scene import MACHINE, Scene
from tests.testbed.daemon import DaemonProcess
from tests.testbed.wait import until

WATCHDOG_SECONDS = 4.0
SLACK_SECONDS = 20.0
REQUESTS, REPLY_BYTES = 60, 100_000  # far more than sockets and the relay hold
HUGE = 1 << 30

# SIGUSR1 blocks the thread of a daemon's loop, as an endless loop in our code would; a file says that it does.
BLOCK = """
import os
def block(*_):
    open(os.environ["BLOCKED"], "w").close()
    time.sleep(3600)
signal.signal(signal.SIGUSR1, block)
"""


class Systemd:
    """The socket that the service manager listens on."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        self.blocked = path.with_name("blocked")
        self.environment = {
            "NOTIFY_SOCKET": str(path),
            "WATCHDOG_USEC": str(int(WATCHDOG_SECONDS * 1e6)),
            "BLOCKED": str(self.blocked),
        }

    def close(self) -> None:
        self._socket.close()

    async def sees_it_blocked(self) -> bool:
        return self.blocked.exists()

    def forget(self) -> None:
        while self._said():
            continue

    async def pinged(self, seconds: float) -> bool:
        """Whether the watchdog is pinged within this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if "WATCHDOG=1" in self._said():
                return True
            await asyncio.sleep(0.02)
        return False

    def _said(self) -> str:
        try:
            return self._socket.recv(4096).decode()
        except BlockingIOError:
            return ""


@contextmanager
def stage(relay: str) -> Iterator[tuple[Scene, Systemd]]:
    """A scene whose daemon is watched by systemd and can be blocked; nothing has started."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-stuck-", dir="/tmp"))
    systemd = Systemd(directory / "notify")
    try:
        scene = Scene(directory, 0)
        root = write_tree(directory / "watched", MACHINE)
        scene.daemon = DaemonProcess(
            directory,
            runtime_endpoint=f"unix://{directory}/runtime.sock",
            options=("--sysfs-root", str(root), "--reserved-resources", "cpu=cpuset:0", "--relay", relay),
            environment=systemd.environment,
            command=program(BLOCK),
        )
        yield scene, systemd
    finally:
        systemd.close()
        shutil.rmtree(directory)


async def played(act: Callable[[Scene, Systemd], Coroutine[object, object, None]]) -> None:
    """Both relays at once, each in a daemon of its own: most of it is waiting."""

    async def behind(relay: str) -> None:
        with stage(relay) as (scene, systemd):
            try:
                await scene.server.start()
                await scene.daemon.start()
                await act(scene, systemd)
            except Exception as error:
                error.add_note(f"relay {relay}")
                raise
            finally:
                await scene.close()

    async with asyncio.TaskGroup() as group:
        for relay in ("splice", "grpc"):
            group.create_task(behind(relay))


async def test_a_blocked_loop_is_silence_for_the_watchdog() -> None:
    async def act(scene: Scene, systemd: Systemd) -> None:
        assert await systemd.pinged(WATCHDOG_SECONDS + SLACK_SECONDS)
        scene.daemon.send(signal.SIGUSR1)
        await until("it stands still", systemd.sees_it_blocked, seconds=SLACK_SECONDS)
        systemd.forget()
        assert not await systemd.pinged(2 * WATCHDOG_SECONDS)
        assert scene.daemon.exit_status is None

    await played(act)


async def test_a_clock_that_is_set_back_stops_nothing() -> None:
    """Not the watchdog, not calls, not commands, and not the daemon's end."""

    async def act(scene: Scene, systemd: Systemd) -> None:
        await scene.kubelet.run_pod(PodSpec("before", (guaranteed("c", 1000),)))
        scene.daemon.send(SET_BACK)
        systemd.forget()
        assert await systemd.pinged(WATCHDOG_SECONDS + SLACK_SECONDS)
        async with asyncio.timeout(SLACK_SECONDS):
            await scene.kubelet.run_pod(PodSpec("after", (guaranteed("c", 1000),)))
            assert len((await scene.daemon.admin.status()).containers) == 2
        scene.daemon.send(signal.SIGTERM)
        assert await scene.ended(STOP_GRACE_SECONDS + SLACK_SECONDS) == "status 0"

    await played(act)


async def never_read(path: Path) -> socket.socket:
    """A client that asks and asks and reads no answer."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    greeting = frames.PREFACE + frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, HUGE)])
    await loop.sock_sendall(client, greeting + frames.window_update(0, HUGE))
    calls = [request(2 * number + 1, RUNTIME + "ListPodSandbox", b"") for number in range(REQUESTS)]
    await loop.sock_sendall(client, b"".join(calls))
    return client


async def test_a_client_that_reads_nothing_keeps_nobody_waiting() -> None:
    """Not other clients, not what has to be decided, not the watchdog, and not the daemon's end."""

    async def act(scene: Scene, systemd: Systemd) -> None:
        large = PodSpec("large", (), annotations=(("example.com/large", "v" * REPLY_BYTES),))
        await scene.kubelet.run_sandbox(large)
        with await never_read(socket_path(scene.daemon.endpoint)):
            async with asyncio.timeout(SLACK_SECONDS):
                await scene.kubelet.run_pod(PodSpec("web", (guaranteed("c", 1000),)))
            systemd.forget()
            assert await systemd.pinged(WATCHDOG_SECONDS + SLACK_SECONDS)
            scene.daemon.send(signal.SIGTERM)
            assert await scene.ended(STOP_GRACE_SECONDS + SLACK_SECONDS) == "status 0"

    await played(act)
