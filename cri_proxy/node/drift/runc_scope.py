"""Report scopes of systemd whose CPUs runc before 1.1.6 has given in the wrong byte order, and what came of them."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from cri_proxy import events
from cri_proxy.node.context import Context
from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.runtime.runc import REMEDY, is_misread
from cri_proxy.state.rows import Row
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.text import some

# A warning in the log says that it goes on. Each reload moves every such container, and a boot reloads dozens of times.
REMIND_SECONDS = 600.0
WRITER = f"systemd applied its scope unit, as after a daemon-reload, and runc had reversed the bytes there: {REMEDY}"


@dataclass(frozen=True, slots=True)
class _Misread:
    """A container whose scope unit has other sets than the runtime was given."""

    row: Row
    unit: Pinning

    def __str__(self) -> str:
        known = self.row.known
        changes = []
        if self.unit.cpus is not None:
            changes.append(f"CPUs {known.cpus} to {self.unit.cpus}")
        if self.unit.mems is not None:
            changes.append(f"memory nodes {known.mems} to {self.unit.mems}")
        return f"{self.row.name} from {' and '.join(changes)}"


class MisreadScopes:
    """The scopes that the next reload of systemd would write wrongly. Warns of them, and of those that it has."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scopes: dict[str, _Misread] = {}
        self._said_seconds: float | None = None

    def note(self, row: Row, enforced: Enforced) -> None:
        """Compare the sets in the container's scope unit with what the runtime was given last."""
        unit = _misread(enforced.unit, row.known)
        if unit.cpus is not None and enforced.possible is not None and not unit.cpus <= enforced.possible:
            unit = replace(unit, cpus=None)  # the kernel refuses CPUs that there cannot be: systemd changes nothing
        if unit == Pinning():
            self._scopes.pop(row.container_id, None)
            return
        self._scopes[row.container_id] = _Misread(row, unit)
        self._say(again=False)

    def has_happened(self, row: Row, enforced: Enforced, online: CpuSet, nodes: NodeSet) -> bool:
        """Return whether the cgroup differs from what the runtime was given by reversed bytes, and by nothing else."""
        known, found = row.known, self._found(row, enforced, online, nodes)
        if found == Pinning():
            return False
        cpus_agree = found.cpus or known.cpus is None or enforced.cpus & online == known.cpus & online
        mems_agree = found.mems or known.mems is None or enforced.mems & nodes in (NodeSet(), known.mems & nodes)
        return bool(cpus_agree and mems_agree)

    def put_back(self, row: Row, enforced: Enforced, online: CpuSet, nodes: NodeSet) -> None:
        """Count one that was written wrongly and is put back; log now and then."""
        self._scopes[row.container_id] = _Misread(row, self._found(row, enforced, online, nodes))
        self._context.journal.misread(row, f"it was on CPUs {enforced.cpus}, put back: {WRITER}")
        self._say(again=True)

    @staticmethod
    def _found(row: Row, enforced: Enforced, online: CpuSet, nodes: NodeSet) -> Pinning:
        return _misread(Pinning(enforced.cpus, enforced.mems), row.known, online, nodes)

    def count(self) -> int:
        """Return how many containers the next reload of systemd would move."""
        return len(self._scopes)

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence with the remedy where there are any."""
        if not self._scopes:
            return ()
        scopes = some(sorted(map(str, self._scopes.values())), 1)
        return (
            "runc reverses the bytes of the CPU masks that it passes to systemd, so that each daemon-reload moves "
            f"{scopes}, until they are put back: {REMEDY}",
        )

    def keep(self, container_ids: Collection[str]) -> None:
        """Forget all containers but these."""
        for container_id in self._scopes.keys() - set(container_ids):
            del self._scopes[container_id]

    def _say(self, *, again: bool) -> None:
        now = self._context.clock.monotonic_seconds()
        if self._said_seconds is None or (again and now - self._said_seconds >= REMIND_SECONDS):
            self._said_seconds = now
            for warning in self.warnings():
                self._context.journal.noted(events.RUNC_MASKS, containers=len(self._scopes), reason=warning)


def _misread(found: Pinning, known: Pinning, online: CpuSet | None = None, nodes: NodeSet | None = None) -> Pinning:
    """Return those of the found sets that are the known ones with their bytes reversed."""
    has_cpus = found.cpus is not None and known.cpus is not None and is_misread(found.cpus, known.cpus, online)
    has_mems = found.mems is not None and known.mems is not None and is_misread(found.mems, known.mems, nodes)
    return Pinning(found.cpus if has_cpus else None, found.mems if has_mems else None)
