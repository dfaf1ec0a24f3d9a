"""Judge the kubelet's own managers: off in every place, and without state of a former policy. Pure."""

from collections.abc import Iterator
from typing import Final

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.kubelet.settings import CPU_POLICY, MEMORY_POLICY, ROOT_DIRECTORY, TOPOLOGY_POLICY, Setting
from cri_proxy.node.drift.kubelet_state import CPU_STATE, MEMORY_STATE

_OFF: Final = "none"  # the memory manager's is spelt None
# What the manager is, its key, what switches it off, its state file.
_MANAGERS: Final = (
    (FindingCode.CPU_MANAGER, "CPU", CPU_POLICY, "none", CPU_STATE),
    (FindingCode.MEMORY_MANAGER, "memory", MEMORY_POLICY, "None", MEMORY_STATE),
)


def is_off(policy: str) -> bool:
    """Return whether a manager of this policy leaves cpusets alone."""
    return policy.lower() in ("", _OFF)


def where_to_set(setting: Setting, value: str) -> str:
    """Return the line to write in the place that sets it.

    >>> where_to_set(Setting("cpuManagerPolicy", "static", "/k.yaml"), "none")
    'set cpuManagerPolicy: none in /k.yaml'
    >>> where_to_set(Setting("cpuManagerPolicy", "static", "/k.env, --cpu-manager-policy"), "none")
    'set --cpu-manager-policy=none in /k.env'
    """
    place, _, flag = setting.where.partition(", --")
    if flag and place.startswith("process "):
        return f"start the kubelet with --{flag}={value}"
    return f"set --{flag}={value} in {place}" if flag else f"set {setting.key}: {value} in {place}"


def static_managers(facts: HostFacts) -> Iterator[Finding]:
    """Neither manager may be on, in what runs or at the next start."""
    kubelet = facts.kubelet
    for code, what, key, off, state in _MANAGERS:
        coming, now = kubelet.next.get(key), kubelet.now.get(key)
        path = f"{kubelet.next.get(ROOT_DIRECTORY).value}/{state}"
        stop, start = "drain the node, stop the kubelet", f"delete {path}, start the kubelet"
        if not is_off(coming.value):
            yield _static(code, what, coming, f"{stop}, {where_to_set(coming, off)}, {start}")
        elif kubelet.process is not None and not is_off(now.value):
            yield _static(code, what, now, f"{stop}, {start}: it takes the policy that its files have by now")


def _static(code: FindingCode, what: str, setting: Setting, remedy: str) -> Finding:
    text = f"{setting.where} sets {setting.key}: {setting.value}: the kubelet's {what} manager pins containers too"
    return code.finding(text, remedy)


def former_state(facts: HostFacts) -> Iterator[Finding]:
    """A state file must have the policy that the kubelet is to have: another one keeps it from starting.

    Source: pkg/kubelet/cm/cpumanager/state of Kubernetes, "configured policy differs from state checkpoint policy".
    """
    kubelet, found = facts.kubelet, facts.kubelet.managers
    for policy, (_, what, key, _, state) in zip((found.cpu_policy, found.memory_policy), _MANAGERS, strict=True):
        is_said = kubelet.process is not None and not is_off(kubelet.now.get(key).value)
        if is_off(policy) or not is_off(kubelet.next.get(key).value) or is_said:
            continue
        path = f"{kubelet.next.get(ROOT_DIRECTORY).value}/{state}"
        runs = f"the running kubelet's {what} manager pins by it" if kubelet.process else "it was left behind"
        yield FindingCode.MANAGER_STATE.finding(
            f"{path} has policy {policy}, and the configuration has {key}: {kubelet.next.get(key).value}: {runs}, and "
            "the kubelet does not start with both",
            f"drain the node, stop the kubelet, delete {path}, start the kubelet",
        )


def topology_manager(facts: HostFacts) -> Iterator[Finding]:
    """Its policy has no effect on CPUs and memory once both managers are off."""
    policy = facts.kubelet.next.get(TOPOLOGY_POLICY)
    managers = (facts.kubelet.next.get(CPU_POLICY), facts.kubelet.next.get(MEMORY_POLICY))
    if not is_off(policy.value) and all(is_off(each.value) for each in managers):
        yield FindingCode.TOPOLOGY_MANAGER.finding(
            f"{policy.where} sets topologyManagerPolicy: {policy.value}: without the CPU and memory managers it aligns "
            "devices among each other only, and can refuse pods for that; CPUs and memory are placed by cri-proxy",
            where_to_set(policy, _OFF) + " unless that is wanted",
        )


RULES = (static_managers, former_state, topology_manager)
