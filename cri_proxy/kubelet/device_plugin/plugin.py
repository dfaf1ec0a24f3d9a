"""Run a device plugin: keep its sockets in place, its resources registered, and its devices as the sources say.

The kubelet removes all sockets of its plugin directory when it starts, and then makes its own: each plugin has to open
its socket again and register. Source: devicemanager of the kubelet, v1.36.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from grpc import aio

from cri_proxy import events, systemd
from cri_proxy.clock import Clock
from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.device_files.cdi_hardware import proofs_in
from cri_proxy.device_files.pci_functions import functions_at
from cri_proxy.errors import ConfigError
from cri_proxy.file_workers import FileWorkers
from cri_proxy.foreign_text import admit
from cri_proxy.in_force.symlinks import Lookups, directories_to_watch
from cri_proxy.in_force.watch import OnThreads, Watch
from cri_proxy.inventory.driver_names import DriverIdentifiers
from cri_proxy.inventory.health_watch import HealthWatch
from cri_proxy.kubelet.device_plugin.resource import OPTIONS, NodeFiles, served_resource
from cri_proxy.kubelet.device_plugin.server import ResourceService
from cri_proxy.kubelet.device_plugin.settings import PluginResource, PluginSettings
from cri_proxy.kubelet.device_plugin.sources import PluginKnowledge
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb
from cri_proxy.logs import Log
from cri_proxy.tasks import Tasks
from policies.devices import EMPTY_INVENTORY

KUBELET_SOCKET: Final = "kubelet.sock"
VERSION: Final = "v1beta1"
REGISTER_SECONDS: Final = 15.0
"""For an answer: the kubelet connects to the plugin first, for which it takes up to ten seconds."""
RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""After each failed attempt; the last one holds for all that follow."""

_CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
)

SocketId = tuple[int, int, int]
"""Device, inode and time of change: another file has another of them, be its inode the one that was freed last."""


@dataclass(frozen=True, slots=True)
class PluginSockets:
    """The plugin directory's sockets: the kubelet's socket (None: there is none), and our own that are missing."""

    kubelet: SocketId | None
    missing: frozenset[str] = frozenset()


class PluginDirectory:
    """The directory as ``in_force.watch.BlockingPlace``."""

    def __init__(self, path: Path, endpoints: Iterable[str], missing: Callable[[], frozenset[str]]) -> None:
        """``endpoints`` are the names that our sockets may have; ``missing`` returns those that are not in place."""
        self.path = path
        self._names = (KUBELET_SOCKET, *endpoints)
        self._missing = missing

    def read(self) -> PluginSockets:
        """Return what is there now. Blocks; raises nothing."""
        return PluginSockets(socket_id(self.path / KUBELET_SOCKET), self._missing())

    def lookups(self) -> Lookups:
        """Return the directories on the way to the sockets, with the names that matter there."""
        found = directories_to_watch(self.path / name for name in self._names)
        return {directory: frozenset(names) for directory, names in found.items()}


def socket_id(path: Path) -> SocketId | None:
    """Return the identity of this socket, which another one under its name does not have; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


async def register(directory: Path, resource: PluginResource) -> str:
    """Tell the kubelet of a resource, whose socket is open; return why it does not take it, '' where it does.

    The kubelet's words are cut and cleaned.
    """
    request = pb.RegisterRequest(
        version=VERSION, endpoint=resource.endpoint, resource_name=resource.name, options=OPTIONS
    )
    async with aio.insecure_channel(f"unix:{directory / KUBELET_SOCKET}", options=_CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register", pb.RegisterRequest.SerializeToString, pb.Empty.FromString
        )
        try:
            await call(request, timeout=REGISTER_SECONDS)
        except aio.AioRpcError as error:
            problem = f"{error.code().name.lower()}: {error.details() or 'no reason given'}"
            return f"{resource.name}: the kubelet does not register it: {admit(problem)}"
    return ""


def retry_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row.

    >>> retry_seconds(1), retry_seconds(100)
    (1.0, 30.0)
    """
    return RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1]


class StreamLosses:
    """Streams that the kubelet has broken off: a kubelet that does so at once each time is not asked each second."""

    def __init__(self) -> None:
        """Start with none."""
        self._count = 0
        self._last_seconds = 0.0

    def one_more(self, now_seconds: float) -> int:
        """Return how many there were in a row, this one too; after a longer life of a stream counting begins again."""
        is_soon = now_seconds - self._last_seconds < 2 * RETRY_SECONDS[-1]
        self._count = self._count + 1 if self._count and is_soon else 1
        self._last_seconds = now_seconds
        return self._count


_NOWHERE: Final = PluginSockets(None)


class DevicePlugin:
    """One process that offers all resources of a node. ``serve`` runs it once."""

    def __init__(self, settings: PluginSettings, *, log: Log, clock: Clock) -> None:
        """Read and open nothing yet."""
        self._settings = settings
        self._log = log
        self._clock = clock
        root = settings.sources.sysfs_root
        cdi = CdiFiles(root)
        self._files = NodeFiles(cdi.declared, partial(functions_at, root), partial(proofs_in, root, cdi))
        self._identifiers = DriverIdentifiers(settings.sources.sysfs_root, FileWorkers(None, most=1))
        self._health = HealthWatch(lambda: settings.health, FileWorkers(None, most=1), log.warning)
        self._known = PluginKnowledge()
        self._using = asyncio.Lock()
        self._services: dict[str, ResourceService] = {}
        self._registered: dict[str, SocketId] = {}
        self._losses: dict[str, StreamLosses] = {}
        self._failures = 0
        self._problems: tuple[str, ...] = ()
        self._later = Tasks()
        endpoints = [resource.endpoint for resource in settings.resources]
        directory = PluginDirectory(settings.directory, endpoints, self._missing)
        self._sockets: Watch[PluginSockets] = Watch(OnThreads(directory), _NOWHERE, self._keep, clock=clock)

    async def serve(self, stop: asyncio.Event, reload: asyncio.Event) -> None:
        """Serve until ``stop`` is set; read the sources again whenever ``reload`` is.

        Raises ConfigError where there is no usable source at the start, or a socket cannot be bound.
        """
        found = await asyncio.to_thread(self._settings.sources.read)
        for problem in found.problems:
            raise ConfigError(problem.source, problem.line, "", problem.problem)
        # Before the first listing: it would offer devices as healthy that are known not to be.
        await self._health.ask()
        await self._use(found)
        try:
            for name in self._services:
                await self._open(name)
            self._sockets.ask()
            await self._serve_until(stop, reload, found)
        finally:
            await self._later.cancel()
            # Also where a start is refused: a socket that was open before it would stay in the kubelet's directory.
            await asyncio.gather(*(service.close() for service in self._services.values()))

    async def _serve_until(self, stop: asyncio.Event, reload: asyncio.Event, found: PluginKnowledge) -> None:
        """Follow the sources, of which ``found`` is in force, and the plugin directory."""
        sources: Watch[PluginKnowledge] = Watch(OnThreads(self._settings.sources), found, self._take, clock=self._clock)
        works = [
            *(sources.watch(), sources.poll(), _asked_at(reload, sources)),
            *(self._sockets.watch(), self._sockets.poll()),
        ]
        if not self._settings.health.is_none:
            works += [self._health.keep(self._use_again), self._health.poll(self._clock)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
            systemd.notify("READY=1")
            self._log.info(events.READY, directory=str(self._settings.directory), resources=self._counts())
            await stop.wait()
            self._log.info(events.STOPPING)
            systemd.notify("STOPPING=1")
            for task in tasks:
                task.cancel()

    async def _take(self, found: PluginKnowledge, is_asked: bool) -> None:
        """Serve what the sources say now; what one that cannot be used said last stays. Who asks is told anyway."""
        before, after = self._known, found
        if is_asked:
            self._health.ask_now()
        for problem in found.problems:
            if is_asked or problem not in before.problems:
                self._log.error(
                    events.DEVICE_FILE_REJECTED,
                    file=problem.source,
                    line=problem.line or None,
                    reason=problem.problem,
                    last_good_stays=True,
                )
        await self._use(after)
        is_mended_or_asked = (before.problems or is_asked) and not after.problems
        if is_mended_or_asked or replace(after, problems=()) != replace(before, problems=()):
            self._log.info(events.DEVICES_RELOADED, resources=self._counts())
        self._sockets.ask()  # a type may have its first device

    async def _use(self, known: PluginKnowledge) -> None:
        """Serve what the sources say now, one answer after the other: what came last is served last."""
        async with self._using:
            await self._serve_known(known)

    async def _use_again(self) -> None:
        """Serve what the sources said last, with the health that is known now."""
        async with self._using:
            await self._serve_known(self._known)

    async def _serve_known(self, known: PluginKnowledge) -> None:
        for note in known.notes:
            if note not in self._known.notes:
                self._log.warning(events.MACHINE_NOTE, reason=note)
        self._known = known
        inventory = self._health.applied(await self._identifiers.filled(known.inventory or EMPTY_INVENTORY))
        self._health.tell(inventory)
        for resource in self._settings.resources:
            served = await asyncio.to_thread(served_resource, resource, inventory, known)
            service = self._services.get(resource.endpoint)
            if service is not None:
                service.use(served)
            elif resource.is_named or served.offered.devices:
                self._services[resource.endpoint] = ResourceService(
                    served,
                    self._settings.directory / resource.endpoint,
                    files=self._files,
                    lost=partial(self._lose, resource),
                    log=self._log,
                )

    def _missing(self) -> frozenset[str]:
        # A copy: a thread that reads the plugin directory asks this while the loop may add a service.
        return frozenset(name for name, service in dict(self._services).items() if not service.is_published)

    async def _open(self, name: str) -> None:
        """Open the socket of an endpoint, which the kubelet then has to be told. Raises ConfigError."""
        self._registered.pop(name, None)
        await self._services[name].open()

    async def _keep(self, sockets: PluginSockets, is_asked: bool) -> None:
        """Open sockets that were removed; register what this kubelet does not know yet."""
        problems = []
        for name in sorted(self._missing()):
            try:
                await self._open(name)
            except ConfigError as error:
                problems.append(str(error))
        if sockets.kubelet is not None:
            problems += [problem for r in self._settings.resources if (problem := await self._told(r, sockets.kubelet))]
        self._failures = self._failures + 1 if problems else 0
        if problems:
            self._ask_after(retry_seconds(self._failures))
        elif sockets.kubelet is None:
            problems.append(f"{self._settings.directory}: there is no socket of the kubelet; it is waited for")
        for problem in problems:
            if problem not in self._problems:
                self._log.warning(events.NOT_REGISTERED, reason=problem)
        self._problems = tuple(problems)

    async def _told(self, resource: PluginResource, kubelet: SocketId) -> str:
        """Register a resource that the kubelet does not know yet; return why that fails, '' where it does not."""
        name = resource.endpoint
        is_open = name in self._services and self._services[name].is_published
        if not is_open or self._registered.get(name) == kubelet:
            return ""
        problem = await register(self._settings.directory, resource)
        if not problem:
            self._registered[name] = kubelet
            self._log.info(events.REGISTERED, resource=resource.name, endpoint=name)
        return problem

    def _lose(self, resource: PluginResource) -> None:
        """Register again after a while: to a kubelet that does not watch a resource, all its devices are unhealthy."""
        self._registered.pop(resource.endpoint, None)
        losses = self._losses.setdefault(resource.endpoint, StreamLosses())
        self._ask_after(retry_seconds(losses.one_more(self._clock.monotonic_seconds())))

    def _ask_after(self, seconds: float) -> None:
        async def ask() -> None:
            await self._clock.sleep(seconds)
            self._sockets.ask()

        self._later.start(ask(), name="register again")

    def _counts(self) -> dict[str, int]:
        return {service.resource.name: len(service.resource.offered.devices) for service in self._services.values()}


async def _asked_at(reload: asyncio.Event, sources: Watch[PluginKnowledge]) -> None:
    while True:
        await reload.wait()
        reload.clear()
        sources.ask()
