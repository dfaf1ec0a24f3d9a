"""Read what the kubelet's CPU and memory managers have written into its directory: their policies and CPU sets.

Runs in helper processes, and so loads little. Sources: pkg/kubelet/cm/cpumanager/state (``cpu_manager_state``) and
memorymanager/state of Kubernetes.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from sysfs.cpuset import CpuSet, CpuSetError

CPU_STATE, MEMORY_STATE = "cpu_manager_state", "memory_manager_state"
CPU_OFF = "cpuManagerPolicy: none and remove cpuManagerPolicyOptions"
REMEDY = "in the kubelet's configuration, delete {file} in its directory and restart the kubelet"
# Policies that leave cpusets alone. The kubelet writes "None" for the memory manager's.
_IDLE = ("", "none")
MAX_STATE_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class KubeletManagers:
    """The policies in the files; '' = no readable file. ``sets``: the CPU sets that the manager assigns."""

    cpu_policy: str = ""
    memory_policy: str = ""
    sets: tuple[CpuSet, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence with the remedy for each manager that is on."""
        notes = []
        for what, policy, option, file in (
            ("CPU", self.cpu_policy, CPU_OFF, CPU_STATE),
            ("memory", self.memory_policy, "memoryManagerPolicy: None", MEMORY_STATE),
        ):
            if policy.lower() not in _IDLE:
                said = f"the kubelet's {what} manager is on (policy {policy}) and pins containers too: set {option}"
                notes.append(f"{said} {REMEDY.format(file=file)}")
        return tuple(notes)


def read_managers(kubelet_root: Path) -> KubeletManagers:
    """Read the kubelet's state files. Blocks; call it from a thread."""
    cpu, memory = _state(kubelet_root / CPU_STATE), _state(kubelet_root / MEMORY_STATE)
    return KubeletManagers(_policy(cpu), _policy(memory), _sets(cpu))


def _state(path: Path) -> dict[str, object]:
    """Return the JSON object of this file; {} when there is none: the file is the kubelet's and may be anything."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(MAX_STATE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _policy(state: dict[str, object]) -> str:
    policy = state.get("policyName")
    return policy[:40] if isinstance(policy, str) else ""


def _sets(state: dict[str, object]) -> tuple[CpuSet, ...]:
    """Return the default set, then those of containers (version 2 of the file: by pod uid and container name)."""
    entries = state.get("entries")
    pods = entries.values() if isinstance(entries, dict) else ()
    texts = [state.get("defaultCpuSet"), *(text for pod in pods if isinstance(pod, dict) for text in pod.values())]
    found = []
    for text in texts:
        try:
            found.append(CpuSet.parse(text) if isinstance(text, str) else CpuSet())
        except CpuSetError:
            continue
    return tuple(cpus for cpus in found if cpus)
