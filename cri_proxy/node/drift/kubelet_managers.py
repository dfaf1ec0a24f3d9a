"""Detect the kubelet's static CPU and memory managers from its state files and from its calls, and warn of them.

They must be off: a static CPU manager writes its own cpusets into creates and, every ten seconds, into updates.
"""

from collections.abc import Callable
from pathlib import Path

from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.node.drift.kubelet_state import CPU_OFF, CPU_STATE, REMEDY, KubeletManagers, read_managers
from policies.container_name import ContainerName

READ_SECONDS = 2.0  # two small files; a repair of a cpuset waits for them


class ManagerWatch:
    """Watches the kubelet's managers and warns of each once, as long as it is on."""

    def __init__(self, kubelet_root: Path, warn: Callable[[str], None], files: FileCalls = PLAIN_THREADS) -> None:
        """``warn`` gets each new warning; ``files`` reads the kubelet's directory, which may hang."""
        self._root = kubelet_root
        self._warn = warn
        self._files = files
        self.caller_warning = ""
        """The warning about calls that carried CPUs, '' = none has, or they have ended."""
        self._has_carried = False  # a call carried CPUs since the last look
        self.found = KubeletManagers()

    async def read(self) -> KubeletManagers:
        """Return the state files as they are now, or as they were when they do not answer."""
        try:
            return await self._files.run(str(self._root), read_managers, self._root, within_seconds=READ_SECONDS)
        except FilesFailed:
            return self.found

    async def look(self) -> None:
        """Read the state files again. A manager that is off ends the warning of former calls."""
        before = self.found.warnings()
        self.found = await self.read()
        if self.found.cpu_policy.lower() == "none" and not self._has_carried:
            self.caller_warning = ""
        self._has_carried = False
        for warning in self.found.warnings():
            if warning not in before:
                self._warn(warning)

    def note_cpuset(self, cpus: str, who: ContainerName | str, *, is_create: bool = False) -> None:
        """Warn of a call about this container that carries CPUs of the caller's own: only a static manager sends them.

        It sends them with every CreateContainer (PreCreateContainer in pkg/kubelet/cm): one without ends the warning.
        """
        if not cpus:
            if is_create:
                self.caller_warning = ""
            return
        self._has_carried = True
        if not self.caller_warning:
            remedy = f"Set {CPU_OFF} {REMEDY.format(file=CPU_STATE)}"
            self.caller_warning = (
                f"a call about {who} carried CPUs {cpus[:80]} of the caller's own, as the kubelet's static CPU "
                f"manager sends them; they are replaced by ours. {remedy}"
            )
            self._warn(self.caller_warning)

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the operator; the files take precedence over what calls carried."""
        return self.found.warnings() or ((self.caller_warning,) if self.caller_warning else ())
