"""A host on a made-up root, with a systemd and a kubelet that are only as much as an installation needs of them.

Each deed is a point at which the process can be killed: before it and after it.
"""

import re
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cri_proxy.installer.host import CURRENT, Content, HostFailed, MountedHost
from cri_proxy.installer.journal import InstallJournal, InstallPhase, JournalFile
from cri_proxy.installer.machine import Check, Installation, Waiting
from cri_proxy.installer.plan import DAEMON, GUARD, NODE, UNIT, Wanted, plan
from cri_proxy.kubelet.distributions import DISTRIBUTIONS
from cri_proxy.kubelet.settings import ENDPOINT
from tests.fakes.made_up_roots import OURS, ROOTS, MadeUpRoot, looked_at, written

HOST_FILES = Path(__file__).parent.parent.parent / "packaging" / "installer" / "host"
PACKAGING = HOST_FILES.parent.parent
# Each action is synced to the disk, and hundreds of them are played.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
UNITS = "etc/systemd/system"


class Killed(BaseException):
    """The process is gone: nothing of it may catch this."""


def plain_root(name: str) -> MadeUpRoot:
    """A made-up root whose kubelet pins nothing itself, so that nothing has to be mended but where it calls."""
    root = ROOTS[name]
    texts = {path: text for path, text in root.files.items() if not path.endswith("cpu_manager_state")}
    for path, text in texts.items():
        without = re.sub(r"--cpu-manager-policy\S*?(?=[\s\"])", "", text)
        without = re.sub(r"^(cpuManagerPolicy|reservedSystemCPUs|systemReserved).*\n", "", without, flags=re.MULTILINE)
        texts[path] = without.replace("- cpu-manager-policy=static\n- reserved-cpus=0\n", "- v=2 # few words\n")
    return replace(root, files=texts)


@dataclass
class System:
    """What runs on the host. ``broken``: releases whose daemon is never ready; ``is_refused``: no kubelet bears us."""

    daemon: str = ""
    enabled: set[str] = field(default_factory=set)
    endpoint: str = ""
    restarts: int = 0
    broken: frozenset[str] = frozenset()
    is_refused: bool = False
    seconds: float = 0.0


class SimulatedHost(MountedHost):
    """The host; ``killed_at`` is the number of the deed before which the process is killed."""

    def __init__(self, root: Path, tree: Path, system: System) -> None:
        super().__init__(root, tree)
        self.root = root
        self.system = system
        self.deeds: list[str] = []
        self.killed_at = -1
        self.observe: Callable[[], None] = lambda: None

    def _deed(self, what: str) -> None:
        self.observe()
        if len(self.deeds) == self.killed_at:
            raise Killed
        self.deeds.append(what)

    def write(self, path: str, content: Content | None) -> None:
        self._deed(f"write {path}")
        super().write(path, content)

    def add_release(self, release: str) -> None:
        self._deed(f"add {release}")
        super().add_release(release)

    def remove_release(self, release: str) -> None:
        self._deed(f"remove {release}")
        super().remove_release(release)

    def run(self, command: Sequence[str]) -> None:
        self._deed(" ".join(command))
        system = self.system
        match command:
            case ("systemctl", "daemon-reload"):
                pass
            case ("systemctl", "restart", "--no-block", "cri-proxy.service"):
                if not self._has_unit(UNIT):
                    raise HostFailed("no such unit")
                current = self.read(CURRENT)
                system.daemon = current.target if current is not None else ""
            case ("systemctl", "enable", *_, unit):
                if not self._has_unit(unit):
                    raise HostFailed("no such unit")
                system.enabled.add(unit)
            case ("systemctl", "disable", "--now", unit):
                system.enabled.discard(unit)
                if unit == UNIT:
                    system.daemon = ""
            case ("systemctl", "restart", _) | ("snap", "restart", _):
                self.restart_kubelet()
            case (_, "reset", *_):
                assert not system.daemon
            case _:
                raise AssertionError(command)

    def restart_kubelet(self) -> None:
        self.system.endpoint = looked_at(self.root).kubelet.next.get(ENDPOINT).value
        self.system.restarts += 1

    def _sync(self) -> None:
        """No power fails here."""

    def _has_unit(self, unit: str) -> bool:
        return (self.root / UNITS / unit).exists()

    @property
    def uses_proxy(self) -> bool:
        return self.system.endpoint == OURS

    @property
    def is_serving(self) -> bool:
        """Whether the kubelet has a runtime: theirs, or ours where its daemon is one that works."""
        works = bool(self.system.daemon) and self.system.daemon not in self.system.broken
        return not self.uses_proxy or (works and not self.system.is_refused)


class KillableFile(JournalFile):
    """The journal, whose writing is a deed like others: a kill may come between a deed and its note."""

    def __init__(self, host: SimulatedHost) -> None:
        super().__init__(host.root)
        self._host = host

    def save(self, journal: InstallJournal | None) -> None:
        self._host._deed("note it")
        super().save(journal)


class NoLog:
    """A log that keeps nothing."""

    def debug(self, event: str, **fields: object) -> None: ...

    info = warning = error = debug


@dataclass
class Rig:
    """A host, and installations on it: each is a new process."""

    host: SimulatedHost
    releases: Path

    def wanted(self, release: str) -> Wanted:
        return Wanted(release, self.releases / release)

    def installation(self, release: str) -> Installation:
        """A new process of the installer of this release."""
        self.host._tree = self.releases / release
        system = self.host.system

        def pause(seconds: float) -> None:
            self.host._deed("pause")
            system.seconds += seconds

        def daemon() -> str:
            return "" if system.daemon and system.daemon not in system.broken else "not ready"

        def node() -> str:
            return "" if self.host.uses_proxy and self.host.is_serving else "not Ready"

        checks = {DAEMON: Check(lambda: daemon, 4), NODE: Check(lambda: node, 4, 2)}
        return Installation(self.host, self.file, checks, Waiting(lambda: system.seconds, pause), log=NoLog())

    @property
    def file(self) -> JournalFile:
        return KillableFile(self.host)

    @property
    def journal(self) -> InstallJournal | None:
        return self.file.load()

    def install(self, release: str) -> InstallJournal | None:
        """Begin, where nothing is begun, and go on to the end."""
        installation = self.installation(release)
        journal = installation.journal
        rests = journal is None or journal.phase in (InstallPhase.DONE, InstallPhase.FAILED)
        if rests and (journal is None or journal.installed != release):
            facts = looked_at(self.host.root)
            installation.begin(plan(self.host, self.host.root, facts, self.wanted(release), journal))
        return installation.run()

    def files(self) -> dict[str, str]:
        """Every file and link of the host but the installer's own, and what only seems to change."""
        found = {}
        for path in sorted(self.host.root.rglob("*")):
            name = str(path.relative_to(self.host.root))
            if name.startswith(("sys", "proc", "opt/cri-proxy/installer")) or path.is_socket():
                continue
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file():
                found[name] = path.read_text()
        return found


def rows() -> list[str]:
    """The made-up roots in which an installation is possible, one of each distribution."""
    cannot = {each.name for each in DISTRIBUTIONS if each.why_not or "reboot" in each.restart}
    return [name for name in ROOTS if name not in cannot and not name.startswith("kubeadm, ")]


@contextmanager
def rig(name: str, *, is_plain: bool = True) -> Iterator[Rig]:
    """A host of this distribution, before anything; two releases that could come to it."""
    with (
        written(plain_root(name) if is_plain else ROOTS[name], MEMORY) as root,
        socket.socket(socket.AF_UNIX) as runtime,
    ):
        place = root / looked_at(root).runtime.socket.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        runtime.bind(str(place))
        runtime.listen()
        releases = root.with_name(f"{root.name}-releases")
        for release in ("one", "two"):
            write_release(releases / release)
        try:
            host = SimulatedHost(root, releases / "one", System())
            host.restart_kubelet()
            yield Rig(host, releases)
        finally:
            shutil.rmtree(releases)


def write_release(tree: Path) -> None:
    """A release as an image has it: the files for the host, and something of a program."""
    (tree / "host").mkdir(parents=True)
    (tree / "bin").mkdir()
    (tree / "bin" / "cri-proxy").write_text(f"#!/bin/sh\necho {tree.name}\n")
    for file in HOST_FILES.iterdir():
        (tree / "host" / file.name).write_text(file.read_text())
    (tree / "host" / "cri-proxy.yaml").write_text((PACKAGING / "cri-proxy.yaml").read_text())
    (tree / "host" / UNIT).write_text(f"# {tree.name}\nExecStart={CURRENT}/bin/cri-proxy run@OPTIONS@\n")


def guards(host: SimulatedHost) -> bool:
    """Whether the timer that turns back is armed, for this boot and the next."""
    return f"{GUARD}.timer" in host.system.enabled
