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
    """The policies in the files; '' = no readable file. ``sets``: the CPU sets that the manager assigns.

    ``damaged`` are the files that are there and have no policy: a crash of the node leaves such ones.
    """

    cpu_policy: str = ""
    memory_policy: str = ""
    sets: tuple[CpuSet, ...] = ()
    damaged: tuple[str, ...] = ()

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
    found = {name: _state(kubelet_root / name) for name in (CPU_STATE, MEMORY_STATE)}
    damaged = tuple(name for name, state in found.items() if state is not None and not _policy(state))
    cpu, memory = (found[name] or {} for name in (CPU_STATE, MEMORY_STATE))
    return KubeletManagers(_policy(cpu), _policy(memory), _sets(cpu), damaged)


def _state(path: Path) -> dict[str, object] | None:
    """Return the JSON object of this file, {} for another content: it is the kubelet's and may be anything.

    None where there is no file, or none that can be read: one that is too long is not read to its end.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_STATE_BYTES)
        value = json.loads(text)
    except OSError:
        return None
    except (ValueError, RecursionError):
        return {} if len(text) < MAX_STATE_BYTES else None
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
