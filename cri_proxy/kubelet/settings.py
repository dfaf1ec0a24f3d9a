"""Merge what flags, drop-ins and the configuration file set for the kubelet, each value with its place. Pure.

Sources: "Set Kubelet Parameters Via A Configuration File" of the Kubernetes documentation (flags beat drop-ins, those
beat the file, later drop-ins beat earlier ones, mappings are merged) and the reference of KubeletConfiguration v1beta1.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain
from cri_proxy.kubelet.reservation import KubeletReserve
from sysfs.cpuset import CpuSet, CpuSetError
from sysfs.quantity import QuantityError, parse_mcpu

ENDPOINT: Final = "containerRuntimeEndpoint"
CPU_POLICY, CPU_OPTIONS = "cpuManagerPolicy", "cpuManagerPolicyOptions"
RECONCILE_PERIOD: Final = "cpuManagerReconcilePeriod"
MEMORY_POLICY, RESERVED_MEMORY = "memoryManagerPolicy", "reservedMemory"
TOPOLOGY_POLICY, TOPOLOGY_OPTIONS = "topologyManagerPolicy", "topologyManagerPolicyOptions"
TOPOLOGY_SCOPE: Final = "topologyManagerScope"
CGROUP_DRIVER: Final = "cgroupDriver"
RESERVED_CPUS: Final = "reservedSystemCPUs"
SYSTEM_RESERVED, KUBE_RESERVED = "systemReserved", "kubeReserved"
SYSTEM_CPU, KUBE_CPU = f"{SYSTEM_RESERVED}.cpu", f"{KUBE_RESERVED}.cpu"
SYSTEM_CGROUP, KUBE_CGROUP = "systemReservedCgroup", "kubeReservedCgroup"
ENFORCED: Final = "enforceNodeAllocatable"
CGROUPS_PER_QOS: Final = "cgroupsPerQOS"
FAIL_CGROUP_V1: Final = "failCgroupV1"
FEATURE_GATES: Final = "featureGates"
EVICTION_HARD, MERGED_EVICTION = "evictionHard", "mergeDefaultEvictionSettings"
HOSTNAME: Final = "hostname-override"
ROOT_DIRECTORY: Final = "root-dir"
CONFIG: Final = "config"
CONFIG_DIRECTORY: Final = "config-dir"

# Key, flag that sets it too ('': none), and what the kubelet takes where nothing sets it.
_KEYS: Final = {
    ENDPOINT: ("container-runtime-endpoint", "unix:///run/containerd/containerd.sock"),
    CPU_POLICY: ("cpu-manager-policy", "none"),
    RECONCILE_PERIOD: ("cpu-manager-reconcile-period", "10s"),
    MEMORY_POLICY: ("memory-manager-policy", "None"),
    RESERVED_MEMORY: ("reserved-memory", ""),
    TOPOLOGY_POLICY: ("topology-manager-policy", "none"),
    TOPOLOGY_SCOPE: ("topology-manager-scope", "container"),
    CGROUP_DRIVER: ("cgroup-driver", "cgroupfs"),
    RESERVED_CPUS: ("reserved-cpus", ""),
    SYSTEM_CGROUP: ("system-reserved-cgroup", ""),
    KUBE_CGROUP: ("kube-reserved-cgroup", ""),
    ENFORCED: ("enforce-node-allocatable", "pods"),
    CGROUPS_PER_QOS: ("cgroups-per-qos", "true"),
    MERGED_EVICTION: ("", "false"),
    FAIL_CGROUP_V1: ("fail-cgroupv1", ""),  # its default depends on the version
}
# Mappings, whose entries are settings of their own, as systemReserved.cpu.
_MAPPINGS: Final = {
    CPU_OPTIONS: "cpu-manager-policy-options",
    TOPOLOGY_OPTIONS: "topology-manager-policy-options",
    SYSTEM_RESERVED: "system-reserved",
    KUBE_RESERVED: "kube-reserved",
    FEATURE_GATES: "feature-gates",
    EVICTION_HARD: "eviction-hard",
}
_BOOLEANS: Final = (CGROUPS_PER_QOS, FEATURE_GATES, MERGED_EVICTION, FAIL_CGROUP_V1)
# Flags without a key in the file.
_FLAGS: Final = {HOSTNAME: "", ROOT_DIRECTORY: "/var/lib/kubelet", CONFIG: "", CONFIG_DIRECTORY: ""}
_KIND: Final = ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
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

    ``changed_seconds``: its last change, since the epoch. ``is_drop_in``: it lies in the directory of ``--config-dir``.
    """

    path: str
    text: str | None
    changed_seconds: float = 0.0
    is_drop_in: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its place, '' for the kubelet's default. ``beaten`` are weaker places, which may agree with it."""

    key: str
    value: str
    where: str = ""
    beaten: tuple["Setting", ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether no place sets it."""
        return not self.where

    @property
    def everywhere(self) -> tuple["Setting", ...]:
        """Return the setting of each place, the strongest first."""
        return (self, *reversed(self.beaten)) if self.where else ()

    @property
    def sentence(self) -> str:
        """Return which place sets it to what."""
        return f"{self.where} sets {self.key}: {self.value}"

    def __str__(self) -> str:
        return f"{self.where or 'the default'}: {self.key}: {self.value}"


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The kubelet's settings, by key or flag. ``problems`` are (path, why) of files that it cannot read."""

    settings: tuple[Setting, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def get(self, key: str) -> Setting:
        """Return the setting of this key of the configuration, or flag; its default where no place sets it."""
        default = _KEYS[key][1] if key in _KEYS else _FLAGS.get(key, "")
        return next((setting for setting in self.settings if setting.key == key), Setting(key, default))

    def entries(self, mapping: str) -> tuple[Setting, ...]:
        """Return the settings of a mapping's entries."""
        return tuple(setting for setting in self.settings if setting.key.startswith(f"{mapping}."))

    def places(self, key: str) -> tuple[str, ...]:
        """Return each place that sets this key, or an entry of the mapping of this name."""
        named = (each for each in self.settings if each.key == key or each.key.startswith(f"{key}."))
        return tuple(dict.fromkeys(place.where for each in named for place in each.everywhere))

    @property
    def reserve(self) -> KubeletReserve:
        """Return the CPU that it keeps from pods; values that the kubelet could not read count as none."""
        try:
            cpus = CpuSet.parse(self.get(RESERVED_CPUS).value)
        except CpuSetError:
            cpus = CpuSet()
        has_cgroups = any(self.get(key).value for key in (SYSTEM_CGROUP, KUBE_CGROUP))
        return KubeletReserve(cpus, self._mcpu(SYSTEM_CPU), self._mcpu(KUBE_CPU), has_cgroups)

    def _mcpu(self, key: str) -> int:
        value = self.get(key).value
        try:
            return parse_mcpu(value) if value else 0
        except QuantityError:
            return 0


def flag_of(key: str) -> str:
    """Return the flag that sets this key, or the mapping of this entry.

    >>> flag_of("reservedSystemCPUs"), flag_of("kubeReserved.cpu")
    ('reserved-cpus', 'kube-reserved.cpu')
    """
    name, dot, entry = key.partition(".")
    return f"{_KEYS[name][0] if name in _KEYS else _MAPPINGS[name]}{dot}{entry}"


def merge_settings(words: Sequence[Word], files: Iterable[KubeletFile]) -> KubeletSettings:
    """Return what a kubelet with this command line and these files uses; the files from the weakest on."""
    found: dict[str, Setting] = {}
    problems = []
    for file in files:
        try:
            document = document_of(file)
        except YamlError as error:
            problems.append((file.path, str(error)))
            continue
        for key, value in _values(document):
            if value:
                found[key] = _over(found, Setting(key, value, file.path))
            else:
                _drop(found, key)
        problems += [(file.path, problem) for problem in _undecodable(document, is_drop_in=file.is_drop_in)]
    flags = tuple(flag_settings(words))
    given = {setting.key for setting in flags}
    for setting in flags:
        # A mapping's flag replaces the whole mapping of the files, but for feature gates.
        replaced = _drop(found, setting.key, given) if setting.key in _MAPPINGS.keys() - {FEATURE_GATES} else ()
        found[setting.key] = _over(found, replace(setting, beaten=replaced))
    return KubeletSettings(tuple(found.values()), tuple(problems))


def _over(found: dict[str, Setting], setting: Setting) -> Setting:
    """Return the setting with what it beats."""
    before = found.get(setting.key)
    return setting if before is None else replace(setting, beaten=(*setting.beaten, *before.beaten, before))


def _drop(found: dict[str, Setting], key: str, but: Collection[str] = ()) -> tuple[Setting, ...]:
    """Take a key away, with the entries of the mapping of this name; return them."""
    names = [name for name in found if (name == key or name.startswith(f"{key}.")) and name not in but]
    return tuple(each for name in names for each in reversed(found.pop(name).everywhere))


def document_of(file: KubeletFile) -> dict[object, object]:
    """Return the content of a file. Raises YamlError."""
    if file.text is None:
        raise YamlError(0, "cannot be read")
    document = plain(parse_tree(file.text, _DIALECT))
    if document is not None and not isinstance(document, dict):
        raise YamlError(1, "expected a mapping: kind: KubeletConfiguration")
    return document or {}


def _values(document: dict[object, object]) -> Iterator[tuple[str, str]]:
    """Yield the known keys of a file; '' for one that is null or empty, which takes the default again."""
    for key in (key for key in _KEYS if key in document):
        # An empty list is none of the default's entries.
        yield key, "none" if key == ENFORCED and document[key] == [] else _text(document[key])
    for mapping in (mapping for mapping in _MAPPINGS if mapping in document):
        entries = document[mapping]
        if isinstance(entries, dict) and entries:
            yield from ((f"{mapping}.{name}", _text(value)) for name, value in entries.items())
        elif entries is None:
            yield mapping, ""


def _text(value: object) -> str:
    """Return a value as a flag has it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() if all(isinstance(each, dict) for each in value):  # reservedMemory
            return ";".join(_memory(each) for each in value)
        case list():
            return ",".join(map(_text, value))
    return str(value)


def _memory(reservation: dict[object, object]) -> str:
    limits = reservation.get("limits")
    pairs = (f"{name}={_text(value)}" for name, value in limits.items()) if isinstance(limits, dict) else ()
    return f"{_text(reservation.get('numaNode'))}:{','.join(pairs)}"


def _undecodable(document: dict[object, object], *, is_drop_in: bool) -> Iterator[str]:
    """Yield why the kubelet cannot decode a file: numbers and booleans where its type has text, and the reverse.

    A drop-in needs its kind.
    """
    if is_drop_in and (document.get("apiVersion"), document.get("kind")) != _KIND:
        yield f"a drop-in begins with apiVersion: {_KIND[0]} and kind: {_KIND[1]}"
    for name in (name for name in (*_KEYS, *_MAPPINGS) if name in document):
        value = document[name]
        entries = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        for key, each in entries.items():
            if name in _BOOLEANS:
                if isinstance(each, str | int) and not isinstance(each, bool):
                    yield f"{key}: expected true or false, got {each!r}"
            elif isinstance(each, bool | int | float):
                yield f'{key}: expected text, got the {type(each).__name__} {_text(each)}: write "{_text(each)}"'


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
        if flag and flag in found:
            value, where = found[flag]
            yield Setting(key, value, f"{where}, --{flag}")
    for mapping, flag in _MAPPINGS.items():
        if flag in found:
            value, where = found[flag]
            place = f"{where}, --{flag}"
            yield Setting(mapping, value, place)
            sign = "<" if mapping == EVICTION_HARD else "="
            for name, _, text in (pair.partition(sign) for pair in value.split(",") if pair):
                yield Setting(f"{mapping}.{name.strip()}", text.strip(), place)
    yield from (Setting(flag, *found[flag]) for flag in _FLAGS if flag in found)
