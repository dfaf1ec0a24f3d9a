"""Say why a kubelet ends at its next start, by the rules of kubelets 1.30 to 1.37 for the keys that we touch. Pure.

Sources, of Kubernetes: pkg/kubelet/apis/config/validation/validation.go (words, durations, endpoint),
pkg/kubelet/kubelet.go (cgroup v1),
pkg/features/kube_features.go up to 1.35 (gates: a later kubelet may know fewer). Not judged: keys that neither our
pages nor our remedies name, thresholds of eviction in percent, stages of options after 1.36.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.edits import UNNAMED, edit_at, edit_of
from cri_proxy.kubelet.settings import KubeletSettings
from cri_proxy.kubelet.start_rules.memory import reserved_memory
from cri_proxy.kubelet.start_rules.options import manager_options, numa_nodes, options_together
from cri_proxy.kubelet.start_rules.problem import StartHost, StartProblem, listed, removal
from cri_proxy.kubelet.start_rules.reservation import enforcement, reserved_amounts, reserved_cpus

Rule = Callable[[KubeletSettings, StartHost], Iterator[StartProblem]]

_KNOWN_WORDS: Final = {
    keys.CPU_POLICY: ("none", "static"),
    keys.MEMORY_POLICY: ("None", "Static"),  # their case counts
    keys.TOPOLOGY_POLICY: ("none", "best-effort", "restricted", "single-numa-node"),
    keys.TOPOLOGY_SCOPE: ("container", "pod"),
}
# Gates: the version from which only "true" is taken, and the one from which the name is unknown (None: not known).
_GATES: Final[dict[str, tuple[tuple[int, int], tuple[int, int] | None]]] = {
    "CPUManager": ((1, 26), (1, 33)),
    "CPUManagerPolicyOptions": ((1, 33), None),
    "MemoryManager": ((1, 32), None),
    "TopologyManager": ((1, 27), (1, 29)),
    "KubeletCgroupDriverFromCRI": ((1, 34), None),
}
_FAILS_ON_V1_FROM: Final = (1, 35)
_DURATION: Final = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+")


def start_problems(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Yield each reason for which a kubelet with these settings ends while it starts."""
    for rule in _RULES:
        yield from rule(settings, host)


def _words(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Take only the names of policies and scopes that the kubelet knows, in its own case."""
    for key, known in _KNOWN_WORDS.items():
        setting = settings.get(key)
        if setting.value not in known:
            off = next((word for word in known if word.lower() == setting.value.lower()), known[0])
            yield StartProblem(
                f"{setting.sentence}, and the kubelet knows {', '.join(known)}", (edit_of(setting, off),)
            )


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


def _cgroups(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Run on cgroup v1 where that is allowed, which later kubelets do not do by themselves."""
    setting = settings.get(keys.FAIL_CGROUP_V1)
    fails_by_default = host.version is not None and host.version >= _FAILS_ON_V1_FROM
    if host.cgroups == 1 and (setting.value == "true" or (not setting.value and fails_by_default)):
        allowed = f"kubelet {host.named} takes cgroup v1 with {setting.key}: false"
        said = f"{setting.sentence}, which excludes cgroup v1" if setting.value else allowed
        where = setting.where or settings.get(keys.CONFIG).value or UNNAMED
        yield StartProblem(f"{said}, and this node has cgroup v1", (edit_at(where, setting.key, "false"),))


def _gates(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Set no feature gate that this version does not know, or keeps on."""
    for setting in settings.entries(keys.FEATURE_GATES) if host.version else ():
        name = setting.key.partition(".")[2]
        locked, gone = _GATES.get(name, (None, None))
        version = f"kubelet {host.named}"
        if host.version and gone and host.version >= gone:
            yield StartProblem(f"{listed([setting])}: {version} knows no such gate", removal(settings, setting.key))
        elif host.version and locked and host.version >= locked and setting.value == "false":
            yield StartProblem(f"{listed([setting])}: {version} keeps it on", removal(settings, setting.key))


_RULES: Final[tuple[Rule, ...]] = (
    _words,
    manager_options,
    options_together,
    numa_nodes,
    reserved_memory,
    reserved_cpus,
    reserved_amounts,
    enforcement,
    _formats,
    _cgroups,
    _gates,
)
