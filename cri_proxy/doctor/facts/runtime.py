"""Read cgroup driver and runc from containerd's configuration, runc's version, and the CPUs that the runtime has.

Sources: containerd's config.toml, versions 2 and 3: ``plugins."io.containerd.grpc.v1.cri"`` and
``plugins."io.containerd.cri.v1.runtime"``, both with ``containerd.runtimes.NAME.options``; ``imports`` are files that
override it. docs/cri/config.md of containerd. For its CPUs: systemd.exec(5), ``CPUAffinity=`` (lists are merged, an
empty one resets), and systemd-system.conf(5).
"""

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from cri_proxy.cri.status_fields import fields_at
from cri_proxy.doctor.facts.model import ProcessFacts, RuntimeFacts
from cri_proxy.kubelet.files import read_file
from cri_proxy.kubelet.settings import KubeletFile
from cri_proxy.kubelet.unit import assignments, unit_files
from sysfs.cpuset import CpuSet, CpuSetError

CONTAINERD: Final = "containerd"
CONFIG: Final = "/etc/containerd/config.toml"
_PLUGINS: Final = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
# Where containerd's unit finds runc: systemd's own search path.
_PATH: Final = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_VERSION: Final = re.compile(r"^(?:runc version |Kubernetes v)(\S+)", re.MULTILINE)
_SECONDS: Final = 5.0
_AFFINITY: Final = "CPUAffinity"
_SYSTEMD: Final = "etc/systemd/system.conf"


def read_containerd(root: Path, processes: Iterable[ProcessFacts], usual: str = CONFIG) -> RuntimeFacts:
    """Return the facts of the configuration of the running containerd, else of the ``usual`` path. Blocks.

    ``runc`` is the program that it names, '' for none. A containerd whose files do not say uses no systemd scopes.
    """
    # No container's process: a pod could call one so, and name a configuration whose runc is run here as root.
    running = next((each for each in processes if each.name == CONTAINERD and not each.is_contained), None)
    path = _config_of(running) if running else usual
    found = RuntimeFacts(is_systemd=False if running else None)
    for file, tables in _documents(root, path):
        name = next((n for t in tables if isinstance(n := t.get("default_runtime_name"), str)), "runc")
        for table in tables:
            options = fields_at(table, "runtimes", name, "options")
            is_systemd, runc = options.get("SystemdCgroup"), options.get("BinaryName")
            found = replace(found, config=found.config or file)
            if isinstance(is_systemd, bool):
                found = replace(found, config=file, is_systemd=is_systemd)
            if isinstance(runc, str) and runc:
                found = replace(found, runc=runc)
    return found


def _config_of(process: ProcessFacts) -> str:
    """Return the file that containerd's command line names."""
    for at, word in enumerate(process.words):
        if word in ("-c", "--config", "-config"):
            return "".join(process.words[at + 1 : at + 2]) or CONFIG
        if word.startswith(("--config=", "-config=", "-c=")):
            return word.partition("=")[2]
    return CONFIG


def _documents(root: Path, path: str) -> Iterator[tuple[str, list[Mapping[str, object]]]]:
    """Yield the containerd tables of a file and of those that it imports, which override it."""
    document = _toml(root, path)
    yield path, [fields_at(document, "plugins", plugin, "containerd") for plugin in _PLUGINS]
    imports = document.get("imports")
    for pattern in imports if isinstance(imports, list) else ():
        if isinstance(pattern, str) and pattern.startswith("/"):
            for place in sorted(root.glob(pattern.lstrip("/"))):
                name = f"/{place.relative_to(root)}"
                found = _toml(root, name)
                yield name, [fields_at(found, "plugins", plugin, "containerd") for plugin in _PLUGINS]


def _toml(root: Path, path: str) -> dict[str, object]:
    file = read_file(root, path)
    try:
        return tomllib.loads(file.text or "") if file else {}
    except (ValueError, RecursionError):  # what containerd makes of it, its log says
        return {}


def program_version(root: Path, program: str) -> str:
    """Return the version that ``program --version`` prints: runc's, or the kubelet's; '' where there is none.

    A program of another ``root`` than the running system's is not run.
    """
    if root != Path("/"):
        return ""
    places = [Path(program)] if program.startswith("/") else [root / place / program for place in _PATH]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        return ""
    try:
        done = subprocess.run([found, "--version"], check=False, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(done.stdout)
    return match[1] if match else ""


def read_affinity(root: Path, units: Iterable[str]) -> tuple[CpuSet | None, str]:
    """Return the CPUs to which systemd keeps the first of these units that sets them, and the file that does. Blocks.

    None: all CPUs; of several files it is the last one, '' where none sets any. A unit whose list is reset has the CPUs
    of systemd itself.
    """
    for unit in units:
        found = _merged(unit_files(root, unit), "Service")
        if found[0] is not None:
            return found
    return _merged(_manager_files(root), "Manager")


def _manager_files(root: Path) -> Iterator[KubeletFile]:
    paths = [_SYSTEMD, *sorted(str(path.relative_to(root)) for path in (root / f"{_SYSTEMD}.d").glob("*.conf"))]
    yield from (file for path in paths if (file := read_file(root, f"/{path}")) is not None)


def _merged(files: Iterable[KubeletFile], section: str) -> tuple[CpuSet | None, str]:
    merged, path = CpuSet(), ""
    for file in files:
        for key, value in assignments(file.text or "", section):
            if key == _AFFINITY:
                cpus = _cpus(value)
                merged, path = (merged | cpus, file.path) if cpus else (CpuSet(), "")
    return merged or None, path


def _cpus(value: str) -> CpuSet:
    """Return the CPUs of a list with commas or blanks; none for a value that resets, or that only systemd reads."""
    try:
        return CpuSet.parse(",".join(value.replace(",", " ").split()))
    except CpuSetError:
        return CpuSet()
