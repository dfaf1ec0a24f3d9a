"""Judge what the kubelet becomes: its managers off, no state of a former policy, no values that it refuses. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.kubelet.distributions import KubernetesDistribution
from cri_proxy.kubelet.edits import Edit, edit_of
from cri_proxy.kubelet.settings import CPU_OPTIONS, CPU_POLICY, MEMORY_POLICY, ROOT_DIRECTORY, TOPOLOGY_POLICY
from cri_proxy.kubelet.start_rules.problem import StartHost, removal
from cri_proxy.kubelet.start_rules.rules import start_problems
from cri_proxy.node.drift.kubelet_state import CPU_STATE, MEMORY_STATE
from sysfs.cpuset import CpuSet

_OFF: Final = "none"  # the memory manager's is spelt None
# What the manager is, its key, what switches it off, its state file.
_MANAGERS: Final = (
    (FindingCode.CPU_MANAGER, "CPU", CPU_POLICY, "none", CPU_STATE),
    (FindingCode.MEMORY_MANAGER, "memory", MEMORY_POLICY, "None", MEMORY_STATE),
)


def is_off(policy: str) -> bool:
    """Return whether a manager of this policy leaves cpusets alone."""
    return policy.lower() in ("", _OFF)


def in_steps(found: KubernetesDistribution, edits: Sequence[Edit], after: str = "") -> str:
    """Return the remedy that makes these edits while no kubelet runs."""
    stop, start = "stop the kubelet", "start the kubelet"
    if found.is_service_of_its_own:
        stop, start = f"{stop} ({found.stop})", f"{start} ({found.restart})"
    elif found.is_booted:
        start = found.restart
    return ", ".join(("drain the node", stop, *map(str, edits), f"{start}{after}"))


def start_host(facts: HostFacts) -> StartHost:
    """Return what the kubelet's own rules ask of this node."""
    online, hardware = facts.cpus.online if facts.cpus else CpuSet(), facts.hardware
    return StartHost(
        facts.kubelet.minor,
        online,
        hardware.nodes,
        hardware.packages,
        hardware.memory_bytes,
        facts.cgroups.version,
    )


def static_managers(facts: HostFacts) -> Iterator[Finding]:
    """Neither manager may be on, in what runs or at the next start. The CPU manager's options go with its policy."""
    kubelet = facts.kubelet
    for code, what, key, off, state in _MANAGERS:
        setting, after = kubelet.next.get(key), ""
        edits: tuple[Edit, ...] = (Edit(f"{kubelet.next.get(ROOT_DIRECTORY).value}/{state}"),)
        if not is_off(setting.value):
            # A kubelet with the policy none and options that stayed ends at its start.
            options = removal(kubelet.next, CPU_OPTIONS) if key == CPU_POLICY else ()
            edits = kubelet.lasting((edit_of(setting, off), *options, *edits))
        elif kubelet.process is not None and not is_off(kubelet.now.get(key).value):
            setting, after = kubelet.now.get(key), ": it takes the policy that its files have by now"
        else:
            continue
        text = f"{setting.sentence}: the kubelet's {what} manager pins containers too{_ends(facts, edits)}"
        yield code.finding(text, in_steps(kubelet.distribution, edits, after), edits)


def _ends(facts: HostFacts, edits: Sequence[Edit]) -> str:
    """Return why the next start ends with an error until these edits are made, '' where it does not."""
    problems = start_problems(facts.kubelet.next, start_host(facts))
    found = [each.text for each in problems if set(edits).issuperset(facts.kubelet.lasting(each.edits))]
    return f". Until then the kubelet's next start ends with an error: {'; '.join(found)}" if found else ""


def refused_settings(facts: HostFacts) -> Iterator[Finding]:
    """The next start must not end with an error of the kubelet's own; one that goes with a manager is said there."""
    kubelet = facts.kubelet
    said = {edit for finding in static_managers(facts) for edit in finding.edits}
    for problem in start_problems(kubelet.next, start_host(facts)):
        edits = kubelet.lasting(problem.edits)
        if not said.issuperset(edits):
            text = f"{problem.text}: the kubelet's next start ends with an error"
            yield FindingCode.KUBELET_REFUSES.finding(text, ", ".join(map(str, edits)), edits)


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
            in_steps(kubelet.distribution, (Edit(path),)),
            (Edit(path),),
        )


def damaged_state(facts: HostFacts) -> Iterator[Finding]:
    """A state file that is cut off, or has no policy, keeps the kubelet from starting, with the policy none too.

    Source: pkg/kubelet/cm/cpumanager/state and memorymanager/state of Kubernetes, "could not restore state from
    checkpoint". One that a remedy deletes anyway is said there.
    """
    kubelet = facts.kubelet
    said = {edit for finding in static_managers(facts) for edit in finding.edits}
    for name in kubelet.managers.damaged:
        edit = Edit(f"{kubelet.next.get(ROOT_DIRECTORY).value}/{name}")
        if edit not in said:
            yield FindingCode.MANAGER_STATE.finding(
                f"{edit.place} is cut off or has no policy: the kubelet's next start ends with an error",
                in_steps(kubelet.distribution, (edit,)),
                (edit,),
            )


def topology_manager(facts: HostFacts) -> Iterator[Finding]:
    """Its policy has no effect on CPUs and memory once both managers are off."""
    kubelet = facts.kubelet
    policy = kubelet.next.get(TOPOLOGY_POLICY)
    managers = (kubelet.next.get(CPU_POLICY), kubelet.next.get(MEMORY_POLICY))
    if not is_off(policy.value) and all(is_off(each.value) for each in managers):
        edit = kubelet.distribution.lasting(edit_of(policy, _OFF))
        yield FindingCode.TOPOLOGY_MANAGER.finding(
            f"{policy.sentence}: without the CPU and memory managers it aligns "
            "devices among each other only, and can refuse pods for that; CPUs and memory are placed by cri-proxy",
            f"{edit} unless that is wanted",
            (edit,),
        )


RULES = (static_managers, former_state, damaged_state, refused_settings, topology_manager)
