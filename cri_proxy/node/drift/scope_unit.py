"""Set the CPUs and memory nodes in a container's scope unit through systemctl, where they differ: for ``reset``.

runc before 1.1.6 leaves other sets there than it was given (``runtime.runc``), which the next daemon-reload would
write. systemctl takes lists, so that no mask is involved.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cri_proxy.foreign_text import SENTENCE_BYTES, admit
from cri_proxy.node.drift.cgroups import Cpusets
from policies.base import Pinning

SYSTEMCTL = ("systemctl",)
COMMAND_SECONDS = 10.0  # systemd answers in milliseconds, but not during a daemon-reload


class ScopeUnits(Protocol):
    """The units that systemd has for containers, under the systemd cgroup driver."""

    async def correct(self, pid: int, container_id: str, wanted: Pinning) -> str:
        """Make the unit of this container, whose process has this pid, have these sets.

        Return why it has others, '' where it has these or no sets at all. A field of None stays as it is.
        """


@dataclass(frozen=True, slots=True)
class SystemdScopes:
    """Implements ``ScopeUnits`` on this machine's systemd.

    ``_cpusets`` reads the units' files; ``_command`` is systemctl, which is ended after ``seconds``.
    """

    _cpusets: Cpusets
    _command: Sequence[str] = SYSTEMCTL
    seconds: float = COMMAND_SECONDS

    async def correct(self, pid: int, container_id: str, wanted: Pinning) -> str:
        """As ``ScopeUnits``."""
        found = await asyncio.to_thread(self._cpusets.enforced, pid, container_id) if pid else None
        if found is None:
            return ""
        unit, assignments = found.unit, []
        if unit.cpus is not None and wanted.cpus is not None and unit.cpus != wanted.cpus:
            assignments.append(f"AllowedCPUs={wanted.cpus}")
        if unit.mems is not None and wanted.mems is not None and unit.mems != wanted.mems:
            assignments.append(f"AllowedMemoryNodes={wanted.mems}")
        if not assignments:
            return ""
        name = found.path.rpartition("/")[2]
        # --runtime: as the unit itself, which ends with the container.
        words = ("set-property", "--runtime", "--", name, *assignments)
        problem = await self._run(words)
        if not problem:
            return ""
        return f"the next daemon-reload moves it to CPUs {unit.cpus}: `systemctl {' '.join(words)}` failed: {problem}"

    async def _run(self, words: Sequence[str]) -> str:
        """Run systemctl; return its error message, '' where it succeeds."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(*self._command, *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return error.strerror or str(error)
        try:
            async with asyncio.timeout(self.seconds):
                _, said = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return f"no answer within {self.seconds:g} s"
        text = admit(said.decode(errors="replace").strip(), SENTENCE_BYTES)
        return "" if process.returncode == 0 else text or f"status {process.returncode}"
