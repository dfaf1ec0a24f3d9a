"""Discover the machine, build the policy for a configuration (with fallbacks at start), apply changes to the node."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from cri_proxy import events
from cri_proxy.config.cpus import CpuList, CpuQuantity
from cri_proxy.config.model import Config
from cri_proxy.config.resolve import available_now, policy_options
from cri_proxy.config.settings import Settings
from cri_proxy.config.startup import fall_back
from cri_proxy.daemon.device_sources import DeviceSources, ReadDevices
from cri_proxy.errors import ConfigError, CriProxyError
from cri_proxy.in_force.files import FilesInForce
from cri_proxy.in_force.text_files import FoundFiles
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.logs import Log
from cri_proxy.node.node import Node
from cri_proxy.node.reconfigure import Planned, plan, reconfigure, use_devices
from policies.builder import build_policy
from policies.devices import DeviceInventory, RegisteredDevice
from policies.errors import PolicyBaseError
from policies.policy import Policy
from sysfs.discover import Fingerprint, discover, fingerprint
from sysfs.errors import SysfsBaseError
from sysfs.model import Machine
from sysfs.reader import DirectoryTree

T = TypeVar("T")


class Host:
    """The host's machine: discovered, or given and then constant (demo, tests)."""

    def __init__(self, settings: Settings, log: Log, machine: Machine | None = None) -> None:
        """``machine`` replaces discovery, and the cgroups of this host do not apply to it."""
        self._root = settings.sysfs_root
        self._log = log
        self.is_given = machine is not None
        self._given = machine
        self._found: Machine | None = machine
        self.cgroup_root: Path = settings.sysfs_root if machine is None else settings.state_dir
        """The directory below which ``sys/fs/cgroup`` is."""

    def discover(self) -> Machine:
        """Discover the machine as it is now and log its notes. Blocks; raises SysfsBaseError."""
        machine = self._given or discover(self._root)
        for note in machine.notes:
            self._log.warning(events.MACHINE_NOTE, reason=note)
        self._found = machine
        return machine

    def machine(self) -> Machine:
        """Return the machine as discovered last, by ``discover`` at the first time."""
        return self._found or self.discover()

    def fingerprint(self, config: Config) -> Fingerprint:
        """Return a value that changes with the machine and the cgroup that bounds its available CPUs. Blocks."""
        return (*fingerprint(DirectoryTree(self._root)), available_now(config, self.cgroup_root))


@dataclass(frozen=True, slots=True)
class Built:
    """A configuration resolved for a machine. ``warnings`` are sentences for the operator."""

    config: Config
    machine: Machine
    policy: Policy
    warnings: tuple[str, ...]

    def with_devices(self, devices: DeviceInventory) -> "Built":
        """Return the same with these devices to choose among, and what the policy says of them."""
        policy = self.policy.with_devices(devices)
        return replace(self, policy=policy, warnings=renoted(self.warnings, self.policy, policy))


def renoted(warnings: Sequence[str], before: Policy, after: Policy) -> tuple[str, ...]:
    """Return the warnings with the notes of the later policy in place of those of the earlier one."""
    others = (warning for warning in warnings if warning not in before.notes)
    return (*others, *after.notes) if before.notes != after.notes else tuple(warnings)


def build(config: Config, machine: Machine, root: Path, known: Built | None = None) -> Built:
    """Resolve it for this machine; cgroups are read below ``root``. Of a ``known`` policy stays what is the same.

    Raises ConfigError, PolicyBaseError.
    """
    resolved = policy_options(config, machine, root)
    if known is not None and (known.config.policy, known.machine) == (config.policy, resolved.machine):
        policy = known.policy.rebound(resolved.options)
    else:
        policy = build_policy(config.policy, resolved.machine, resolved.options)
    return Built(config, resolved.machine, policy, (*resolved.warnings, *policy.notes))


def build_anyway(config: Config, machine: Machine, root: Path, known: Built | None = None) -> Built:
    """Resolve it for a machine that has changed: other CPUs replace reserved ones that went away.

    Raises as ``build`` does when that does not help.
    """
    try:
        return build(config, machine, root, known)
    except ConfigError as error:
        reduced = _with_fewer_reserved(config, machine, root)
        if reduced is None:
            raise
        built = build(reduced, machine, root, known)
        note = f"{error.key}: {error.problem}; reserved instead: {reduced.reserved.cpu}"
        return replace(built, config=config, warnings=(*built.warnings, note))


def build_start(settings: Settings, host: Host) -> tuple[Settings, Fingerprint, Built]:
    """Return settings and policy for a start on this machine, and its fingerprint from before its discovery.

    Where the file does not fit the machine, that is the last known good configuration. Blocks. Raises ConfigError,
    PolicyBaseError and SysfsBaseError where neither works.
    """
    # Before the discovery: what changes during it then differs from the fingerprint, and is found by the first poll.
    seen = host.fingerprint(settings.config)
    machine, root = host.discover(), host.cgroup_root
    if settings.fallback is not None:
        return settings, seen, build_anyway(settings.config, machine, root)
    try:
        return settings, seen, build(settings.config, machine, root)
    except (ConfigError, PolicyBaseError) as error:
        problem = _of_file(error, settings)
        kept = fall_back(settings, problem)
        if kept is None:
            raise
    if kept.config == settings.config:
        kept = settings  # CPUs went away since: the configuration itself is the same
    try:
        built = build_anyway(kept.config, machine, root)
    except (ConfigError, PolicyBaseError) as error:
        raise replace(
            problem, problem=f"{problem.problem}; the configuration that was in force before fails too: {error}"
        ) from None
    # The directories in use are those of the file.
    kept = replace(kept, sysfs_root=settings.sysfs_root, state_dir=settings.state_dir)
    return kept, host.fingerprint(kept.config), built


def _of_file(error: ConfigError | PolicyBaseError, settings: Settings) -> ConfigError:
    key, problem = (error.key, error.problem) if isinstance(error, ConfigError) else ("", str(error))
    return ConfigError(str(settings.source.file), 0, key, problem)


def _with_fewer_reserved(config: Config, machine: Machine, root: Path) -> Config | None:
    """Return the configuration with the reserved CPUs that are left, or as many others; None without a list."""
    wanted = config.reserved.cpu
    if not isinstance(wanted, CpuList):
        return None
    unreserved = replace(config, reserved=replace(config.reserved, cpu=None))
    available = policy_options(unreserved, machine, root).options.available
    left = wanted.cpus & available
    count = min(len(wanted.cpus), len(available))
    return replace(config, reserved=replace(config.reserved, cpu=CpuList(left) if left else CpuQuantity(1000 * count)))


@dataclass(slots=True)
class Applier:
    """Puts what was built in force on a node; ``reader_of`` makes the reader of messages for it."""

    node: Node
    interceptor: CriInterceptor
    reader_of: Callable[[Built], Reader]

    async def change(self, built: Built, said: Sequence[str] = (), *, must_fit: bool) -> str:
        """Put this in force as a whole; return '' or why not, then nothing has changed (only with ``must_fit``).

        ``said`` are the configuration's own warnings.
        """
        problem = await reconfigure(self.node, built.policy, built.config, must_fit=must_fit)
        if problem:
            return problem
        self.interceptor.use_reader(self.reader_of(built))
        before, warnings = self.node.coordinator.config_warnings, (*said, *built.warnings)
        for warning in (warning for warning in warnings if warning not in before):
            self.node.context.journal.noted(events.CONFIG_WARNING, reason=warning)
        self.node.coordinator.config_warnings = warnings
        return ""


@dataclass(slots=True)
class HostApplier(Applier):
    """Puts a changed configuration, machine or inventory of the host in force; ``built`` is what is.

    ``lock`` keeps changes apart: worked out at the same time, the later of two would undo half of the earlier one.
    """

    host: Host
    devices: DeviceSources
    built: Built
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take_machine(self, said: Callable[[], Sequence[str]]) -> str:
        """Put the present machine in force; return '' or why not; ``said`` as in ``change``."""
        async with self.lock:
            before, config = self.node.context.ledger.policy.machine, self.node.coordinator.config
            try:
                machine = await asyncio.to_thread(self.host.discover)
                built = await asyncio.to_thread(build_anyway, config, machine, self.host.cgroup_root)
            except (CriProxyError, PolicyBaseError, SysfsBaseError) as error:
                return str(error)
            inventory = await self.devices.joined(config, machine)
            built = built.with_devices(inventory)
            # A machine cannot be refused: what has no room on it shares.
            problem = await self.change(built, said(), must_fit=False)
            if not problem:
                self._note(built)
            self.node.context.journal.noted(
                events.MACHINE_CHANGED,
                cpus=str(machine.online),
                before=str(before.online),
                pci_devices=len(machine.devices),
                pci_devices_before=len(before.devices),
            )
            return problem

    async def take_config(self, config: Config, said: Sequence[str]) -> str:
        """Apply this configuration on the machine as found last; return '', or why it was refused and nothing changed.

        It is refused where it does not fit the machine or takes a grant away. CPUs that went away since do not count
        against a configuration whose CPU options are unchanged.
        """
        async with self.lock:
            found = await self.devices.at(config)
            built = await self._build(config, found)
            if isinstance(built, str):
                return built
            problem = await self.change(built, said, must_fit=True)
            if not problem:
                self._note(built, found)
            return problem

    def _note(self, built: Built, found: ReadDevices | None = None) -> None:
        """Note that this is in force, with what these files say."""
        self.built = built
        self.devices.use(built.config, built.policy.known, found)

    async def take_files(self, files: FilesInForce[T], found: FoundFiles, is_asked: bool) -> None:
        """Let new containers choose among the devices that these files list now; no grant changes."""
        async with self.lock:
            # Read again: while this waited for the lock, a reload may have named another directory.
            now, config = await files.again(found), self.node.coordinator.config
            files.use(now, is_asked=is_asked)
            await self._use_devices(config)

    async def take_registered(self, registered: tuple[RegisteredDevice, ...]) -> None:
        """Know these devices of plugins from now on; no grant changes."""
        self.devices.registered = registered
        await self.take_health()

    async def take_health(self) -> None:
        """Let new containers choose among the devices that are healthy now; no grant changes."""
        async with self.lock:
            await self._use_devices(self.node.coordinator.config)

    async def _use_devices(self, config: Config) -> None:
        """Let new containers choose among the devices that all sources list now."""
        ledger, coordinator = self.node.context.ledger, self.node.coordinator
        inventory, before = await self.devices.joined(config, ledger.policy.machine), ledger.policy
        use_devices(self.node, inventory)
        coordinator.config_warnings = renoted(coordinator.config_warnings, before, ledger.policy)
        self.devices.use(config, ledger.policy.known)

    async def plan_config(self, config: Config) -> Planned:
        """Return the changes that ``take_config`` would make now; nothing changes."""
        async with self.lock:
            built = await self._build(config, await self.devices.at(config))
            if isinstance(built, str):
                return Planned(built, ())
            return await plan(self.node, built.policy, built.config)

    async def _build(self, config: Config, found: ReadDevices) -> Built | str:
        """Resolve it for the machine as found last, with these devices, or return why that fails."""
        old = self.node.coordinator.config
        is_about_cpus = (config.available, config.reserved) != (old.available, old.reserved)
        # A change of the log level must not fail for CPUs that went offline since (docs/adr/0009-reload.md).
        make = build if is_about_cpus else build_anyway
        try:
            machine = await asyncio.to_thread(self.host.machine)
            # The ledger's policy, not that of ``built``: devices were put in force since without a change of options.
            known = replace(self.built, policy=self.node.context.ledger.policy)
            built = await asyncio.to_thread(make, config, machine, self.host.cgroup_root, known)
        except ConfigError as error:
            return f"{error.key}: {error.problem}"
        except (PolicyBaseError, SysfsBaseError) as error:
            return str(error)
        return built.with_devices(await self.devices.joined(config, machine, found))
