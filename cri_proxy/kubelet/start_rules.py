"""Say why a kubelet ends at its next start, by the rules of kubelets 1.30 to 1.37 for the keys that we touch. Pure.

Sources, of Kubernetes: pkg/kubelet/apis/config/validation (the configuration as a whole), the constructors of the
managers in pkg/kubelet/cm, cmd/kubelet/app/server.go (``reservedSystemCPUs``), pkg/features (gates). Not judged: keys
that neither our pages nor our remedies name, the sums of a static memory manager, which a remedy switches off, and the
gate of beta options where it is switched off.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.edits import Edit, edit_at, edit_of
from cri_proxy.kubelet.settings import KubeletSettings, Setting
from sysfs.cpuset import CpuSet

_SINGLE_NODE: Final = "single-numa-node"
_KNOWN_WORDS: Final = {
    keys.CPU_POLICY: ("none", "static"),
    keys.MEMORY_POLICY: ("None", "Static"),  # their case counts
    keys.TOPOLOGY_POLICY: ("none", "best-effort", "restricted", _SINGLE_NODE),
    keys.TOPOLOGY_SCOPE: ("container", "pod"),
}
# Options by the policy key that reads them. With the policy none the CPU manager takes no option at all, and the
# Topology Manager reads none.
BY_SOCKET, _ACROSS_CORES = "align-by-socket", "distribute-cpus-across-cores"
_NOT_ACROSS_CORES: Final = {"full-pcpus-only", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"}
CPU_OPTIONS: Final = tuple(sorted({*_NOT_ACROSS_CORES, BY_SOCKET, _ACROSS_CORES, "strict-cpu-reservation"}))
_NODE_LIMIT: Final = "max-allowable-numa-nodes"
_TOPOLOGY_OPTIONS: Final = ("prefer-closest-numa-nodes", _NODE_LIMIT)
# The version that knows an option first, and the last that hides it behind the gate of alpha options, as far as known.
_KNOWN_FROM: Final = {
    _ACROSS_CORES: (1, 31),
    _NODE_LIMIT: (1, 31),
    "prefer-align-cpus-by-uncorecache": (1, 32),
    "strict-cpu-reservation": (1, 32),
}
_ALPHA_UNTIL: Final = {
    "strict-cpu-reservation": (1, 32),
    "distribute-cpus-across-numa": (1, 32),
    "prefer-align-cpus-by-uncorecache": (1, 33),
    BY_SOCKET: (1, 34),
    _ACROSS_CORES: (1, 34),
}
_ALPHA_GATE: Final = f"{keys.FEATURE_GATES}.CPUManagerPolicyAlphaOptions"
_LEAST_NODE_LIMIT: Final = 8
# As Go's strconv.ParseBool reads them.
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
# What enforceNodeAllocatable may hold, and the key that has to stand beside it.
_ENFORCEABLE: Final = {
    "pods": "",
    "none": "",
    "system-reserved": keys.SYSTEM_CGROUP,
    "system-reserved-compressible": keys.SYSTEM_CGROUP,
    "kube-reserved": keys.KUBE_CGROUP,
    "kube-reserved-compressible": keys.KUBE_CGROUP,
}
_COMPRESSIBLE_FROM: Final = (1, 32)
# Gates: the version from which only "true" is taken, and the one from which the name is unknown (None: not yet).
_GATES: Final[dict[str, tuple[tuple[int, int], tuple[int, int] | None]]] = {
    "CPUManager": ((1, 26), (1, 33)),
    "CPUManagerPolicyOptions": ((1, 33), None),
    "MemoryManager": ((1, 32), (1, 36)),
    "TopologyManager": ((1, 27), (1, 29)),
    "KubeletCgroupDriverFromCRI": ((1, 34), None),
}
_DURATION: Final = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+")
_SMALL: Final = "500m"  # a reservation for any node
_MEMORY_TYPE: Final = re.compile(r"memory|hugepages-.+")
_ZERO: Final = re.compile(r"0*(\.0*)?[A-Za-z]*")


@dataclass(frozen=True, slots=True)
class StartHost:
    """What the rules ask of the node: the kubelet's version, and the online CPUs; None and empty where unknown."""

    version: tuple[int, int] | None = None
    online: CpuSet = CpuSet()

    @property
    def named(self) -> str:
        """The version as people write it; '' for an unknown one."""
        return ".".join(map(str, self.version or ()))


@dataclass(frozen=True, slots=True)
class StartProblem:
    """Why the kubelet ends, with key, value and place, and the edits after which it does not for this reason."""

    text: str
    edits: tuple[Edit, ...] = ()


Rule = Callable[[KubeletSettings, StartHost], Iterator[StartProblem]]


def start_problems(settings: KubeletSettings, host: StartHost = StartHost()) -> Iterator[StartProblem]:
    """Yield each reason for which a kubelet with these settings ends while it starts."""
    for rule in _RULES:
        yield from rule(settings, host)


def removal(settings: KubeletSettings, key: str) -> tuple[Edit, ...]:
    """Return the edits that take a key, or a mapping, away in each place that has it."""
    return tuple(edit_at(where, key, None) for where in settings.places(key))


def _state(settings: KubeletSettings, manager: str) -> Edit:
    """Return the edit that deletes a manager's state, which must have the policy that is configured."""
    return Edit(f"{settings.get(keys.ROOT_DIRECTORY).value}/{manager}_manager_state")


def _words(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Take only the names of policies and scopes that the kubelet knows, in its own case."""
    for key, known in _KNOWN_WORDS.items():
        setting = settings.get(key)
        if setting.value not in known:
            off = next((word for word in known if word.lower() == setting.value.lower()), known[0])
            yield StartProblem(
                f"{setting.sentence}, and the kubelet knows {', '.join(known)}", (edit_of(setting, off),)
            )


def _options(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Take options of a policy with this policy only, and only those that are known."""
    for mapping, key, known in (
        (keys.CPU_OPTIONS, keys.CPU_POLICY, CPU_OPTIONS),
        (keys.TOPOLOGY_OPTIONS, keys.TOPOLOGY_POLICY, _TOPOLOGY_OPTIONS),
    ):
        found, policy = settings.entries(mapping), settings.get(key).value
        if not found:
            continue
        if policy == "none":
            if mapping == keys.CPU_OPTIONS:
                yield StartProblem(
                    f"{_listed(found)} stand with {key}: none, which takes no {mapping}", removal(settings, mapping)
                )
            continue
        for wrong, why in _wrong_options(found, known, settings, host):
            yield StartProblem(f"{_listed(wrong)} {why}", removal(settings, mapping))
        names = {each.key.partition(".")[2] for each in found if each.value in _TRUE}
        if _ACROSS_CORES in names and names & _NOT_ACROSS_CORES:
            yield StartProblem(f"{_listed(found)} exclude each other", removal(settings, mapping))
        if BY_SOCKET in names and settings.get(keys.TOPOLOGY_POLICY).value == _SINGLE_NODE:
            text = f"{_listed(found)} and {keys.TOPOLOGY_POLICY}: {_SINGLE_NODE} exclude each other"
            yield StartProblem(text, removal(settings, mapping))


def _wrong_options(
    found: Sequence[Setting], known: Sequence[str], settings: KubeletSettings, host: StartHost
) -> Iterator[tuple[list[Setting], str]]:
    """Yield the options that are not known, need a gate, or have an unreadable value, each kind with its reason."""
    has_alpha = settings.get(_ALPHA_GATE).value in _TRUE
    wrong: dict[str, list[Setting]] = {}
    for each in found:
        name = each.key.partition(".")[2]
        if name not in known:
            why = "are no options that the kubelet knows"
        elif host.version and host.version < _KNOWN_FROM.get(name, host.version):
            why = f"are no options that kubelet {host.named} knows"
        elif host.version and not has_alpha and host.version <= _ALPHA_UNTIL.get(name, (0, 0)):
            why = f"need {_ALPHA_GATE}: true in kubelet {host.named}"
        elif name == _NODE_LIMIT and not (each.value.isdecimal() and int(each.value) >= _LEAST_NODE_LIMIT):
            why = f"must be a number of at least {_LEAST_NODE_LIMIT}"
        elif name != _NODE_LIMIT and each.value not in _TRUE | _FALSE:
            why = "must be true or false"
        else:
            continue
        wrong.setdefault(why, []).append(each)
    yield from ((options, why) for why, options in wrong.items())


def _memory(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Take reservations of memory that are whole; the policy Static needs them."""
    setting = settings.get(keys.RESERVED_MEMORY)
    pairs = [
        (node, *pair.partition("=")[::2])
        for entry in filter(None, setting.value.split(";"))
        for node, _, limits in (entry.partition(":"),)
        for pair in filter(None, limits.split(","))
    ]
    policy = settings.get(keys.MEMORY_POLICY)
    off = (edit_of(policy, "None"), _state(settings, "memory")) if policy.value == "Static" else ()
    twice = [name for name, count in Counter(pair[:2] for pair in pairs).items() if count > 1]
    wrong = [pair for pair in pairs if not _MEMORY_TYPE.fullmatch(pair[1]) or _ZERO.fullmatch(pair[2])]
    if twice or wrong:
        text = (
            f"{setting.sentence}, which holds an amount twice, an amount of zero, or a resource that is neither memory "
            "nor huge pages"
        )
        yield StartProblem(text, (*removal(settings, keys.RESERVED_MEMORY), *off))
    elif off and not pairs:
        yield StartProblem(f"{policy.sentence} without {keys.RESERVED_MEMORY}", off)


def _reservation(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Reserve CPUs that exist, by one way."""
    setting, reserve = settings.get(keys.RESERVED_CPUS), settings.reserve
    large = _too_large(settings, 1000 * len(host.online)) if host.online else []
    if setting.value:
        cgroups = [each for key in (keys.SYSTEM_CGROUP, keys.KUBE_CGROUP) if (each := settings.get(key)).value]
        # A static CPU manager needs a reservation: what takes one away leaves another.
        kept = reserve.cpus & host.online or CpuSet.of([min(host.online, default=0)])
        if cgroups:
            amount = () if reserve.system_mcpu or reserve.kube_mcpu else (_amount(settings, setting, reserve.mcpu),)
            edits = (*removal(settings, keys.RESERVED_CPUS), *amount, *(edit_of(each, _SMALL) for each in large))
            yield StartProblem(f"{setting.sentence}, which excludes {_listed(cgroups)}", edits)
        elif not reserve.cpus:
            yield StartProblem(f"{setting.sentence}, which is no CPU list", (edit_of(setting, str(kept)),))
        elif host.online and (beyond := reserve.cpus - host.online):
            yield StartProblem(f"{setting.sentence}, and CPUs {beyond} are not online", (edit_of(setting, str(kept)),))
    if large and not reserve.cpus:
        text = f"{_listed(large)}: more CPU is reserved than the {len(host.online)} CPUs of this node"
        yield StartProblem(text, tuple(edit_of(each, _SMALL) for each in large))
    policy = settings.get(keys.CPU_POLICY)
    if policy.value == "static" and not reserve.mcpu:
        edits = (edit_of(policy, "none"), *removal(settings, keys.CPU_OPTIONS), _state(settings, "cpu"))
        yield StartProblem(f"{policy.sentence}, which needs a reservation of CPU", edits)


def _too_large(settings: KubeletSettings, capacity_mcpu: int) -> list[Setting]:
    """Return the amounts of more than half the node, where both together are more than it has."""
    amounts = ((keys.SYSTEM_CPU, settings.reserve.system_mcpu), (keys.KUBE_CPU, settings.reserve.kube_mcpu))
    if sum(mcpu for _, mcpu in amounts) <= capacity_mcpu:
        return []
    return [settings.get(key) for key, mcpu in amounts if mcpu > capacity_mcpu / 2]


def _amount(settings: KubeletSettings, setting: Setting, mcpu: int) -> Edit:
    """Return the edit that reserves an amount, beside those that are there, else where ``setting`` stands."""
    beside = [each.where for each in settings.entries(keys.KUBE_RESERVED)]
    place, _, flag = setting.where.partition(", --")
    own = f"{place}, --{keys.flag_of(keys.KUBE_RESERVED)}" if flag else place
    return edit_at((*beside, own)[0], keys.KUBE_CPU, f"{mcpu or 1000}m")


def _enforcement(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Enforce reservations only on cgroups that are named."""
    setting = settings.get(keys.ENFORCED)
    words = [word.strip() for word in setting.value.split(",") if word.strip()]
    kept = list(dict.fromkeys(word for word in words if _is_enforceable(settings, host, word)))
    if len(kept) > 1:
        kept = [word for word in kept if word != "none"]
    kept = [word for word in kept if f"{word}-compressible" not in kept]
    if kept != words:
        text = (
            f"{setting.sentence}, of which the kubelet takes {','.join(kept) or 'nothing'}: an entry of reserved "
            "resources needs its cgroup and stands once, and none stands alone"
        )
        yield StartProblem(text, (edit_of(setting, ",".join(kept or ["none"])),))
    per_qos = settings.get(keys.CGROUPS_PER_QOS)
    if per_qos.value == "false" and any(word != "none" for word in kept):
        yield StartProblem(f"{per_qos.sentence}, which needs {keys.ENFORCED}: none", (edit_of(per_qos, "true"),))


def _is_enforceable(settings: KubeletSettings, host: StartHost, word: str) -> bool:
    needs = _ENFORCEABLE.get(word)
    if word.endswith("-compressible") and host.version and host.version < _COMPRESSIBLE_FROM:
        return False
    return needs is not None and (not needs or bool(settings.get(needs).value))


def _formats(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Write durations and endpoints as the kubelet reads them."""
    period = settings.get(keys.RECONCILE_PERIOD)
    if not _DURATION.fullmatch(period.value):
        yield StartProblem(f"{period.sentence}, which is no duration as 10s", removal(settings, keys.RECONCILE_PERIOD))
    endpoint = settings.get(keys.ENDPOINT)
    scheme, separator, _ = endpoint.value.partition("://")
    if not endpoint.value or (separator and scheme != "unix"):
        text = f"{endpoint.where} sets {keys.ENDPOINT}: {endpoint.value or 'nothing'}, which is no Unix socket"
        yield StartProblem(text, removal(settings, keys.ENDPOINT))


def _gates(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Set no feature gate that this version does not know, or keeps on."""
    for setting in settings.entries(keys.FEATURE_GATES) if host.version else ():
        name = setting.key.partition(".")[2]
        locked, gone = _GATES.get(name, (None, None))
        version = f"kubelet {host.named}"
        if host.version and gone and host.version >= gone:
            yield StartProblem(f"{_listed([setting])}: {version} knows no such gate", removal(settings, setting.key))
        elif host.version and locked and host.version >= locked and setting.value == "false":
            yield StartProblem(f"{_listed([setting])}: {version} keeps it on", removal(settings, setting.key))


_RULES: Final[tuple[Rule, ...]] = (_words, _options, _memory, _reservation, _enforcement, _formats, _gates)


def _listed(found: list[Setting] | tuple[Setting, ...]) -> str:
    return " and ".join(f"{each.key}: {each.value} ({each.where})" for each in found)
