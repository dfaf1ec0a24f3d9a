"""Wiring, signals, start and stop order; nothing else builds the daemon's objects.

Start: lock; then the relay, and what needs no decision is served from here on; then what decides is loaded and built
(``deciding``: machine, policy, store, node); then recovery, which opens the way for decisions. Stop: the relay first
(held calls end or fail), then the node, the store, the lock. In the place of another process the relay comes after
machine and policy, and the lock after the relay; to hand over, the relay ends last (``handover``).
"""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cri_proxy import events
from cri_proxy.config.settings import Settings
from cri_proxy.daemon.handover import ASK, DRAIN_SECONDS, HELD_SECONDS, Takeover, unless, wait_for_successor
from cri_proxy.errors import ConfigError
from cri_proxy.intercept.gate import DecisionGate
from cri_proxy.logs import Log, configure_logging
from cri_proxy.relay.calls import Call, Forward, Interceptor, Interest, Outcome, Verdict
from cri_proxy.relay.traffic import Traffic
from cri_proxy.systemd import Watchdog, notify, passed_sockets, relay_works, watchdog_seconds
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import answers, socket_path

if TYPE_CHECKING:  # loaded by ``_engine``
    from cri_proxy.daemon.engine import Engine, OpenEngine
    from cri_proxy.daemon.watchers import Watchers
    from cri_proxy.node.node import Node
    from sysfs.model import Machine

EMBEDDED = "embedded"
STOP_GRACE_SECONDS = 10.0


class Relay(Protocol):
    """What the splice and the grpc.aio relay have in common."""

    async def start(self) -> None:
        """Open the socket."""

    async def leave(self) -> None:
        """Take no new clients, ask those that are there to leave; calls go on."""

    async def stop(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        """Stop accepting, give calls this long to end; with ``for_streams`` those that have no end of their own too."""

    def socket_problem(self) -> str:
        """Why nobody new can find it; '' while its socket is in its place."""


class Daemon:
    """The whole daemon in one object: ``start``, ``stop``, and what the commands look at in between."""

    def __init__(self, settings: Settings, *, log: Log, machine: "Machine | None" = None) -> None:
        """Nothing is opened yet; ``machine`` replaces discovery (demo)."""
        self._settings = settings
        self._log = log
        self._machine = machine
        self._closing = AsyncExitStack()
        self._takeover: Takeover | None = None
        self._gate = DecisionGate()
        self._grace_seconds = STOP_GRACE_SECONDS
        self._reload_is_wanted = False
        self._served: tuple[str, tuple[tuple[str, str], ...]] = ("", ())
        self._relays: list[Relay] = []
        self._traffic = Traffic()
        self._early_failures: list[BaseException] = []
        self._engine: Engine | None = None
        self._opened: OpenEngine | None = None

    @property
    def node(self) -> "Node | None":
        """What decides; None before it is there."""
        return self._opened.node if self._opened is not None else None

    @property
    def watchers(self) -> "Watchers | None":
        """What follows changes; None before it is there."""
        return self._opened.watchers if self._opened is not None else None

    async def start(self) -> None:
        """Open everything in order and serve; recovery goes on in the background. Raises CriProxyError."""
        takeover = self._takeover = Takeover.begin(self._settings.state_dir, takes_over=self._settings.takes_over)
        self._closing.callback(takeover.release)
        is_alone = takeover.predecessor is None
        if is_alone and self._can_serve_now():
            # Nobody else serves the kubelet, and most of the start is still to come: what needs no decision passes.
            await self._open_relays(self._settings.runtime_endpoint, take_over=False)
        engine = await asyncio.to_thread(_engine, self._settings, self._log, self._machine)
        self._take(engine)
        endpoint = await self._runtime_endpoint(engine.machine)
        if not is_alone:
            engine.require_readable_store()  # before anybody gives way to us
        await self._open_relays(endpoint, take_over=not is_alone)
        await takeover.wait_for_lock(self._log)
        opened = self._opened = await engine.open(
            endpoint, self._closing, traffic=self._traffic, socket_problem=self._socket_problem
        )
        self._gate.open(opened.interceptor)
        # The kubelet may come: what needs no decision is served, and the rest waits for the runtime as it would
        # without us. To wait for it here would keep the node down while the runtime is.
        notify("READY=1\nSTATUS=waiting for the runtime")
        self._start_watchdog(endpoint)
        node = opened.node
        node.background.start(self._recover(node, opened.watchers), name="recover")
        check = partial(node.resync.check_all, "the old process ended")
        node.background.start(takeover.after_predecessor(check), name="alone")

    def _can_serve_now(self) -> bool:
        """Whether the runtime is known before the machine is, and the sockets may be changed after that.

        What systemd passes cannot be opened twice, should the settings in force turn out to be others; and under its
        name callers wait anyway.
        """
        return self._settings.runtime_endpoint != EMBEDDED and not passed_sockets(os.environ, os.getpid())

    def _take(self, engine: "Engine") -> None:
        """From here on this one keeps the books, also of what went wrong before it was there."""
        self._engine, self._settings = engine, engine.settings
        for error in self._early_failures:
            engine.journal.relay_failed(error)
        self._early_failures.clear()

    async def stop(self) -> None:
        """Close everything in the reverse order."""
        notify("STOPPING=1")
        if self.node is None:
            await self._gate.close(0.0)  # who waits for a decision waits in vain
        await self._close_relays(self._grace_seconds)
        await self._closing.aclose()

    def offer_handover(self) -> None:
        """Let a new process take over, where that is not systemd's to do: it would miss the process that it started."""
        is_watched = os.environ.get("NOTIFY_SOCKET") or passed_sockets(os.environ, os.getpid())
        if self._takeover is not None and not is_watched and self._settings.runtime_endpoint != EMBEDDED:
            self._takeover.offer_handover()

    async def successor(self, asked: asyncio.Event) -> None:
        """Wait until another process has taken our sockets' names and asked for the lock."""
        listens = [socket_path(name) for name in (self._settings.listen, self._settings.image_listen) if name]
        await wait_for_successor(asked, self._relays, listens, self._log)

    async def hand_over(self) -> None:
        """Give place: no new clients, no held calls, no store, no lock; then let end what still passes."""
        self._log.info(events.HANDING_OVER)
        for relay in self._relays:
            await relay.leave()
        await self._gate.close(HELD_SECONDS)
        await self._closing.aclose()
        self._log.info(events.HANDED_OVER)
        self._grace_seconds = 0.0  # who is stopped from here on has been draining already
        await self._close_relays(DRAIN_SECONDS, for_streams=True)

    async def _close_relays(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        await asyncio.gather(*(relay.stop(grace_seconds, for_streams=for_streams) for relay in self._relays))

    def _start_watchdog(self, endpoint: str) -> None:
        """Ping systemd, where it waits for that, as long as the kubelet could be served."""
        limit_seconds = watchdog_seconds(os.environ, os.getpid())
        if limit_seconds is None:
            return
        reason = "new connections get no answer: systemd starts the daemon anew unless that changes"
        works = partial(relay_works, socket_path(self._settings.listen), socket_path(endpoint))
        watchdog = Watchdog(limit_seconds, works, lambda: self._log.error(events.FAULT, what="relay", reason=reason))
        pinging = Tasks()
        pinging.start(watchdog.watch(), name="watchdog")
        self._closing.push_async_callback(pinging.cancel)

    async def _recover(self, node: "Node", watchers: "Watchers") -> None:
        await node.recover()
        node.start_watching()
        if self._reload_is_wanted:
            watchers.watch.ask()
        watchers.follow()
        self._log.info(events.READY, listen=self._settings.listen, runtime=self._settings.runtime_endpoint)
        # What start-up made stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        notify("STATUS=placing containers")

    def reload(self) -> None:
        """Take the configuration over as it is now, changed or not: at once, or as soon as decisions are made."""
        self._reload_is_wanted = True
        if self.watchers is not None:
            self.watchers.watch.ask()

    async def _runtime_endpoint(self, machine: "Machine") -> str:
        """The runtime's socket; the embedded runtime gets one beside our own, unless somebody has one there."""
        if self._settings.runtime_endpoint != EMBEDDED:
            return self._settings.runtime_endpoint
        from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
        from cri_proxy.runtime.embedded.server import RuntimeServer

        path = Path(self._settings.listen.removeprefix("unix://")).with_name("embedded.sock")
        if answers(path):
            problem = f"another process has its embedded runtime at {path}; stop it or choose another directory"
            raise ConfigError(self._settings.listen, 0, "listen", problem)
        path.parent.mkdir(parents=True, exist_ok=True)
        server = RuntimeServer(EmbeddedRuntime(machine), f"unix://{path}")
        await server.start()
        self._closing.push_async_callback(server.stop)
        return f"unix://{path}"

    async def _open_relays(self, endpoint: str, *, take_over: bool) -> None:
        """Serve on the sockets of the settings in force, by their relay, and on no others."""
        kind, images = self._settings.relay, (self._settings.image_listen, self._settings.image_endpoint)
        sockets = ((self._settings.listen, endpoint), *((images,) if all(images) else ()))
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
            self._engine.journal.relay_failed(error)

    def _socket_problem(self) -> str:
        return next((problem for problem in (relay.socket_problem() for relay in self._relays) if problem), "")


class PassAll:
    """Wants nothing: the separate image socket is a plain relay."""

    def wants(self, method: str) -> Interest:
        """Untouched bytes."""
        return Interest.PASS

    async def on_request(self, call: Call) -> Verdict:
        """Never asked."""
        return Forward()

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Never told."""


def _engine(settings: Settings, log: Log, machine: "Machine | None") -> "Engine":
    """What decides, with these settings on this machine. Blocks: to load it is most of a start."""
    from cri_proxy.daemon.engine import Engine

    return Engine(settings, log, machine)


def relay_of(kind: str) -> Callable[..., Relay]:
    """The constructor of this kind of relay; grpcio is loaded only for ``grpc``."""
    if kind == "grpc":
        from cri_proxy.relay.grpcio.relay import GrpcRelay

        return GrpcRelay
    from cri_proxy.relay.server import SpliceRelay

    return SpliceRelay


def run(settings: Settings) -> int:
    """Serve until SIGTERM, SIGINT or a successor. Raises CriProxyError or SysfsBaseError when the start fails."""
    log = configure_logging(settings.config.log.level, settings.config.log.format)
    return run_on_loop(_serve(settings, log))


def run_on_loop(work: Coroutine[object, object, int]) -> int:
    """Run this on uvloop where it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def _serve(settings: Settings, log: Log) -> int:
    stopping, succeeded = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    daemon = Daemon(settings, log=log)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload)
    loop.add_signal_handler(ASK, succeeded.set)
    try:
        await unless(stopping, daemon.start())
        gc.freeze()  # what start-up made stays: the collector need not look at it
        gc.enable()
        if not stopping.is_set():
            daemon.offer_handover()
            await unless(stopping, daemon.successor(succeeded))
        if not stopping.is_set():
            await unless(stopping, daemon.hand_over())
        log.info(events.STOPPING)
    finally:
        await daemon.stop()
    return 0
