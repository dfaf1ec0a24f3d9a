"""Detect the kubelet's static CPU and memory managers from its state files and from its calls, and warn of them.

They must be off: a static CPU manager writes its own cpusets into creates and, every ten seconds, into
updates. Sources: pkg/kubelet/cm/cpumanager/state (``cpu_manager_state``) and memorymanager/state of Kubernetes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from sysfs.cpuset import CpuSet, CpuSetError

CPU_STATE, MEMORY_STATE = "cpu_manager_state", "memory_manager_state"
_REMEDY = "in the kubelet's configuration, delete {file} in its directory and restart the kubelet"
# Policies that leave cpusets alone. The kubelet writes "None" for the memory manager's.
_IDLE = ("", "none")
MAX_STATE_BYTES = 1 << 22
READ_SECONDS = 2.0  # two small files; a repair of a cpuset waits for them


@dataclass(frozen=True, slots=True)
class KubeletManagers:
    """What the files say; '' = no readable file. ``sets``: the CPU sets that the manager assigns."""

    cpu_policy: str = ""
    memory_policy: str = ""
    sets: tuple[CpuSet, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence with the remedy for each manager that is on."""
        notes = []
        for what, policy, option, file in (
            ("CPU", self.cpu_policy, "cpuManagerPolicy: none", CPU_STATE),
            ("memory", self.memory_policy, "memoryManagerPolicy: None", MEMORY_STATE),
        ):
            if policy.lower() not in _IDLE:
                said = f"the kubelet's {what} manager is on (policy {policy}) and pins containers too: set {option}"
                notes.append(f"{said} {_REMEDY.format(file=file)}")
        return tuple(notes)


class ManagerWatch:
    """Watches the kubelet's managers and warns of each once."""

    def __init__(self, kubelet_root: Path, warn: Callable[[str], None], files: FileCalls = PLAIN_THREADS) -> None:
        """``warn`` gets each new warning; ``files`` reads the kubelet's directory, which may hang."""
        self._root = kubelet_root
        self._warn = warn
        self._files = files
        self._caller = ""
        self.found = KubeletManagers()

    async def read(self) -> KubeletManagers:
        """Return the state files as they are now, or as they were when they do not answer."""
        try:
            return await self._files.run(str(self._root), read_managers, self._root, within_seconds=READ_SECONDS)
        except FilesFailed:
            return self.found

    async def look(self) -> None:
        """Read the state files again."""
        before = self.found.warnings()
        self.found = await self.read()
        for warning in self.found.warnings():
            if warning not in before:
                self._warn(warning)

    def note_cpuset(self, cpus: str, name: str) -> None:
        """Warn of a kubelet call that carries CPUs of its own: only a static manager sends them."""
        if cpus and not self._caller:
            remedy = f"Set cpuManagerPolicy: none {_REMEDY.format(file=CPU_STATE)}"
            self._caller = (
                f"a call about {name} carried CPUs {cpus[:80]} of the caller's own, as the kubelet's static CPU "
                f"manager sends them; they are replaced by ours. {remedy}"
            )
            self._warn(self._caller)

    def warnings(self) -> tuple[str, ...]:
        """Return what an operator should know now; the files take precedence over what calls carried."""
        return self.found.warnings() or ((self._caller,) if self._caller else ())


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
