"""Judge the options of the CPU and Topology Managers: name, value, stage and gate, what excludes what. Pure.

Sources, of Kubernetes: pkg/kubelet/cm/cpumanager/policy_options.go and topologymanager/policy_options.go (names, groups
of options, values), topologymanager/topology_manager.go (number of NUMA nodes), cmd/kubelet/app/server.go (options
without their gate), pkg/features/kube_features.go up to 1.35; "Control CPU Management Policies on the Node" of the
documentation of 1.36 (the version in which an option changed its stage).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.settings import KubeletSettings, Setting
from cri_proxy.kubelet.start_rules.problem import StartHost, StartProblem, listed, removal

BY_SOCKET, _ACROSS_CORES = "align-by-socket", "distribute-cpus-across-cores"
_FULL_CORES, _ACROSS_NUMA, _BY_CACHE = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "prefer-align-cpus-by-uncorecache",
)
_EXCLUDED: Final = (
    (_ACROSS_CORES, _FULL_CORES),
    (_ACROSS_CORES, _ACROSS_NUMA),
    (_ACROSS_CORES, _BY_CACHE),
    (_ACROSS_NUMA, _BY_CACHE),
)
_NODE_LIMIT: Final = "max-allowable-numa-nodes"
_LEAST_NODE_LIMIT: Final = 8
_SINGLE_NODE: Final = "single-numa-node"
_NEVER: Final = (99, 0)
# The stage of an option is not known for later kubelets.
_READ_UNTIL: Final = (1, 36)
# As Go's strconv.ParseBool reads them.
TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class _Stages:
    """The versions from which an option is alpha, beta (equal where it never was alpha) and stable."""

    alpha: tuple[int, int]
    beta: tuple[int, int] = _NEVER
    stable: tuple[int, int] = _NEVER


@dataclass(frozen=True, slots=True)
class _Manager:
    """A manager: the key of its policy and of its options, the options, and what its feature gates are called."""

    policy: str
    mapping: str
    options: dict[str, _Stages]
    gates: str


_CPU: Final = _Manager(
    keys.CPU_POLICY,
    keys.CPU_OPTIONS,
    {
        BY_SOCKET: _Stages((1, 25)),
        _ACROSS_CORES: _Stages((1, 31)),
        _ACROSS_NUMA: _Stages((1, 23), (1, 33)),
        _FULL_CORES: _Stages((1, 22), (1, 23), (1, 33)),
        _BY_CACHE: _Stages((1, 32), (1, 34), (1, 36)),
        "strict-cpu-reservation": _Stages((1, 32), (1, 33), (1, 35)),
    },
    "CPUManagerPolicy",
)
_TOPOLOGY: Final = _Manager(
    keys.TOPOLOGY_POLICY,
    keys.TOPOLOGY_OPTIONS,
    {
        "prefer-closest-numa-nodes": _Stages((1, 26), (1, 28), (1, 32)),
        _NODE_LIMIT: _Stages((1, 31), (1, 31), (1, 35)),
    },
    "TopologyManagerPolicy",
)
CPU_OPTIONS: Final = tuple(_CPU.options)


def manager_options(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Take options of a policy with this policy and their gates only, and only those that are known."""
    for manager in (_CPU, _TOPOLOGY):
        found, policy = settings.entries(manager.mapping), settings.get(manager.policy).value
        away = removal(settings, manager.mapping)
        if not found:
            continue
        if settings.get(gate := f"{keys.FEATURE_GATES}.{manager.gates}Options").value in _FALSE:
            yield StartProblem(f"{manager.mapping} need {gate}: true: {listed(found)}", away)
        elif policy == "none" and manager is _CPU:
            # The Topology Manager reads none with the policy none.
            yield StartProblem(f"{manager.policy}: none takes no {manager.mapping}: {listed(found)}", away)
        elif policy != "none":
            for wrong, why in _wrong(manager, found, settings, host):
                yield StartProblem(f"{why}: {listed(wrong)}", away)


def options_together(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Exclude what cannot stand together, or not on this machine."""
    if settings.get(keys.CPU_POLICY).value == "none":
        return
    on = {each.key.partition(".")[2]: each for each in settings.entries(keys.CPU_OPTIONS) if each.value in TRUE}
    away = removal(settings, keys.CPU_OPTIONS)
    for pair in _EXCLUDED:
        if on.keys() >= {*pair}:
            yield StartProblem(f"settings that exclude each other: {listed([on[name] for name in pair])}", away)
    if BY_SOCKET not in on:
        return
    policy = settings.get(keys.TOPOLOGY_POLICY)
    if policy.value == _SINGLE_NODE:
        yield StartProblem(f"settings that exclude each other: {listed([on[BY_SOCKET], policy])}", away)
    if host.nodes and host.packages > len(host.nodes):
        machine = f"{host.packages} packages and {len(host.nodes)} NUMA nodes"
        yield StartProblem(f"{listed([on[BY_SOCKET]])}: not on a machine of {machine}", away)


def numa_nodes(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Use the Topology Manager on machines of eight NUMA nodes at most, unless its option allows more."""
    policy = settings.get(keys.TOPOLOGY_POLICY)
    limit = settings.get(f"{keys.TOPOLOGY_OPTIONS}.{_NODE_LIMIT}").value
    most = int(limit) if limit.isdecimal() else _LEAST_NODE_LIMIT
    if policy.value != "none" and len(host.nodes) > most:
        text = f"{policy.sentence} on a machine of {len(host.nodes)} NUMA nodes, and the kubelet allows {most}"
        yield StartProblem(text, removal(settings, keys.TOPOLOGY_POLICY))


def _wrong(
    manager: _Manager, found: Sequence[Setting], settings: KubeletSettings, host: StartHost
) -> Iterator[tuple[list[Setting], str]]:
    """Yield the options that are not known, need a gate, or have an unreadable value, each kind with its reason."""
    wrong: dict[str, list[Setting]] = {}
    for each in found:
        if why := _why_wrong(manager, each, settings, host):
            wrong.setdefault(why, []).append(each)
    yield from ((options, why) for why, options in wrong.items())


def _why_wrong(manager: _Manager, setting: Setting, settings: KubeletSettings, host: StartHost) -> str:
    """Return why the manager does not take an option; '' where it does, and where that is not known."""
    name = setting.key.partition(".")[2]
    stages = manager.options.get(name)
    if stages is None:
        return "" if host.version and host.version > _READ_UNTIL else "options that the kubelet does not know"
    if host.version and host.version < stages.alpha:
        return f"options that kubelet {host.named} does not know"
    if gate := _missing_gate(manager, stages, settings, host.version):
        return f"options that need {gate}: true in kubelet {host.named}"
    if name == _NODE_LIMIT:
        is_readable = setting.value.isdecimal() and int(setting.value) >= _LEAST_NODE_LIMIT
        return "" if is_readable else f"must be a number of at least {_LEAST_NODE_LIMIT}"
    return "" if setting.value in TRUE | _FALSE else "must be true or false"


def _missing_gate(
    manager: _Manager, stages: _Stages, settings: KubeletSettings, version: tuple[int, int] | None
) -> str:
    """Return the gate without which this version hides an option of these stages; '' for none, or an unknown one."""
    if version is None or version > _READ_UNTIL or version >= stages.stable:
        return ""
    is_beta = version >= stages.beta
    gate = f"{keys.FEATURE_GATES}.{manager.gates}{'Beta' if is_beta else 'Alpha'}Options"
    value = settings.get(gate).value
    is_open = value not in _FALSE if is_beta else value in TRUE
    return "" if is_open else gate
