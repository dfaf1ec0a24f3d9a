"""Wiring, signals, start and stop order; nothing else builds the daemon's objects.

Start: lock, machine, policy, then the relay (pass-through is served from here on), then the store, then recovery, which
opens the way for decisions. Stop: the relay first (held calls end or fail), then the node, the store, the lock.
In the place of another process the lock comes after the relay, and to hand over the relay ends last (``handover``).
"""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

from cri_proxy import events, metrics
from cri_proxy.adapting import Adapting
from cri_proxy.clock import Clock, SystemClock
from cri_proxy.config.settings import Instead, Settings
from cri_proxy.cri.device_hints import DeviceHints
from cri_proxy.cri.hints import cdi_names, hint_paths, pci_addresses
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import ConfigError
from cri_proxy.exposition import Sample
from cri_proxy.handover import ASK, DRAIN_SECONDS, HELD_SECONDS, Turn, successor_comes, unless
from cri_proxy.host import Host
from cri_proxy.http.routes import plan_route
from cri_proxy.http.server import AdminServer
from cri_proxy.http.view import Part
from cri_proxy.living import Built, Living, build_start
from cri_proxy.logs import change_logging, configure_logging
from cri_proxy.node.cgroups import Cgroups
from cri_proxy.node.context import Rules
from cri_proxy.node.journal import Journal, Log
from cri_proxy.node.node import Node, Outside, build_node
from cri_proxy.node.reader import Reader
from cri_proxy.node.telling import DIRECTORY
from cri_proxy.node.view import NodeView
from cri_proxy.own_process import process_samples, task_samples
from cri_proxy.podresources.lister import SOCKET, PodResources
from cri_proxy.relay.calls import Call, Forward, Interceptor, Interest, Outcome, Verdict
from cri_proxy.relay.gate import Gate
from cri_proxy.relay.intercept import CriInterceptor
from cri_proxy.relay.listener import answers, socket_path
from cri_proxy.relay.traffic import Traffic
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.state.database import require_known_version
from cri_proxy.state.store import Store
from cri_proxy.systemd import Watchdog, notify, passed_sockets, relay_works, watchdog_seconds
from cri_proxy.tasks import Tasks
from cri_proxy.version import version
from policies.base import TopologyHint
from sysfs.cpuset import NodeSet
from sysfs.model import Machine

EMBEDDED = "embedded"
STORE = "state.db"
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

    def __init__(self, settings: Settings, *, log: Log, machine: Machine | None = None) -> None:
        """Nothing is opened yet; ``machine`` replaces discovery (demo)."""
        self._settings = settings
        self._log = log
        self._host = Host(settings, log, machine)
        self._closing = AsyncExitStack()
        self._turn: Turn | None = None
        self._gate = Gate()
        self._grace_seconds = STOP_GRACE_SECONDS
        self._reload_is_wanted = False
        self._relays: list[Relay] = []
        self._traffic = Traffic()
        self.node: Node | None = None
        self.adapting: Adapting | None = None

    async def start(self) -> None:
        """Open everything in order and serve; recovery goes on in the background. Raises CriProxyError."""
        turn = self._turn = Turn.begin(self._settings.state_dir, takes_over=self._settings.takes_over)
        self._closing.callback(turn.end)
        host = self._host
        settings, seen, built = build_start(self._settings, host)
        self._settings, config = settings, settings.config
        if settings.instead is not None:
            self._tell_kept(settings.instead)
        warnings = (*settings.warnings, *built.warnings)
        for warning in warnings:
            self._log.warning(events.CONFIG_WARNING, reason=warning)
        endpoint = await self._runtime_endpoint(built.machine)
        clock = SystemClock()
        journal = Journal(self._log, clock)
        if turn.predecessor is not None:
            require_known_version(settings.state_dir / STORE)  # before anybody gives way to us
        await self._open_relays(endpoint, journal, take_over=turn.predecessor is not None)
        await turn.come(self._log)
        store = self._open_store()
        channel = RuntimeClient(endpoint)
        self._closing.push_async_callback(channel.close)
        outside = Outside(
            channel,
            store,
            clock,
            journal,
            config.annotation_domains,
            told_root=settings.state_dir / DIRECTORY,
            kubelet_root=Path(config.kubelet_root),
            cpusets=Cgroups(host.cgroup_root),
        )
        node = build_node(built.policy, Rules.of(config), outside)
        self.node = node
        self._closing.push_async_callback(node.close)
        pod_resources = self._pod_resources(node, journal, clock)
        interceptor = CriInterceptor(node, self._reader(built, pod_resources))
        self._gate.open(interceptor)
        view = NodeView(node, journal, config=config, name=settings.node_name, warnings=warnings)
        self._complete(view, channel, store)
        admin = await self._open_admin(view)
        living = Living(node, interceptor, view, lambda changed: self._reader(changed, pod_resources))
        self.adapting = Adapting(settings, living, host, clock=clock, observer=journal, seen=seen)
        admin.private["/api/v1/plan"] = plan_route(self.adapting.plan)
        # The kubelet may come: what needs no decision is served, and the rest waits for the runtime as it would
        # without us. To wait for it here would keep the node down while the runtime is.
        notify("READY=1\nSTATUS=waiting for the runtime")
        self._start_watchdog(endpoint)
        node.background.start(self._recover(node, self.adapting), name="recover")
        node.background.start(turn.when_alone(lambda: node.resync.check_all("the old process ended")), name="alone")

    async def stop(self) -> None:
        """Close everything in the reverse order."""
        notify("STOPPING=1")
        await self._close_relays(self._grace_seconds)
        await self._closing.aclose()

    def offer_handover(self) -> None:
        """Let a new process take over, where that is not systemd's to do: it would miss the process that it started."""
        is_watched = os.environ.get("NOTIFY_SOCKET") or passed_sockets(os.environ, os.getpid())
        if self._turn is not None and not is_watched and self._settings.runtime_endpoint != EMBEDDED:
            self._turn.offer()

    async def successor(self, asked: asyncio.Event) -> None:
        """Wait until another process has taken our sockets' names and asked for the lock."""
        listens = [socket_path(name) for name in (self._settings.listen, self._settings.image_listen) if name]
        await successor_comes(asked, self._relays, listens, self._log)

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

    def _open_store(self) -> Store:
        store = Store.open_or_wait(self._settings.state_dir / STORE)
        self._closing.push_async_callback(store.close)  # the node closes it first, where the start gets that far
        if store.recovered:
            self._log.error(events.STORE_DAMAGED, reason=store.recovered)
        return store

    def _tell_kept(self, instead: Instead) -> None:
        """Say as loudly as can be that the file is not what is in force."""
        change_logging(self._settings.config.log.level, self._settings.config.log.format)
        kept, problem = instead.kept, instead.problem
        self._log.error(
            events.CONFIG_KEPT,
            file=problem.path,
            line=problem.line or None,
            key=problem.key or None,
            reason=problem.problem,
            in_force_since=kept.since,
            sha256=kept.digest[:12],
            remedy=f"correct {problem.path}: it is taken over at once, without a restart",
        )

    def _complete(self, view: NodeView, channel: RuntimeClient, store: Store) -> None:
        """What the daemon around the node has to show."""
        if store.problem and self.node is not None:
            self.node.context.persistence.doubt(store.problem)
        view.reaches_runtime = channel.reaches_runtime
        view.more_parts.append(self._socket_part)
        view.more_samples += [self._traffic.samples, process_samples, task_samples, self._build_samples]

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

    async def _recover(self, node: Node, adapting: Adapting) -> None:
        await node.recover()
        node.start_watching()
        if self._reload_is_wanted:
            adapting.watch.ask()
        adapting.follow()
        self._log.info(events.READY, listen=self._settings.listen, runtime=self._settings.runtime_endpoint)
        # What start-up made stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        notify("STATUS=placing containers")

    def reload(self) -> None:
        """Take the configuration over as it is now, changed or not: at once, or as soon as decisions are made."""
        self._reload_is_wanted = True
        if self.adapting is not None:
            self.adapting.watch.ask()

    async def _runtime_endpoint(self, machine: Machine) -> str:
        """The runtime's socket; the embedded runtime gets one beside our own, unless somebody has one there."""
        if self._settings.runtime_endpoint != EMBEDDED:
            return self._settings.runtime_endpoint
        from cri_proxy.runtime.embedded import EmbeddedRuntime
        from cri_proxy.runtime.server import RuntimeServer

        path = Path(self._settings.listen.removeprefix("unix://")).with_name("embedded.sock")
        if answers(path):
            problem = f"another process has its embedded runtime at {path}; stop it or choose another directory"
            raise ConfigError(self._settings.listen, 0, "listen", problem)
        path.parent.mkdir(parents=True, exist_ok=True)
        server = RuntimeServer(EmbeddedRuntime(machine), f"unix://{path}")
        await server.start()
        self._closing.push_async_callback(server.stop)
        return f"unix://{path}"

    def _reader(self, built: Built, pod_resources: PodResources) -> Reader:
        """CRI messages as requests on this machine, with hints from where its devices are."""
        devices = DeviceHints(self._settings.sysfs_root)

        async def hints_of(config: pb.ContainerConfig) -> Sequence[TopologyHint]:
            paths, addresses, names = hint_paths(config), pci_addresses(config), cdi_names(config)
            # Files of a device that is being reset can take their time: never on the loop.
            return await asyncio.to_thread(devices.of, paths, addresses, names) if paths or names else ()

        memory_bytes = sum(node.memory_bytes for node in built.machine.nodes)
        asked = pod_resources if built.config.pod_resources else None
        return Reader(memory_bytes, built.config.annotation_domains, hints_of, asked)

    def _pod_resources(self, node: Node, journal: Journal, clock: Clock) -> PodResources:
        """The kubelet's word on devices; whether it is asked, the configuration in force says."""
        channel = RuntimeClient(f"unix://{Path(self._settings.config.kubelet_root) / SOCKET}")

        def known() -> NodeSet:
            return NodeSet.of(n.id for n in node.context.ledger.policy.machine.nodes)

        resources = PodResources(channel, clock, journal, known=known)
        self._closing.push_async_callback(resources.close)
        return resources

    async def _open_relays(self, endpoint: str, journal: Journal, *, take_over: bool) -> None:
        kind, images = self._settings.relay, (self._settings.image_listen, self._settings.image_endpoint)
        wanted: list[tuple[str, str, Interceptor]] = [(self._settings.listen, endpoint, self._gate)]
        if all(images):
            wanted.append((*images, PassAll()))
        for listen, runtime, looks in wanted:
            relay = relay_of(kind)(
                listen=listen,
                runtime=runtime,
                interceptor=looks,
                on_error=journal.relay_failed,
                take_over=take_over,
                traffic=self._traffic,
            )
            self._relays.append(relay)
            await relay.start()

    def _socket_part(self) -> Part:
        """Whether the kubelet finds us: a new start gives the sockets back."""
        problems = (relay.socket_problem() for relay in self._relays)
        return Part("socket", next((problem for problem in problems if problem), ""), is_vital=True)

    def _build_samples(self) -> tuple[Sample, ...]:
        policy = self.node.context.ledger.policy.name if self.node is not None else ""
        return (Sample(metrics.BUILD, 1, (version(), policy, self._settings.relay)),)

    async def _open_admin(self, view: NodeView) -> AdminServer:
        admin = AdminServer(view)
        await admin.listen_unix(self._settings.admin_socket)
        self._closing.push_async_callback(admin.close)
        problem = await admin.listen_tcp(self._settings.http)
        if problem:
            self._log.warning(events.HTTP_UNAVAILABLE, address=self._settings.http, reason=problem)
        return admin


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


def relay_of(kind: str) -> Callable[..., Relay]:
    """The constructor of this kind of relay; grpcio is loaded only for ``grpc``."""
    if kind == "grpc":
        from cri_proxy.relay.grpc_relay import GrpcRelay

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
