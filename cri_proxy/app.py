"""Wiring, signals, start and stop order; nothing else builds the daemon's objects.

Start: lock, store, machine, policy, then the relay (pass-through is served from here on), then recovery, which
opens the way for decisions. Stop: the relay first (held calls end or fail), then the node, the store, the lock.
"""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cri_proxy import events
from cri_proxy.clock import Clock, SystemClock
from cri_proxy.config.resources import available_now
from cri_proxy.config.settings import Settings
from cri_proxy.cri.device_hints import DeviceHints
from cri_proxy.cri.hints import cdi_names, hint_paths, pci_addresses
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CriProxyError
from cri_proxy.http.server import AdminServer
from cri_proxy.living import Built, Living, build, build_anyway
from cri_proxy.logs import configure_logging
from cri_proxy.node.cgroups import Cgroups
from cri_proxy.node.context import Rules
from cri_proxy.node.hotplug import Hotplug
from cri_proxy.node.journal import Journal, Log
from cri_proxy.node.node import Node, Outside, build_node
from cri_proxy.node.reader import Reader
from cri_proxy.node.telling import DIRECTORY
from cri_proxy.node.view import NodeView
from cri_proxy.podresources.lister import SOCKET, PodResources
from cri_proxy.relay.calls import Call, Forward, Interceptor, Interest, Outcome, Verdict
from cri_proxy.relay.intercept import CriInterceptor
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.state.lock import DeciderLock
from cri_proxy.state.store import Store
from policies.base import TopologyHint
from policies.errors import PolicyBaseError
from sysfs.cpuset import NodeSet
from sysfs.discover import discover
from sysfs.errors import SysfsBaseError
from sysfs.fingerprint import Fingerprint, fingerprint
from sysfs.model import Machine
from sysfs.reader import DirectoryTree

EMBEDDED = "embedded"
STOP_GRACE_SECONDS = 10.0


class Relay(Protocol):
    """What the splice and the grpc.aio relay have in common."""

    async def start(self) -> None:
        """Open the socket."""

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, give calls this long to end."""


class Daemon:
    """The whole daemon in one object: ``start``, ``stop``, and what the commands look at in between."""

    def __init__(self, settings: Settings, *, log: Log, machine: Machine | None = None) -> None:
        """Nothing is opened yet; ``machine`` replaces discovery (demo)."""
        self._settings = settings
        self._log = log
        self._machine = machine
        self._closing = AsyncExitStack()
        self.node: Node | None = None
        self.hotplug: Hotplug | None = None

    async def start(self) -> None:
        """Open everything in order and serve; recovery goes on in the background. Raises CriProxyError."""
        settings, config = self._settings, self._settings.config
        lock = DeciderLock.acquire(settings.state_dir)
        self._closing.callback(lock.release)
        store = Store.open(settings.state_dir / "state.db")
        self._closing.push_async_callback(store.close)  # the node closes it first, where the start gets that far
        if store.recovered:
            self._log.error(events.STORE_DAMAGED, reason=store.recovered)
        seen = self._fingerprint()
        built = build(config, self._present_machine(), self._cgroup_root)
        warnings = (*settings.warnings, *built.warnings)
        for warning in warnings:
            self._log.warning(events.CONFIG_WARNING, reason=warning)
        endpoint = await self._runtime_endpoint(built.machine)
        channel = RuntimeClient(endpoint)
        self._closing.push_async_callback(channel.close)
        clock = SystemClock()
        journal = Journal(self._log, clock)
        outside = Outside(
            channel,
            store,
            clock,
            journal,
            config.annotation_domains,
            told_root=settings.state_dir / DIRECTORY,
            kubelet_root=Path(config.kubelet_root),
            cpusets=Cgroups(self._cgroup_root),
        )
        node = build_node(built.policy, Rules.of(config), outside)
        self.node = node
        self._closing.push_async_callback(node.close)
        pod_resources = self._pod_resources(node, journal, clock)
        interceptor = CriInterceptor(node, self._reader(built, pod_resources))
        await self._open_relays(endpoint, interceptor)
        view = NodeView(node, journal, config=config, name=settings.node_name, warnings=warnings)
        await self._open_admin(view)
        living = Living(node, interceptor, view, lambda changed: self._reader(changed, pod_resources))
        hotplug = Hotplug(self._fingerprint, lambda: self._take_machine(living), clock=clock, observer=journal)
        hotplug.start_from(seen)
        self.hotplug = hotplug
        node.more_warnings.append(hotplug.warnings)
        # The kubelet may come: what needs no decision is served, and the rest waits for the runtime as it would
        # without us. To wait for it here would keep the node down while the runtime is.
        notify("READY=1\nSTATUS=waiting for the runtime")
        node.background.start(self._recover(node, hotplug), name="recover")

    async def stop(self) -> None:
        """Close everything in the reverse order."""
        notify("STOPPING=1")
        await self._closing.aclose()

    async def _recover(self, node: Node, hotplug: Hotplug) -> None:
        await node.recover()
        node.start_watching()
        if self._machine is None:
            node.keep_doing(hotplug.watch, "hotplug")
        self._log.info(events.READY, listen=self._settings.listen, runtime=self._settings.runtime_endpoint)
        # What start-up made stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        notify("STATUS=placing containers")

    @property
    def _cgroup_root(self) -> Path:
        """A machine that was handed in has no cgroups of its own; this node's would cut its CPUs."""
        return self._settings.sysfs_root if self._machine is None else self._settings.state_dir

    def _present_machine(self) -> Machine:
        """As discovered now, its notes logged. Blocks; raises SysfsBaseError."""
        machine = self._machine or discover(self._settings.sysfs_root)
        for note in machine.notes:
            self._log.warning(events.MACHINE_NOTE, reason=note)
        return machine

    def _fingerprint(self) -> Fingerprint:
        """What tells that the machine, or the cgroup that its available CPUs follow, has changed. Blocks."""
        tree = DirectoryTree(self._settings.sysfs_root)
        return (*fingerprint(tree), available_now(self._settings.config, self._cgroup_root))

    async def _take_machine(self, living: Living) -> str:
        """Put the machine as it is now in force; '' or why not."""
        config = living.view.config()
        try:
            machine = await asyncio.to_thread(self._present_machine)
            built = build_anyway(config, machine, self._cgroup_root)
        except (CriProxyError, PolicyBaseError, SysfsBaseError) as error:
            return str(error)
        before = living.node.context.ledger.policy.machine
        told = replace(built, warnings=(*self._settings.warnings, *built.warnings))
        problem = await living.change(told, must_fit=False)
        self._log.info(events.MACHINE_CHANGED, cpus=str(machine.online), before=str(before.online))
        return problem

    async def _runtime_endpoint(self, machine: Machine) -> str:
        """The runtime's socket; the embedded runtime gets one beside our own."""
        if self._settings.runtime_endpoint != EMBEDDED:
            return self._settings.runtime_endpoint
        from cri_proxy.runtime.embedded import EmbeddedRuntime
        from cri_proxy.runtime.server import RuntimeServer

        path = Path(self._settings.listen.removeprefix("unix://")).with_name("embedded.sock")
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

    async def _open_relays(self, endpoint: str, interceptor: Interceptor) -> None:
        await self._open_relay(self._settings.listen, endpoint, interceptor)
        if self._settings.image_listen and self._settings.image_endpoint:
            await self._open_relay(self._settings.image_listen, self._settings.image_endpoint, PassAll())

    async def _open_relay(self, listen: str, endpoint: str, interceptor: Interceptor) -> None:
        relay = make_relay(self._settings.relay, listen, endpoint, interceptor, on_error=self._relay_fault)
        await relay.start()
        self._closing.push_async_callback(relay.stop, STOP_GRACE_SECONDS)

    def _relay_fault(self, error: BaseException) -> None:
        self._log.error(events.FAULT, what="relay", reason=repr(error))

    async def _open_admin(self, view: NodeView) -> None:
        admin = AdminServer(view)
        await admin.listen_unix(self._settings.admin_socket)
        self._closing.push_async_callback(admin.close)
        problem = await admin.listen_tcp(self._settings.http)
        if problem:
            self._log.warning(events.HTTP_UNAVAILABLE, address=self._settings.http, reason=problem)


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


def make_relay(
    kind: str, listen: str, runtime: str, interceptor: Interceptor, *, on_error: Callable[[BaseException], None]
) -> Relay:
    """The relay of this kind; grpcio is loaded only for ``grpc``."""
    if kind == "grpc":
        from cri_proxy.relay.grpc_relay import GrpcRelay

        return GrpcRelay(listen=listen, runtime=runtime, interceptor=interceptor, on_error=on_error)
    from cri_proxy.relay.server import SpliceRelay

    return SpliceRelay(listen=listen, runtime=runtime, interceptor=interceptor, on_error=on_error)


def notify(state: str) -> None:
    """Tell systemd, where it asked to be told (sd_notify(3)); a failure to do so harms nobody."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Raises CriProxyError or SysfsBaseError when the start fails."""
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
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    daemon = Daemon(settings, log=log)
    try:
        await daemon.start()
        gc.freeze()  # what start-up made stays: the collector need not look at it
        gc.enable()
        await stopping.wait()
        log.info(events.STOPPING)
    finally:
        await daemon.stop()
    return 0
