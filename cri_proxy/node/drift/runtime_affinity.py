"""Look once after each start whether a container's first process has its whole cpuset, or what an affinity leaves.

Children inherit an affinity, as of systemd's ``CPUAffinity`` of the runtime; since Linux 6.2 a cpuset no longer resets
it, and runc does since 1.2.7 and 1.3.1 only (``runtime.runc.keeps_affinity``). The container's parent is the runtime's
shim, which has inherited it too. Reported and never repaired: a program may have pinned itself, as DPDK, MPI and nginx.

Source: proc_pid_status(5), ``PPid`` and ``Cpus_allowed_list``.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from cri_proxy import events
from cri_proxy.node.context import Context
from cri_proxy.runtime.runc import affinity_remedy
from cri_proxy.state.rows import Row
from sysfs.cpuset import CpuSet, CpuSetError
from sysfs.text import some


@dataclass(frozen=True, slots=True)
class Allowed:
    """The CPUs that a process may run on, and those that its parent may."""

    cpus: CpuSet
    parent: CpuSet


def read_allowed(root: Path, pid: int) -> Allowed | None:
    """Return the affinities of this process and its parent; None where one is gone. Blocks.

    ``root`` holds ``proc``.
    """
    own = _status(root, str(pid))
    parent = _status(root, own.get("PPid", ""))
    try:
        found = [CpuSet.parse(status.get("Cpus_allowed_list", "")) for status in (own, parent)]
    except CpuSetError:
        return None
    return Allowed(*found) if all(found) else None


def _status(root: Path, pid: str) -> dict[str, str]:
    try:
        lines = (root / "proc" / pid / "status").read_text(errors="replace").splitlines() if pid else []
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


class NarrowedContainers:
    """The containers whose first process runs on a part of their cpuset, because the runtime's affinity is narrower."""

    def __init__(self, context: Context, read: Callable[[int], Allowed | None]) -> None:
        """``read`` returns the affinities of a process and its parent; it may block."""
        self._context = context
        self._read = read
        self._seen: set[str] = set()
        self._narrowed: dict[str, str] = {}

    async def look(self, started: Sequence[tuple[Row, int]]) -> None:
        """Look at those of these containers, with their first processes, that were not looked at yet."""
        new = [(row, pid) for row, pid in started if row.container_id not in self._seen]
        if not new:
            return
        # Once: later its program may have pinned itself.
        self._seen.update(row.container_id for row, _ in new)
        found = await asyncio.to_thread(lambda: [self._read(pid) for _, pid in new])
        for (row, _), allowed in zip(new, found, strict=True):
            if allowed is not None:
                self._note(row, allowed)

    def _note(self, row: Row, allowed: Allowed) -> None:
        whole = (row.known.cpus or CpuSet()) & self._context.ledger.policy.machine.online
        # Exactly what the shim's affinity leaves: any other set the program has chosen itself, as DPDK and MPI do.
        if allowed.cpus == whole or allowed.cpus != whole & allowed.parent:
            return
        text = (
            f"its first process runs on CPUs {allowed.cpus} of {whole}, by the CPU affinity of the runtime "
            f"({allowed.parent}): {self._remedy()}"
        )
        self._narrowed[row.container_id] = str(row.name)
        self._context.journal.noted_of(row, events.NARROWED, reason=text)
        self._context.journal.records.happened(row, "narrowed", text)

    def count(self) -> int:
        """Return how many containers these are."""
        return len(self._narrowed)

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence with the remedy where there are any."""
        if not self._narrowed:
            return ()
        names = some(sorted(self._narrowed.values()), 3)
        return (f"the CPU affinity of the runtime keeps from a part of their CPUs: {names}; {self._remedy()}",)

    def _remedy(self) -> str:
        return f"{affinity_remedy(str(self._context.ledger.policy.machine.online))}; then restart the containers"

    def keep(self, container_ids: Collection[str]) -> None:
        """Forget all containers but these."""
        self._seen &= set(container_ids)
        for container_id in self._narrowed.keys() - set(container_ids):
            del self._narrowed[container_id]
