"""The kubelet's evented PLEG as a client, and systemd as the holder of the proxy's socket."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from cri_proxy.cri.methods import RUNTIME
from tests.restart.place import Place

TRIES: Final = 5
"""What the kubelet grants its stream of container events in all its life: eventedPlegMaxStreamRetries."""

# The kubelet's CRI client: baseBackoffDelay and maxBackoffDelay. It gives a connection 5 s to be answered
# (minConnectionTimeout), which is left out: on a machine that runs other tests a process takes as long to start.
OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3000),
    ("grpc.min_reconnect_backoff_ms", 60_000),
    ("grpc.use_local_subchannel_pool", 1),
)


Start: TypeAlias = Callable[..., AbstractContextManager["subprocess.Popen[bytes]"]]
"""Start a process with these options; it is told to end at the end of the block."""


class EventedPleg:
    """Opens its stream again at once when that ends, after a relist; gives up after so many ends. It counts them all.

    As the kubelet's, it does not wait for a connection: a call fails where one was just refused.
    """

    def __init__(self, endpoint: str) -> None:
        self._channel: Any = grpc.aio.insecure_channel(endpoint.replace("unix://", "unix:"), options=OPTIONS)
        self.failures: list[str] = []

    @property
    def has_given_up(self) -> bool:
        return len(self.failures) >= TRIES

    async def run(self) -> None:
        while not self.has_given_up:
            try:
                async for _ in self._channel.unary_stream(RUNTIME + "GetContainerEvents")(b""):
                    continue
                self.failures.append("EOF")
            except grpc.aio.AioRpcError as error:
                self.failures.append(f"{error.code().name}: {error.details()}")
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._channel.unary_unary(RUNTIME + "ListPodSandbox")(b"")

    @classmethod
    @contextlib.asynccontextmanager
    async def following(cls, endpoint: str) -> "AsyncIterator[EventedPleg]":
        pleg = cls(endpoint)
        task = asyncio.get_running_loop().create_task(pleg.run())
        try:
            yield pleg
        finally:
            task.cancel()
            await asyncio.wait([task])
            await pleg._channel.close(None)


@contextlib.contextmanager
def socket_unit(place: Place) -> Iterator[Start]:
    """Listen as systemd does for cri-proxy.socket; give what starts a process with the socket as its number 3."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.directory / "cri-proxy.sock"))
        listening.listen(128)

        @contextlib.contextmanager
        def start(*options: str) -> Iterator[subprocess.Popen[bytes]]:
            script = f'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&{listening.fileno()}'
            command = ("bash", "-c", script, "bash", *place.command(*options))
            with (
                place.daemon.log.open("ab") as log,
                subprocess.Popen(command, pass_fds=[listening.fileno()], stdout=log, stderr=log) as process,
            ):
                try:
                    yield process
                finally:
                    process.terminate()

        yield start


def cpu_ticks(pid: int) -> int:
    """The CPU time that this process has had, as proc_pid_stat(5) counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def connected(path: str) -> socket.socket:
    """A connection that waits for somebody to accept it; the client's preface is sent."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    return client
