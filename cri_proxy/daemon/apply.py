"""Discover the machine, build the policy for a configuration (with fallbacks at start), apply changes to the node."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cri_proxy import events
from cri_proxy.config.cpus import CpuList, CpuQuantity
from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import DeviceOptions
from cri_proxy.config.resolve import available_now, policy_options
from cri_proxy.config.settings import Settings
from cri_proxy.config.startup import fall_back
from cri_proxy.daemon.cost_files import CostFiles, NoCostFiles
from cri_proxy.daemon.device_numbers import KnownNumbers, no_numbers
from cri_proxy.daemon.inventory_file import InventoryFile, NoInventoryFile
from cri_proxy.errors import ConfigError, CriProxyError
from cri_proxy.in_force.text_files import FoundFiles
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.pci import inventory_of
from cri_proxy.logs import Log
from cri_proxy.node.node import Node
from cri_proxy.node.reconfigure import Planned, plan, reconfigure, use_costs, use_devices
from cri_proxy.node.status.view import ConfigInForce
from policies.builder import build_policy
from policies.costs.inventory import NO_DEVICES, Inventory
from policies.devices.model import EMPTY_INVENTORY, DeviceInventory
from policies.errors import PolicyBaseError
from policies.policy import Policy
from sysfs.discover import Fingerprint, discover, fingerprint
from sysfs.errors import SysfsBaseError
from sysfs.model import Machine
from sysfs.reader import DirectoryTree


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


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What the files of a node say of its devices: those of cost files, and those of the inventory file.

    ``before`` is the inventory in force, and what was there before it: devices that a scan finds again keep their
    numbers.
    """

    costs: Inventory = NO_DEVICES
    listed: DeviceInventory = EMPTY_INVENTORY
    before: DeviceInventory = EMPTY_INVENTORY


NOTHING_FOUND = NodeDevices()


def inventory_in_force(options: DeviceOptions, machine: Machine, devices: NodeDevices) -> DeviceInventory:
    """Return the devices of all files, and those of a scan of this machine's PCI where that is wanted."""
    listed = devices.listed
    found = with_scanned(listed, inventory_of(machine), devices.before) if options.scan else listed
    return found if found.costs == devices.costs else replace(found, costs=devices.costs)


def build(config: Config, machine: Machine, root: Path, devices: NodeDevices = NOTHING_FOUND) -> Built:
    """Resolve it for this machine and these devices; cgroups are read below ``root``.

    Raises ConfigError, PolicyBaseError.
    """
    resolved = policy_options(config, machine, root)
    inventory = inventory_in_force(config.devices, machine, devices)
    policy = build_policy(config.policy, resolved.machine, resolved.options, inventory)
    return Built(config, resolved.machine, policy, (*resolved.warnings, *policy.notes))


def build_anyway(config: Config, machine: Machine, root: Path, devices: NodeDevices = NOTHING_FOUND) -> Built:
    """Resolve it for a machine that has changed: other CPUs replace reserved ones that went away.

    Raises as ``build`` does when that does not help.
    """
    try:
        return build(config, machine, root, devices)
    except ConfigError as error:
        reduced = _with_fewer_reserved(config, machine, root)
        if reduced is None:
            raise
        built = build(reduced, machine, root, devices)
        note = f"{error.key}: {error.problem}; reserved instead: {reduced.reserved.cpu}"
        return replace(built, config=config, warnings=(*built.warnings, note))


def build_start(settings: Settings, host: Host) -> tuple[Settings, Fingerprint, Built]:
    """Return what a daemon starts with on this machine, and the machine's fingerprint from before its discovery.

    Where the file does not fit the machine, that is the last known good configuration. Blocks. Raises ConfigError,
    PolicyBaseError and SysfsBaseError where neither works.
    """
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


@dataclass(frozen=True, slots=True)
class Applier:
    """Apply a changed configuration, machine or inventory; ``reader_of`` makes the reader of messages for the former.

    ``costs`` are the cost files, ``listed`` the inventory file, ``numbers`` those of scanned devices. ``lock`` keeps
    changes apart: worked out at the same time, the later of two would undo half of the earlier one.
    """

    node: Node
    interceptor: CriInterceptor
    in_force: ConfigInForce
    reader_of: Callable[[Built], Reader]
    costs: CostFiles | NoCostFiles = field(default_factory=NoCostFiles)
    listed: InventoryFile | NoInventoryFile = field(default_factory=NoInventoryFile)
    numbers: KnownNumbers = field(default_factory=no_numbers)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def change(self, built: Built, said: Sequence[str] = (), *, must_fit: bool) -> str:
        """Put this in force as a whole; return '' or why not, then nothing has changed (only with ``must_fit``).

        ``said`` are the configuration's own warnings.
        """
        problem = await reconfigure(self.node, built.policy, built.config, must_fit=must_fit)
        if problem:
            return problem
        self._note_numbers(built.config.devices, built.policy.devices)
        self.interceptor.use_reader(self.reader_of(built))
        for warning in self.in_force.use(built.config, (*said, *built.warnings)):
            self.node.context.journal.noted(events.CONFIG_WARNING, reason=warning)
        return ""

    async def take_machine(self, host: Host, said: Callable[[], Sequence[str]]) -> str:
        """Put the present machine in force; return '' or why not; ``said`` as in ``change``."""
        async with self.lock:
            before = self.node.context.ledger.policy.machine
            try:
                machine = await asyncio.to_thread(host.discover)
                devices = self._found(self.costs.inventory, self.listed.listed)
                built = await asyncio.to_thread(build_anyway, self.in_force.config, machine, host.cgroup_root, devices)
            except (CriProxyError, PolicyBaseError, SysfsBaseError) as error:
                return str(error)
            problem = await self.change(await self._identified(built), said(), must_fit=False)
            self.node.context.journal.noted(
                events.MACHINE_CHANGED,
                cpus=str(machine.online),
                before=str(before.online),
                pci_devices=len(machine.devices),
                pci_devices_before=len(before.devices),
            )
            return problem

    async def take_config(self, host: Host, config: Config, said: Sequence[str]) -> str:
        """Apply this configuration on the machine as found last; return '', or why it was refused and nothing changed.

        It is refused where it does not fit the machine or takes a grant away. CPUs that went away since do not count
        against a configuration whose CPU options are unchanged.
        """
        async with self.lock:
            read, listed = await self.costs.read(config.costs), await self.listed.read(config.devices)
            built = await self._build(host, config, self._found(read.said.inventory, listed.said.inventory))
            if isinstance(built, str):
                return built
            problem = await self.change(built, said, must_fit=True)
            if not problem:
                self.costs.use(read)
                self.listed.use(listed)
            return problem

    async def take_costs(self, found: FoundFiles, is_asked: bool) -> None:
        """Let new containers choose among the devices that these cost files list; no grant changes."""
        async with self.lock:
            options = self.in_force.config.costs
            read = await self.costs.merged(found, options) if found.path == Path(options.directory) else None
            read = read or await self.costs.read(options)  # the configuration names another directory since
            if read.said.inventory != self.costs.inventory:
                use_costs(self.node, read.said.inventory)
            self.costs.use(read, is_asked=is_asked)

    async def take_inventory(self, found: FoundFiles, is_asked: bool) -> None:
        """Let new containers choose among the devices that this inventory file lists; no grant changes."""
        async with self.lock:
            options = self.in_force.config.devices
            read = await self.listed.merged(found, options) if found.path == Path(options.inventory) else None
            read = read or await self.listed.read(options)  # the configuration names another file since
            machine = self.node.context.ledger.policy.machine
            devices = self._found(self.costs.inventory, read.said.inventory)
            inventory = inventory_in_force(options, machine, devices)
            use_devices(self.node, await self.listed.identifiers.filled(inventory))
            self._note_numbers(options, inventory)
            self.listed.use(read, is_asked=is_asked)

    async def plan_config(self, host: Host, config: Config) -> Planned:
        """Return what ``take_config`` would do now; nothing changes."""
        async with self.lock:
            read, listed = await self.costs.read(config.costs), await self.listed.read(config.devices)
            built = await self._build(host, config, self._found(read.said.inventory, listed.said.inventory))
            if isinstance(built, str):
                return Planned(built, ())
            return await plan(self.node, built.policy, built.config)

    def _found(self, costs: Inventory, listed: DeviceInventory) -> NodeDevices:
        return NodeDevices(costs, listed, self.numbers.beside(self.node.context.ledger.policy.devices))

    def _note_numbers(self, options: DeviceOptions, inventory: DeviceInventory) -> None:
        """Note the numbers of an inventory with scanned devices, for the next scan and the next start."""
        if options.scan:
            self.numbers.use(inventory)

    async def _build(self, host: Host, config: Config, devices: NodeDevices) -> Built | str:
        """Resolve it for the machine as found last, or return why that fails."""
        old = self.in_force.config
        is_about_cpus = (config.available, config.reserved) != (old.available, old.reserved)
        make = build if is_about_cpus else build_anyway
        try:
            machine = await asyncio.to_thread(host.machine)
            return await self._identified(await asyncio.to_thread(make, config, machine, host.cgroup_root, devices))
        except ConfigError as error:
            return f"{error.key}: {error.problem}"
        except (PolicyBaseError, SysfsBaseError) as error:
            return str(error)

    async def _identified(self, built: Built) -> Built:
        """Return this with the identifiers of the node's GPUs."""
        inventory = await self.listed.identifiers.filled(built.policy.devices)
        return replace(built, policy=built.policy.with_devices(inventory))
