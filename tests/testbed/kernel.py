"""Parse /proc/PID/status, as text or of this process: allowed CPUs and memory nodes, effective capabilities.

Sources: proc_pid_status(5) (Cpus_allowed_list, Mems_allowed_list, CapEff), capabilities(7).
"""

from dataclasses import dataclass
from pathlib import Path

from sysfs.cpuset import CpuSet, CpuSetError, NodeSet
from tests.testbed.errors import TryoutError

CAP_SYS_RESOURCE = 24  # capability number, linux/capability.h
STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The CPUs and memory nodes that the kernel lets a process use."""

    cpus: CpuSet
    mems: NodeSet


def status_fields(text: str) -> dict[str, str]:
    """Return the fields of a status file by name, values without surrounding blanks."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, _, value in pairs}


def read_allowed(text: str) -> Allowed:
    r"""Return the allowed CPUs and nodes of a status file. Raises TryoutError without these fields.

    >>> read_allowed("Cpus_allowed_list:\t4-5\nMems_allowed_list:\t1\n").cpus
    CpuSet('4-5')
    """
    fields = status_fields(text)
    try:
        return Allowed(CpuSet.parse(fields["Cpus_allowed_list"]), NodeSet.parse(fields["Mems_allowed_list"]))
    except KeyError as missing:
        raise TryoutError("/proc/self/status", f"no field {missing} in {text[:200]!r}") from None
    except CpuSetError as error:
        raise TryoutError("/proc/self/status", str(error)) from None


def own_allowed() -> Allowed:
    """Return the CPUs and nodes of this process."""
    return read_allowed(STATUS.read_text())


def has_capability(number: int, status: str | None = None) -> bool:
    """Return True when a capability is in the effective set (of this process, or of the given status text)."""
    fields = status_fields(STATUS.read_text() if status is None else status)
    return bool(int(fields.get("CapEff", "0"), 16) >> number & 1)
