"""Merge what flags, drop-ins and the configuration file set for the kubelet, each value with its place. Pure.

Sources: "Set Kubelet Parameters Via A Configuration File" of the Kubernetes documentation (flags beat drop-ins, those
beat the file, later drop-ins beat earlier ones, mappings are merged) and the reference of KubeletConfiguration v1beta1.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain
from cri_proxy.kubelet.reservation import KubeletReserve
from sysfs.cpuset import CpuSet, CpuSetError
from sysfs.quantity import QuantityError, parse_mcpu

ENDPOINT: Final = "containerRuntimeEndpoint"
CPU_POLICY: Final = "cpuManagerPolicy"
MEMORY_POLICY: Final = "memoryManagerPolicy"
TOPOLOGY_POLICY: Final = "topologyManagerPolicy"
CGROUP_DRIVER: Final = "cgroupDriver"
RESERVED_CPUS: Final = "reservedSystemCPUs"
SYSTEM_CPU, KUBE_CPU = "systemReserved.cpu", "kubeReserved.cpu"
HOSTNAME: Final = "hostname-override"
ROOT_DIRECTORY: Final = "root-dir"
CONFIG: Final = "config"
CONFIG_DIRECTORY: Final = "config-dir"

# Key, flag that sets it too ('': none), and what the kubelet takes where nothing sets it.
_KEYS: Final = {
    ENDPOINT: ("container-runtime-endpoint", "unix:///run/containerd/containerd.sock"),
    CPU_POLICY: ("cpu-manager-policy", "none"),
    MEMORY_POLICY: ("memory-manager-policy", "None"),
    TOPOLOGY_POLICY: ("topology-manager-policy", "none"),
    CGROUP_DRIVER: ("cgroup-driver", "cgroupfs"),
    RESERVED_CPUS: ("reserved-cpus", ""),
    SYSTEM_CPU: ("system-reserved", ""),
    KUBE_CPU: ("kube-reserved", ""),
}
# Flags without a key in the file.
_FLAGS: Final = {HOSTNAME: "", ROOT_DIRECTORY: "/var/lib/kubelet", CONFIG: "", CONFIG_DIRECTORY: ""}
# Far more than any kubelet's configuration has.
MAX_BYTES = 1 << 20
_DIALECT = Dialect(max_bytes=MAX_BYTES, max_depth=32, max_nodes=50_000, has_aliases=True)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line, and the place that wrote it there."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class KubeletFile:
    """A file that the kubelet reads; ``text`` None: it cannot be read.

    ``changed_seconds``: its last change, since the epoch.
    """

    path: str
    text: str | None
    changed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its place, '' for the kubelet's default. ``beaten`` are the weaker places with another value."""

    key: str
    value: str
    where: str = ""
    beaten: tuple["Setting", ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether no place sets it."""
        return not self.where

    def __str__(self) -> str:
        return f"{self.where or 'the default'}: {self.key}: {self.value}"


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The kubelet's settings, by key or flag. ``problems`` are (path, why) of files that it cannot read."""

    settings: tuple[Setting, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def get(self, key: str) -> Setting:
        """Return the setting of this key of the configuration, or flag; its default where no place sets it."""
        default = _KEYS[key][1] if key in _KEYS else _FLAGS[key]
        return next((setting for setting in self.settings if setting.key == key), Setting(key, default))

    @property
    def reserve(self) -> KubeletReserve:
        """Return the CPU that it keeps from pods; values that the kubelet could not read count as none."""
        try:
            cpus = CpuSet.parse(self.get(RESERVED_CPUS).value)
        except CpuSetError:
            cpus = CpuSet()
        return KubeletReserve(cpus, self._mcpu(SYSTEM_CPU), self._mcpu(KUBE_CPU))

    def _mcpu(self, key: str) -> int:
        value = self.get(key).value
        try:
            return parse_mcpu(value) if value else 0
        except QuantityError:
            return 0


def merge_settings(words: Sequence[Word], files: Iterable[KubeletFile]) -> KubeletSettings:
    """Return what a kubelet with this command line and these files uses; the files from the weakest on."""
    found: dict[str, Setting] = {}
    problems = []
    for file in files:
        try:
            for key, value in _values(file):
                found[key] = _over(found, Setting(key, value, file.path))
        except YamlError as error:
            problems.append((file.path, str(error)))
    for setting in flag_settings(words):
        found[setting.key] = _over(found, setting)
    return KubeletSettings(tuple(found.values()), tuple(problems))


def _over(found: dict[str, Setting], setting: Setting) -> Setting:
    """Return the setting with what it beats."""
    before = found.get(setting.key)
    if before is None:
        return setting
    beaten = before.beaten if before.value == setting.value else (*before.beaten, before)
    return Setting(setting.key, setting.value, setting.where, beaten)


def _values(file: KubeletFile) -> Iterator[tuple[str, str]]:
    """Yield the known keys of a file. Raises YamlError."""
    if file.text is None:
        raise YamlError(0, "cannot be read")
    document = plain(parse_tree(file.text, _DIALECT))
    if not isinstance(document, dict):
        if document is not None:
            raise YamlError(1, "expected a mapping: kind: KubeletConfiguration")
        return
    for key in _KEYS:
        name, _, part = key.partition(".")
        value = document.get(name)
        if part:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str | int | float) and value != "":  # an empty value is the default, as a missing one
            yield key, str(value)


def flag_settings(words: Sequence[Word]) -> Iterator[Setting]:
    """Yield what a command line sets; of several flags of a name the last one.

    A flag is ``--name=value`` or ``--name value``, with dashes or underscores in the name.
    """
    found: dict[str, tuple[str, str]] = {}
    for at, word in enumerate(words):
        if not word.text.startswith("--"):
            continue
        name, equals, value = word.text[2:].partition("=")
        if not equals:
            value = words[at + 1].text if at + 1 < len(words) else ""
        found[name.replace("_", "-")] = value, word.where
    for key, (flag, _) in _KEYS.items():
        if flag in found:
            value, where = found[flag]
            # A mapping's flag replaces the whole mapping of the file.
            yield Setting(key, _part(value, key.partition(".")[2]), f"{where}, --{flag}")
    yield from (Setting(flag, *found[flag]) for flag in _FLAGS if flag in found)


def _part(value: str, part: str) -> str:
    """Return a part of a flag's ``name=value,...``; the value itself where no part is meant."""
    if not part:
        return value
    pairs = dict(pair.partition("=")[::2] for pair in value.split(","))
    return pairs.get(part, "")
