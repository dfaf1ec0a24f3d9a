"""Read CPUs from ``sys/devices/system/cpu``: online, offline, isolated, topology, core types, frequency.

Sources: Documentation/admin-guide/cputopology.rst, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from sysfs.assemble import CpuFacts
from sysfs.cpuset import CpuSet
from sysfs.errors import FileMissing, SysfsError
from sysfs.model import CoreKind
from sysfs.reader import TreeReader

CPU = "sys/devices/system/cpu"
# PMU devices of hybrid x86 machines, named in arch/x86/events/intel/core.c.
EFFICIENCY_LISTS = ("sys/devices/cpu_atom/cpus", "sys/devices/cpu_lowpower/cpus")


def read_online(reader: TreeReader) -> CpuSet:
    """Return the online CPUs.

    Where the kernel's list is missing, a cpuN directory counts as online unless its ``online`` file holds 0. Raises
    SysfsError when no CPU is online.
    """
    try:
        online = reader.cpus(f"{CPU}/online")
    except FileMissing:
        reader.note(f"{CPU}/online is missing: online CPUs taken from the cpuN directories")
        online = CpuSet.of(n for n in reader.numbered(CPU, "cpu") if not _is_offline(reader, n))
    if not online:
        raise SysfsError(f"{CPU}/online", "at least one CPU", "none")
    return online


def _is_offline(reader: TreeReader, cpu: int) -> bool:
    """Return True when the CPU's ``online`` file holds 0; CPUs that cannot be taken offline have no such file."""
    return reader.optional(reader.integer, f"{CPU}/cpu{cpu}/online", 1) == 0


def read_offline(reader: TreeReader, online: CpuSet) -> CpuSet:
    """Return the CPUs that are present and not online."""
    # Not from the kernel's ``offline`` file: it also holds possible CPUs that were never present.
    path = f"{CPU}/present"
    try:
        present = reader.cpus(path)
        if online <= present:
            return present - online
        reader.note(f"{path}: expected all online CPUs, got {str(present)!r}; offline CPUs taken from the directories")
    except FileMissing:
        pass
    except SysfsError as error:
        reader.note(f"{error}; offline CPUs taken from the directories")
    return CpuSet.of(reader.numbered(CPU, "cpu")) - online


def read_isolated(reader: TreeReader, online: CpuSet) -> CpuSet:
    """Return the online CPUs that the kernel keeps out of its scheduling domains (isolcpus=)."""
    return reader.optional(reader.cpus, f"{CPU}/isolated", CpuSet()) & online


def read_cpus(reader: TreeReader, online: CpuSet) -> list[CpuFacts]:
    """Return the facts of every online CPU, ascending; a CPU that goes offline during the read is noted and left out.

    Raises SysfsError for a malformed topology file and for one that contradicts another CPU's.
    """
    efficient = _efficiency_cpus(reader)
    has_cpufreq = bool(reader.names(f"{CPU}/cpufreq"))
    has_capacity = "cpu_capacity" in reader.names(f"{CPU}/cpu{next(iter(online))}")  # all CPUs have it, or none
    if not any(reader.names(f"{CPU}/cpu{cpu}/topology") for cpu in online):
        reader.note("the kernel reports no CPU topology: every CPU is taken as a core of one package")
        return [CpuFacts(cpu, 0, 0, cpu, CpuSet.of([cpu])) for cpu in online]
    # Between two reads the kernel may take a CPU offline, and removes its topology directory then.
    online = online - CpuSet.of(cpu for cpu in online if _went_offline(reader, cpu))
    siblings_name = _siblings_name(reader, online)
    found = []
    for cpu in online:
        siblings = _siblings(reader, cpu, siblings_name, online) if siblings_name else CpuSet.of([cpu])
        package, die, core_id = _topology(reader, cpu)
        frequency, preference = _frequency(reader, cpu) if has_cpufreq else (0, "")
        kind = CoreKind.EFFICIENCY if cpu in efficient else CoreKind.PERFORMANCE
        # On Arm's big.LITTLE this is the only difference between strong and weak cores.
        capacity = reader.lenient(reader.integer, f"{CPU}/cpu{cpu}/cpu_capacity", 0) if has_capacity else 0
        found.append(CpuFacts(cpu, package, die, core_id, siblings, kind, frequency, preference, max(capacity, 0)))
    _check_siblings(found, siblings_name)
    return found


def _went_offline(reader: TreeReader, cpu: int) -> bool:
    """Return True for a CPU that has lost its topology directory and whose ``online`` file holds 0."""
    if reader.names(f"{CPU}/cpu{cpu}/topology") or not _is_offline(reader, cpu):
        return False
    reader.note(f"CPU {cpu} went offline while the machine was read")
    return True


def _siblings(reader: TreeReader, cpu: int, name: str, online: CpuSet) -> CpuSet:
    """Return the online CPUs of the same core, this one included."""
    path = f"{CPU}/cpu{cpu}/topology/{name}"
    siblings = reader.cpus(path) & online
    if cpu not in siblings:
        raise SysfsError(path, f"a list with CPU {cpu} in it", repr(str(siblings)))
    return siblings


def _topology(reader: TreeReader, cpu: int) -> tuple[int, int, int]:
    """Return package, die and core_id of one CPU."""
    base = f"{CPU}/cpu{cpu}/topology"
    package = _id(reader, f"{base}/physical_package_id")
    if package < 0:
        # The kernel prints -1 on some virtual machines and device-tree boards.
        reader.note("the kernel reports no package ids: all CPUs are taken as one package")
        package = 0
    die = _id(reader, f"{base}/die_id", 0)  # missing before Linux 5.2, -1 where the architecture has no dies
    return package, max(die, 0), _id(reader, f"{base}/core_id")


def _id(reader: TreeReader, path: str, default: int | None = None) -> int:
    """Return a topology id; -1 is the kernel's word for unknown. Raises SysfsError."""
    value = reader.integer(path) if default is None else reader.optional(reader.integer, path, default)
    if not -1 <= value < 1 << 31:
        raise SysfsError(path, "an id", str(value))
    return value


def _siblings_name(reader: TreeReader, online: CpuSet) -> str:
    """Return the name of the file that lists a core's CPUs: that of Linux 5.3 or the older one; '' without either."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        if any(name in reader.names(f"{CPU}/cpu{cpu}/topology") for cpu in online):
            return name
    reader.note("the kernel reports no thread siblings: every CPU is taken as a core")
    return ""


def _check_siblings(cpus: list[CpuFacts], name: str) -> None:
    """Raise SysfsError when siblings disagree on their core, package or die."""
    by_id = {cpu.id: cpu for cpu in cpus}
    for cpu in cpus:
        base = f"{CPU}/cpu{cpu.id}/topology"
        for sibling in cpu.siblings:
            other = by_id[sibling]
            if other.siblings != cpu.siblings:
                expected = f"the list of its sibling CPU {sibling}, {str(other.siblings)!r}"
                raise SysfsError(f"{base}/{name}", expected, repr(str(cpu.siblings)))
            if (other.package, other.die) != (cpu.package, cpu.die):
                expected = f"package and die of its sibling CPU {sibling}, {other.package} and {other.die}"
                raise SysfsError(f"{base}/physical_package_id", expected, f"{cpu.package} and {cpu.die}")


def _efficiency_cpus(reader: TreeReader) -> CpuSet:
    """Return the CPUs of efficiency cores; none on machines that are not hybrid."""
    try:
        return CpuSet.of_masks(reader.optional(reader.cpus, path, CpuSet()).mask for path in EFFICIENCY_LISTS)
    except SysfsError as error:
        reader.note(f"{error}; core types are ignored")
        return CpuSet()


def _frequency(reader: TreeReader, cpu: int) -> tuple[int, str]:
    """Return base frequency in kHz and energy preference; 0 and '' where the driver does not report them."""
    base = f"{CPU}/cpu{cpu}/cpufreq"
    frequency_khz = reader.lenient(reader.integer, f"{base}/base_frequency", 0)
    return max(frequency_khz, 0), reader.lenient(reader.text, f"{base}/energy_performance_preference", "")
