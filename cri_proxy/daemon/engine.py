"""Build and wire what decides: machine, policy, store, node, interceptor, watchers, and the admin HTTP with its status.

Nearly all of the daemon's code. ``app`` loads it while the relay serves already, builds it once, and opens it when
this process may decide.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from cri_proxy import events
from cri_proxy.clock import SystemClock
from cri_proxy.config.settings import Fallback, Settings
from cri_proxy.cri.annotations.cache import AnnotationCache
from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.daemon.admin import AdminParts, admin_server
from cri_proxy.daemon.apply import Built, Host, HostApplier, build_start
from cri_proxy.daemon.device_sources import DeviceSources
from cri_proxy.daemon.loop_lag import LoopLag
from cri_proxy.daemon.status import HostFiles, HttpAddress, LiveDaemonStatus, Warns
from cri_proxy.daemon.watchers import Watchers
from cri_proxy.errors import ConfigError
from cri_proxy.file_workers import FileWorkers
from cri_proxy.helper_process import Launcher
from cri_proxy.http.server import AdminServer
from cri_proxy.in_force.last_good_writer import StateDirectory
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.locality import POD_WORKERS, LocalityLookup
from cri_proxy.intercept.reader import Reader
from cri_proxy.kubelet.late_devices import LateDevices
from cri_proxy.kubelet.plugin_devices import RegisteredDevices
from cri_proxy.kubelet.pod_resources import BUDGET_SECONDS, SOCKET, PodResources
from cri_proxy.kubelet.reservation_watch import ReservationWatch
from cri_proxy.logs import Log, change_logging
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.drift.cgroups import Cgroups
from cri_proxy.node.drift.runtime_affinity import read_allowed
from cri_proxy.node.drift.writes import InotifyWrites
from cri_proxy.node.node import NO_DIRECTORY, Environment, Node
from cri_proxy.node.persistence import GATHER_SECONDS, Persistence
from cri_proxy.node.resource_files.notify import EXEC, OUTPUT_BYTES
from cri_proxy.node.resource_files.updates import DIRECTORY
from cri_proxy.node.status.model import HealthPart
from cri_proxy.node.status.view import NodeView
from cri_proxy.node.sync.claims import ClaimSources
from cri_proxy.relay.traffic import Traffic
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.state.database import require_known_version
from cri_proxy.state.store import Store
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import socket_path
from policies.base import Request
from sysfs.cpuset import NodeSet
from sysfs.model import Machine

if TYPE_CHECKING:  # loaded where it is used
    from cri_proxy.node_topology.source import TopologySource

_STORE = "state.db"
STORE_LOOK_SECONDS = 10.0  # before another process gives way; it serves meanwhile
HOST_WORKERS = 4  # the state directory, the kubelet's, and room for two that take their time


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """The open engine. ``interceptor`` passes the node's decisions to the relay."""

    node: Node
    watchers: Watchers
    interceptor: CriInterceptor


class Engine:
    """Built at once; ``open`` starts it."""

    def __init__(
        self, settings: Settings, log: Log, machine: Machine | None = None, launcher: Launcher | None = None
    ) -> None:
        """Resolve the configuration for this machine, and log the warnings.

        ``machine`` replaces discovery; without ``launcher`` files are read and written in this process. Blocks.
        Raises ConfigError, PolicyBaseError and SysfsBaseError.
        """
        self._log = log
        self._launcher = launcher
        self._host = Host(settings, log, machine)
        self.settings, self._seen, self._built = build_start(settings, self._host)
        """The settings in force: the last known good ones where the file does not work."""
        self.machine = self._built.machine
        if self.settings.fallback is not None:
            self._log_kept(self.settings.fallback)
        for warning in (*self.settings.warnings, *self._built.warnings):
            log.warning(events.CONFIG_WARNING, reason=warning)
        self._clock = SystemClock()
        self.journal = Journal(log, self._clock)

    async def require_readable_store(self) -> None:
        """Raise StoreError if a newer program wrote it, and FilesFailed if its disk does not answer."""
        files, path = FileWorkers(self._launcher, most=1), self.settings.state_dir / _STORE
        try:
            await files.run(str(path.parent), require_known_version, path, within_seconds=STORE_LOOK_SECONDS)
        finally:
            files.close()

    async def open(
        self, endpoint: str, closing: AsyncExitStack, *, traffic: Traffic, health: Callable[[], Iterable[HealthPart]]
    ) -> OpenEngine:
        """Open everything in order, in front of this runtime; ``closing`` closes it. Nothing is restored yet.

        ``traffic`` is the relays', ``health`` returns that of relays and helpers. Raises CriProxyError.
        """
        settings, config = self.settings, self.settings.config
        files = HostFiles(FileWorkers(self._launcher, most=HOST_WORKERS), FileWorkers(self._launcher, most=POD_WORKERS))
        closing.callback(files.close)  # closed in reverse order: the last saves of what follows need these workers
        saves = Tasks(lambda error: self.journal.failed_open("background", error))
        closing.push_async_callback(saves.cancel)
        state = StateDirectory(settings.state_dir, saves, self.journal, files.of_host)
        devices = DeviceSources(config, settings.sysfs_root, state, clock=self._clock)
        store, _ = await asyncio.gather(self._open_store(closing), devices.begin())  # containers wait for both
        channel = RuntimeClient(endpoint, max_reply_bytes={EXEC: OUTPUT_BYTES})
        closing.push_async_callback(channel.close)
        environment = self._environment(channel, store, files.of_host)
        inventory = await devices.joined(config, self._built.machine)
        self._built = self._built.with_devices(inventory)
        node = Node(self._built.policy, config, environment)
        closing.push_async_callback(node.close)
        lookup = LocalityLookup(settings.sysfs_root, files.of_pods)
        await lookup.cdi.remember_in(state)
        devices.use(config, node.context.ledger.policy.known)
        if store.problem:
            node.context.persistence.mark_incomplete(store.problem)  # as after a disk that fails later
        pod_resources = self._pod_resources(node, files.of_host, closing)
        reader_of = partial(_reader, lookup, pod_resources, node.context.annotations)
        interceptor = CriInterceptor(node, reader_of(self._built))
        node.coordinator.config_warnings = (*self.settings.warnings, *self._built.warnings)
        node.adoption.use_claims(_claim_sources(lookup, pod_resources, node))
        applier = HostApplier(node, interceptor, reader_of, self._host, devices, self._built)
        self._watch_plugins(node, files.of_host, applier, closing)
        _hold_late_devices(node, pod_resources, lookup)
        watchers = Watchers(settings, applier, state, clock=self._clock, seen=self._seen)
        http = HttpAddress(self._log)
        lag = _measured_lag(closing)
        health = await self._with_lister(node, files.of_host, health, closing)
        topology = self._topology(node, watchers)
        also = tuple(self._that_warn(node, topology, files.of_host))
        around = LiveDaemonStatus(
            node, channel, watchers, devices, also, http, files, lag, traffic, health, config.relay
        )
        view = NodeView(node, name=settings.node_name, daemon=around)
        parts = AdminParts(settings, node, interceptor, watchers, view, topology, self.journal, self._clock)
        admin = admin_server(parts, http, self._log)
        await self._open_admin(admin, http, closing)
        return OpenEngine(node, watchers, interceptor)

    def _environment(self, channel: RuntimeClient, store: Store, files: FileWorkers) -> Environment:
        settings = self.settings
        return Environment(
            channel,
            store,
            self._clock,
            self.journal,
            files_root=settings.state_dir / DIRECTORY,
            kubelet_root=Path(settings.config.kubelet_root),
            cpusets=Cgroups(self._host.cgroup_root),
            writes=InotifyWrites,
            files=files,
            allowed=partial(read_allowed, self._host.cgroup_root),
            persistence=partial(Persistence, gather_seconds=GATHER_SECONDS),
        )

    async def _open_store(self, closing: AsyncExitStack) -> Store:
        path = self.settings.state_dir / _STORE
        opening = partial(Store.open_or_wait, path, launcher=self._launcher)
        store = await asyncio.to_thread(opening)
        closing.push_async_callback(store.close)  # after a complete start the node closes it first
        if store.recovered:
            self._log.error(events.STORE_DAMAGED, reason=store.recovered)
        return store

    def _log_kept(self, fallback: Fallback) -> None:
        """Log as an error that the file is not in force."""
        change_logging(self.settings.config.log.level, self.settings.config.log.format)
        kept, problem = fallback.kept, fallback.problem
        self._log.error(
            events.CONFIG_KEPT,
            file=problem.path,
            line=problem.line or None,
            key=problem.key or None,
            reason=problem.problem,
            in_force_since=kept.since,
            sha256=kept.digest[:12],
            remedy=f"correct {problem.path}: it is applied at once, without a restart",
        )

    def _pod_resources(self, node: Node, files: FileWorkers, closing: AsyncExitStack) -> PodResources:
        """Return the client of the kubelet's device list; the configuration in force decides whether it is asked."""
        root = self.settings.config.kubelet_root
        socket = Path(root) / SOCKET
        channel = RuntimeClient(f"unix://{socket}")
        resources = PodResources(
            channel,
            self._clock,
            self.journal,
            known=lambda: NodeSet.of(n.id for n in node.context.ledger.policy.machine.nodes),
            look=lambda: files.run(root, os.path.lexists, socket, within_seconds=BUDGET_SECONDS),
        )
        closing.push_async_callback(resources.close)
        return resources

    def _watch_plugins(self, node: Node, files: FileWorkers, applier: HostApplier, closing: AsyncExitStack) -> None:
        """Ask the kubelet now and then what plugins have registered, off the path of every call."""
        root = self.settings.config.kubelet_root
        socket = Path(root) / SOCKET
        channel = RuntimeClient(f"unix://{socket}")
        registered = RegisteredDevices(
            channel,
            self._clock,
            self.journal,
            is_asked=lambda: node.coordinator.config.pod_resources,
            look=lambda: files.run(root, os.path.lexists, socket, within_seconds=BUDGET_SECONDS),
        )
        closing.push_async_callback(registered.close)
        node.keep_doing(
            partial(registered.watch, lambda: applier.take_registered(registered.devices)), "devices of plugins"
        )

    async def _with_lister(
        self,
        node: Node,
        files: FileWorkers,
        health: Callable[[], Iterable[HealthPart]],
        closing: AsyncExitStack,
    ) -> Callable[[], Iterable[HealthPart]]:
        """Answer the pod resources API, where a socket is named for it; return the health with that of this socket.

        One that cannot be opened keeps no container from starting: it is logged, and a part of the health.
        """
        listen, root = self.settings.config.pod_resources_listen, Path(self.settings.config.kubelet_root)
        if not listen:
            return health
        from cri_proxy.kubelet.lister.answers import LedgerGrants
        from cri_proxy.kubelet.lister.lister import Lister
        from cri_proxy.kubelet.lister.socket import UnaryServer

        channel = RuntimeClient(f"unix://{root / SOCKET}")
        closing.push_async_callback(channel.close)
        look = partial(files.run, str(root), os.path.lexists, root / SOCKET, within_seconds=BUDGET_SECONDS)
        granted = LedgerGrants(node.context.ledger)
        lister = Lister(channel, granted.now, self._clock, self.journal, look=look)
        server = UnaryServer(lister.call, lambda error: self.journal.failed_open("pod resources", error))
        closing.push_async_callback(server.close)
        problem = ""
        try:
            await server.start(socket_path(listen), root / SOCKET)
        except ConfigError as error:
            problem = str(error)
            self._log.warning(events.CONFIG_WARNING, reason=f"podResourcesListen: {problem}")
        return lambda: (*health(), HealthPart("pod resources", problem or server.problem()))

    def _topology(self, node: Node, watchers: Watchers) -> "Callable[[], TopologySource]":
        """Return what makes the node's NodeResourceTopology object; it is loaded when that is asked for."""

        @cache
        def source() -> "TopologySource":
            from cri_proxy.node_topology.source import TopologySource

            return TopologySource(node, self.settings.node_name, lambda: watchers.reloader.view().digest)

        return source

    def _that_warn(self, node: Node, topology: "Callable[[], TopologySource]", files: FileWorkers) -> Iterator[Warns]:
        """Start and yield more parts with warnings: the kubelet's reservation, and the file of the object, if any."""
        yield self._reservation(node, files)
        path = self.settings.config.node_topology_file
        if path:
            from cri_proxy.node_topology.source import TopologyFile

            file = TopologyFile(topology(), Path(path), node, files)
            node.keep_doing(file.follow, "node topology")
            yield file

    def _reservation(self, node: Node, files: FileWorkers) -> ReservationWatch:
        """Return the watch of the kubelet's reservation, started. No kubelet runs on a machine that was given."""
        kubelet_root = NO_DIRECTORY if self._host.is_given else Path(self.settings.config.kubelet_root)
        watch = ReservationWatch(
            (self._host.cgroup_root, kubelet_root),
            files,
            lambda: node.context.ledger.policy,
            clock=self._clock,
            warn=lambda warning: self.journal.noted(events.CONFIG_WARNING, reason=warning),
        )
        node.keep_doing(watch.watch, "kubelet reservation")
        return watch

    async def _open_admin(self, admin: AdminServer, http: HttpAddress, closing: AsyncExitStack) -> None:
        await admin.listen_unix(self.settings.admin_socket)
        closing.push_async_callback(admin.close)
        problem = await admin.listen_tcp(self.settings.config.http)
        if problem:
            http.failed(self.settings.config.http, problem)


def _measured_lag(closing: AsyncExitStack) -> LoopLag:
    """Return the lag of this loop, measured until ``closing`` ends it."""
    lag = LoopLag(asyncio.get_running_loop())
    lag.start()
    closing.callback(lag.stop)
    return lag


def _claim_sources(lookup: LocalityLookup, pod_resources: PodResources, node: Node) -> ClaimSources:
    """Return where claims of containers are looked up that run without a grant."""

    async def told_of(request: Request) -> ToldDevices:
        """Return its devices by the kubelet; none where this is not asked or does not answer."""
        if not node.coordinator.config.pod_resources:
            return NOTHING_TOLD
        return await pod_resources.told(request.pod, request.container.name)

    return ClaimSources(lookup.cdi.claim_variables, told_of, lookup.proofs)


def _hold_late_devices(node: Node, pod_resources: PodResources, lookup: LocalityLookup) -> None:
    """Hold what the kubelet has given to running containers, as far as their creation did not learn of it."""
    asked = node.coordinator
    late = LateDevices(node, lambda: pod_resources if asked.config.pod_resources else None, lookup.proofs)
    node.keep_doing(late.watch, "late devices")


def _reader(lookup: LocalityLookup, pod_resources: PodResources, cache: AnnotationCache, built: Built) -> Reader:
    """Return the reader of CRI messages for this machine, with the locality of its devices."""
    memory_bytes = sum(node.memory_bytes for node in built.machine.nodes)
    asked = pod_resources if built.config.pod_resources else None
    return Reader(memory_bytes, built.config, lookup.of, asked, cache, lookup.cdi, lookup.functions, lookup.proofs)
