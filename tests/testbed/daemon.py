"""Start, restart, hand over and stop ``cri-proxy run`` as a child process, and query its admin socket."""

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cri_proxy.codec import decode
from cri_proxy.http.client import DaemonUnreachable, ask
from cri_proxy.node.status.decision_views import ExplainView
from cri_proxy.node.status.model import Health, StatusView
from tests.testbed.child import Child, Service
from tests.testbed.errors import TryoutError
from tests.testbed.wait import finish, until

READY_SECONDS = 60.0
LOG = "cri-proxy.log"


def program() -> tuple[str, ...]:
    """Return the command of ``cri-proxy``: the installed one beside this Python, else the package by this Python."""
    script = Path(sys.executable).with_name("cri-proxy")
    if script.exists():
        return (str(script),)
    return (sys.executable, "-c", "import sys; from cri_proxy.cli.main import main; sys.exit(main())")


def run_arguments(directory: Path, runtime_endpoint: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of ``cri-proxy``: sockets and state below ``directory``, then ``options``."""
    return (
        *("run", "--listen", f"unix://{directory}/cri-proxy.sock", "--runtime-endpoint", runtime_endpoint),
        *("--state-dir", str(directory / "state"), "--http", "off", *options),
    )


class AdminSocket:
    """A client of the admin socket; each query opens a connection."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def status(self) -> StatusView:
        """Return pools and containers now. Raises DaemonUnreachable."""
        return decode(StatusView, await asyncio.to_thread(ask, self.path, "/api/v1/status"))

    async def explain(self, pod: str) -> ExplainView:
        """Return why the containers of this pod (name or uid) are where they are. Raises DaemonUnreachable."""
        return decode(ExplainView, await asyncio.to_thread(ask, self.path, "/api/v1/explain", {"pod": pod}))

    async def health(self) -> Health:
        """Return the parts of readiness. Raises DaemonUnreachable."""
        return decode(Health, await asyncio.to_thread(ask, self.path, "/readyz", {"format": "json"}))

    async def decides(self) -> bool:
        """Return True when the daemon makes decisions, degraded or not; False also when it does not answer."""
        try:
            return not any(part.problem for part in (await self.health()).parts if part.name == "recovery")
        except DaemonUnreachable:
            return False


class DaemonProcess(Service):
    """``cri-proxy run`` as a child process."""

    def __init__(
        self,
        directory: Path,
        *,
        runtime_endpoint: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        ready_seconds: float = READY_SECONDS,
        command: Sequence[str] = (),
    ) -> None:
        """``directory`` holds sockets, state and log; ``options`` come last; ``command`` replaces ``cri-proxy``."""
        self.directory = directory
        self.endpoint = f"unix://{directory}/cri-proxy.sock"
        self.admin = AdminSocket(directory / "admin.sock")
        self.log = directory / LOG
        self._arguments = run_arguments(directory, runtime_endpoint, options)
        self._environment = environment
        self._program = tuple(command) or program()
        self._ready_seconds = ready_seconds

    async def start(self) -> None:
        """Start it and wait until it makes decisions. Raises TryoutError with the end of its log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._child = Child((*self._program, *self._arguments), log=self.log, environment=self._environment)
        try:
            await until("the daemon is ready", self._is_ready, seconds=self._ready_seconds)
        except BaseException:
            await finish(self.stop())
            raise

    async def take_over(self) -> Child:
        """Start a process that replaces this one; return the old one, which ends after its last client."""
        if self._child is None:
            raise TryoutError("taking over", "no daemon runs here")
        arguments = (*self._program, *self._arguments, "--take-over")
        old, self._child = self._child, Child(arguments, log=self.log, environment=self._environment)
        await until("the new process decides", self._has_taken_over, seconds=self._ready_seconds)
        return old

    async def _has_taken_over(self) -> bool:
        lock = (self.directory / "state" / "decider.lock").read_text().split()
        return lock[:1] == [str(self.pid)] and await self._is_ready()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """End it, as an operator does or by force; return the exit status. Safe to call twice."""
        child, self._child = self._child, None
        return None if child is None else await child.end(number=number)

    async def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and start it again on the same state."""
        await self.stop(number)
        await self.start()

    async def _is_ready(self) -> bool:
        if self._child is not None:
            self._child.require_running()
        return await self.admin.decides()
