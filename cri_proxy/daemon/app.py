"""The daemon process of ``cri-proxy run``: order of start, stop and handover; signals, watchdog, choice of relay.

Start: the lock; the relay, which serves calls that need no decision from here on; then the engine is loaded and built
(machine, policy, store, node); recovery enables decisions. Stop: decisions, the node with its last saves, the relay,
the lock, within STOP_SECONDS whatever hangs. When it replaces another process, the relay comes after machine and
policy and the lock after the relay; when it is replaced, the relay ends last (``handover``).
"""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from cri_proxy import events
from cri_proxy.config.settings import Settings
from cri_proxy.daemon.handover import ASK, DRAIN_SECONDS, HELD_SECONDS, Takeover, noted_by, unless, wait_for_successor
from cri_proxy.daemon.helper_watch import HelperWatch
from cri_proxy.daemon.memory import collect_while_loading, without_python_messages
from cri_proxy.daemon.relay_probe import RelayProbe, log_lost_sockets, relay_works
from cri_proxy.errors import ConfigError
from cri_proxy.helper_process import Launcher
from cri_proxy.intercept.gate import DecisionGate
from cri_proxy.logs import Log, configure_logging
from cri_proxy.relay.boundary import Relay
from cri_proxy.relay.calls import Call, Forward, Interceptor, Interest, Outcome, Verdict
from cri_proxy.relay.event_loop import run_on_loop
from cri_proxy.relay.traffic import Traffic
from cri_proxy.state.process_lock import note_holder
from cri_proxy.systemd import Watchdog, notify, passed_sockets, watchdog_seconds
from cri_proxy.tasks import Tasks, hear_signals
from cri_proxy.unix_socket import answers, socket_path

if TYPE_CHECKING:  # loaded late, by ``_engine``
    from cri_proxy.daemon.engine import Engine, OpenEngine
    from cri_proxy.daemon.watchers import Watchers
    from cri_proxy.node.node import Node
    from cri_proxy.node.status.model import HealthPart
    from sysfs.model import Machine

EMBEDDED = "embedded"
STOP_SECONDS: Final = 4.8
"""From the signal to the end of the process, whatever hangs; the next process is started after that."""
STOP_GRACE_SECONDS: Final = 4.2
"""From the signal until calls in flight are cut; what is left of STOP_SECONDS is for the last bytes to clients."""
DECIDED_SECONDS: Final = 1.0
"""For decisions under way and the runtime's answers to them; later answers pass, and the next process asks for them."""
CLOSING_SECONDS: Final = 3.2
"""For the node to close, the last saves among it."""


class Daemon:
    """The daemon in one object: ``start``, ``stop``, and what tests and benchmarks read in between."""

    def __init__(
        self, settings: Settings, *, log: Log, machine: "Machine | None" = None, helpers: HelperWatch | None = None
    ) -> None:
        """Nothing is opened yet; ``machine`` replaces discovery (demo), ``helpers`` has the launcher of helpers."""
        self._helpers = helpers
        self._launcher = helpers.launcher if helpers is not None else None
        self._settings = settings
        self._log = log
        self._machine = machine
        self._closing, self._closing_last = AsyncExitStack(), AsyncExitStack()
        self._takeover: Takeover | None = None
        self._gate = DecisionGate()
        self._grace_seconds = STOP_GRACE_SECONDS
        self._is_closed = False
        self._reload_is_wanted = False
        self._served: tuple[str, tuple[tuple[str, str], ...]] = ("", ())
        self._relays: list[Relay] = []
        self._traffic = Traffic()
        self._early_failures: list[BaseException] = []
        self._engine: Engine | None = None
        self._opened: OpenEngine | None = None

    @property
    def node(self) -> "Node | None":
        """The node; None before the engine is open."""
        return self._opened.node if self._opened is not None else None

    @property
    def watchers(self) -> "Watchers | None":
        """The watchers of machine and configuration; None before the engine is open."""
        return self._opened.watchers if self._opened is not None else None

    async def start(self) -> None:
        """Open everything in order and serve; recovery goes on in the background. Raises CriProxyError."""
        takeover = self._takeover = await Takeover.begin_when_offered(
            self._settings.state_dir,
            takes_over=self._settings.takes_over,
            note=note_holder if self._launcher is None else noted_by(self._launcher),
        )
        is_alone = takeover.predecessor is None
        if is_alone and self._settings.config.runtime_endpoint != EMBEDDED:
            # No other process serves the kubelet, and most of the start is still to come. A socket of systemd's has
            # callers waiting, who give up after some seconds without an answer (docs/upgrade.md).
            await self._open_relays(self._settings.config.runtime_endpoint, take_over=False)
        # On a thread: most of a start is loading modules, and the relay serves meanwhile.
        engine = await asyncio.to_thread(_engine, self._settings, self._log, self._machine, self._launcher)
        self._use(engine)
        endpoint = await self._runtime_endpoint(engine.machine)
        if not is_alone:
            await engine.require_readable_store()  # before the other process gives way
        await self._open_relays(endpoint, take_over=not is_alone)
        # The sockets are ours by now: the old process may be asked to leave, which cannot be withdrawn.
        await takeover.wait_for_lock(self._log)
        opened = self._opened = await engine.open(endpoint, self._closing, traffic=self._traffic, health=self._health)
        self._gate.open(opened.interceptor)
        # The kubelet may connect: calls that need a decision wait for the runtime, as they would without a proxy.
        # Waiting here would keep the node down as long as the runtime is.
        notify("READY=1\nSTATUS=waiting for the runtime")
        self._start_watchdog(endpoint)
        node = opened.node
        node.keep_doing(partial(log_lost_sockets, self._socket_problem, self._log), "sockets")
        node.background.start(self._recover(node, opened.watchers), name="recover")
        check = partial(node.resync.check_all, "the old process ended")
        node.background.start(takeover.after_predecessor(check), name="alone")

    def _use(self, engine: "Engine") -> None:
        """Use this engine and its settings, and let its journal record the relay's earlier errors."""
        self._engine, self._settings = engine, engine.settings
        for error in self._early_failures:
            engine.journal.failed_open("relay", error)
        self._early_failures.clear()

    async def stop(self) -> None:
        """Close everything in order; what needs no decision is served until the last saves are done."""
        notify("STOPPING=1")
        loop = asyncio.get_running_loop()
        cut_seconds = loop.time() + self._grace_seconds
        if not self._is_closed:
            await self._gate.close(DECIDED_SECONDS if self.node is not None else 0.0)
            await self._close_engine()
        await self._close_relays(max(0.0, cut_seconds - loop.time()))
        await self._closing_last.aclose()
        self._release_lock()

    async def _close_engine(self) -> None:
        """Close the node, the store and all that stands on them."""
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._closing.aclose()

    def _release_lock(self) -> None:
        if self._takeover is not None:
            self._takeover.release()

    def offer_handover(self) -> None:
        """Let a new process take over, unless systemd supervises this one: it would lose track of its main process."""
        is_watched = os.environ.get("NOTIFY_SOCKET") or passed_sockets(os.environ, os.getpid())
        if self._takeover is not None and not is_watched and self._settings.config.runtime_endpoint != EMBEDDED:
            self._takeover.offer_handover()

    async def successor(self, asked: asyncio.Event) -> None:
        """Wait until another process has taken over the socket paths and asked for the lock."""
        config = self._settings.config
        listens = [socket_path(name) for name in (config.listen, config.image_listen) if name]
        await wait_for_successor(asked, self._socket_problems, listens, self._log)

    async def hand_over(self) -> None:
        """Hand over: no new clients, no held calls, no store, no lock; then let passing calls end."""
        self._log.info(events.HANDING_OVER)
        for relay in self._relays:
            await relay.leave()
        await self._gate.close(HELD_SECONDS)
        await self._close_engine()
        self._release_lock()
        self._log.info(events.HANDED_OVER)
        self._grace_seconds = 0.0  # a stop from here on: calls have had their time
        await self._close_relays(DRAIN_SECONDS, for_streams=True)

    async def _close_relays(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        await asyncio.gather(*(relay.stop(grace_seconds, for_streams=for_streams) for relay in self._relays))

    def _start_watchdog(self, endpoint: str) -> None:
        """Ping systemd's watchdog, if it is on, unless the relay is stuck."""
        limit_seconds = watchdog_seconds(os.environ, os.getpid())
        if limit_seconds is None:
            return
        works = partial(relay_works, socket_path(self._settings.config.listen), socket_path(endpoint))
        watchdog = Watchdog(limit_seconds, RelayProbe(works, self._log).is_fine)
        pinging = Tasks()
        pinging.start(watchdog.watch(), name="watchdog")
        self._closing.push_async_callback(pinging.cancel)

    async def _recover(self, node: "Node", watchers: "Watchers") -> None:
        await node.recover()
        node.start_watching()
        if self._reload_is_wanted:
            watchers.reload()
        watchers.follow()
        config = self._settings.config
        self._log.info(events.READY, listen=config.listen, runtime=config.runtime_endpoint)
        # Objects from start-up stay: the collector need not visit them again.
        gc.collect()
        gc.freeze()
        notify("STATUS=placing containers")

    def reload(self) -> None:
        """Apply configuration and cost files as they are, changed or not: at once, or as soon as decisions are made."""
        self._reload_is_wanted = True
        if self.watchers is not None:
            self.watchers.reload()

    async def _runtime_endpoint(self, machine: "Machine") -> str:
        """Return the runtime's socket; the embedded runtime gets one beside ours, unless another process has it."""
        config = self._settings.config
        if config.runtime_endpoint != EMBEDDED:
            return config.runtime_endpoint
        from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
        from cri_proxy.runtime.embedded.server import RuntimeServer

        path = Path(config.listen.removeprefix("unix://")).with_name("embedded.sock")
        if answers(path):
            problem = f"another process has its embedded runtime at {path}; stop it or choose another directory"
            raise ConfigError(config.listen, 0, "listen", problem)
        path.parent.mkdir(parents=True, exist_ok=True)
        server = RuntimeServer(EmbeddedRuntime(machine), f"unix://{path}")
        await server.start()
        # After the relays: on a socket of systemd's they would accept clients and hang up on each.
        self._closing_last.push_async_callback(server.stop)
        return f"unix://{path}"

    async def _open_relays(self, endpoint: str, *, take_over: bool) -> None:
        """Serve on the sockets of the settings in force, with their kind of relay, and on no others."""
        config = self._settings.config
        kind, images = config.relay, (config.image_listen, config.image_endpoint)
        sockets = ((config.listen, endpoint), *((images,) if all(images) else ()))
        # The relays may stand since before the machine was known: what is in force now may name other sockets.
        if (kind, sockets) == self._served:
            return
        await self._close_relays(0.0)
        self._relays, self._served = [], (kind, sockets)
        looks: tuple[Interceptor, ...] = (self._gate, PassAll())
        for (listen, runtime), interceptor in zip(sockets, looks, strict=False):
            relay = relay_of(kind)(
                listen=listen,
                runtime=runtime,
                interceptor=interceptor,
                on_error=self._relay_failed,
                take_over=take_over,
                traffic=self._traffic,
            )
            self._relays.append(relay)
            await relay.start()

    def _relay_failed(self, error: BaseException) -> None:
        if self._engine is None:
            self._early_failures.append(error)
        else:
            self._engine.journal.failed_open("relay", error)

    def _health(self) -> Iterator["HealthPart"]:
        from cri_proxy.node.status.model import HealthPart

        # Only a restart of the daemon restores a lost socket.
        yield HealthPart("socket", self._socket_problem(), is_vital=True)
        yield HealthPart("helpers", self._helpers.problem if self._helpers is not None else "")

    def _socket_problem(self) -> str:
        return next(filter(None, self._socket_problems()), "")

    def _socket_problems(self) -> Iterator[str]:
        return (relay.socket_problem() for relay in self._relays)


class PassAll:
    """The interceptor of the separate image socket: a plain relay."""

    def wants(self, method: str) -> Interest:
        """Pass every method."""
        return Interest.PASS

    async def on_request(self, call: Call) -> Verdict:
        """Forward; never called."""
        return Forward()

    async def stand_in(self, method: str) -> None:
        """Leave every call to the runtime; never called."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Ignore; never called."""


def _engine(settings: Settings, log: Log, machine: "Machine | None", launcher: Launcher | None) -> "Engine":
    """Load and build the engine. Blocks: loading is most of a start."""
    with collect_while_loading(), without_python_messages():
        from cri_proxy.daemon.engine import Engine

    return Engine(settings, log, machine, launcher)


def relay_of(kind: str) -> Callable[..., Relay]:
    """Return the constructor of this kind of relay; grpcio is loaded only for ``grpc``."""
    if kind == "grpc":
        from cri_proxy.relay.grpcio.relay import GrpcRelay

        return GrpcRelay
    from cri_proxy.relay.server import SpliceRelay

    return SpliceRelay


def run(settings: Settings, launcher: Launcher, leave: Callable[[int], NoReturn]) -> int:
    """Serve until SIGTERM, SIGINT or a successor, and end the process.

    ``launcher`` starts helpers for files; ``leave`` ends the process with a status and joins no thread. Raises
    CriProxyError or SysfsBaseError when the start fails.
    """
    log = configure_logging(settings.config.log.level, settings.config.log.format)
    return run_on_loop(_serve(settings, log, launcher, leave))


async def _serve(settings: Settings, log: Log, launcher: Launcher, leave: Callable[[int], NoReturn]) -> NoReturn:
    stopping, succeeded = asyncio.Event(), asyncio.Event()
    # On a thread: whatever the loop waits for at the end, the process ends in time.
    bound = threading.Timer(STOP_SECONDS, leave, (1,))
    bound.daemon = True

    def stop() -> None:
        if not stopping.is_set():
            bound.start()
        stopping.set()

    status, watching = 0, Tasks()

    def end_without_helpers() -> None:
        nonlocal status
        status = 1  # so that the service manager starts another daemon
        stop()

    helpers = HelperWatch(launcher, log, end_without_helpers)
    watching.start(helpers.keep(), name="helpers")
    daemon = Daemon(settings, log=log, helpers=helpers)
    hear_signals({signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: daemon.reload, ASK: succeeded.set})
    try:
        await unless(stopping, daemon.start())
        gc.freeze()  # objects from start-up stay: the collector need not visit them
        gc.enable()
        if not stopping.is_set():
            daemon.offer_handover()
            await unless(stopping, daemon.successor(succeeded))
        if not stopping.is_set():
            await unless(stopping, daemon.hand_over())
        log.info(events.STOPPING)
    finally:
        # First: a launcher that ends meanwhile would be replaced, or make the status 1.
        await watching.cancel()
        await daemon.stop()
    leave(status)
