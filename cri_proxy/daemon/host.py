"""The host's machine: discovered, or given and then constant (demo, tests)."""

from pathlib import Path

from cri_proxy import events
from cri_proxy.config.model import Config
from cri_proxy.config.resolve import available_now
from cri_proxy.config.settings import Settings
from cri_proxy.logs import Log
from sysfs.discover import discover
from sysfs.fingerprint import Fingerprint, fingerprint
from sysfs.model import Machine
from sysfs.reader import DirectoryTree


class Host:
    """Discovers the machine and keeps the last result."""

    def __init__(self, settings: Settings, log: Log, machine: Machine | None = None) -> None:
        """``machine`` replaces discovery, and the cgroups of this host do not apply to it."""
        self._root = settings.sysfs_root
        self._log = log
        self._given = machine
        self._found: Machine | None = machine
        self.cgroup_root: Path = settings.sysfs_root if machine is None else settings.state_dir
        """The directory below which ``sys/fs/cgroup`` is."""

    @property
    def is_given(self) -> bool:
        """Whether the machine was given."""
        return self._given is not None

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
