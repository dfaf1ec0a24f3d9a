"""CPUs from ``sys/devices/system/cpu``: online, offline, isolated, topology, core types, frequency.

Sources: Documentation/admin-guide/cputopology.rst, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from sysfs.assemble import CpuFacts
from sysfs.cpuset import CpuSet
from sysfs.errors import FileMissing, SysfsError
from sysfs.model import CoreKind
from sysfs.reader import Reader

CPU = "sys/devices/system/cpu"
# Processor-monitoring devices of hybrid x86 machines; arch/x86/events/intel/core.c names them.
EFFICIENCY_LISTS = ("sys/devices/cpu_atom/cpus", "sys/devices/cpu_lowpower/cpus")


def read_online(reader: Reader) -> CpuSet:
    """The online CPUs. Without the list, every cpuN counts whose ``online`` file does not say 0 (cpu0 has none).

    Raises SysfsError when there is none.
    """
    try:
        online = reader.cpus(f"{CPU}/online")
    except FileMissing:
        reader.note(f"{CPU}/online is missing: online CPUs taken from the cpuN directories")
        online = CpuSet.of(n for n in reader.numbered(CPU, "cpu") if not _is_offline(reader, n))
    if not online:
        raise SysfsError(f"{CPU}/online", "at least one CPU", "none")
    return online


def _is_offline(reader: Reader, cpu: int) -> bool:
    """True when the CPU's own file says 0; CPUs that cannot be taken offline have no such file."""
    try:
        return reader.integer(f"{CPU}/cpu{cpu}/online") == 0
    except FileMissing:
        return False


def read_offline(reader: Reader, online: CpuSet) -> CpuSet:
    """Present CPUs that are not online. The kernel's ``offline`` file also holds CPUs that were never there."""
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


def read_isolated(reader: Reader, online: CpuSet) -> CpuSet:
    """The online ones of the CPUs that the kernel keeps out of its scheduling domains (isolcpus=)."""
    try:
        return reader.cpus(f"{CPU}/isolated") & online
    except FileMissing:
        return CpuSet()


def read_cpus(reader: Reader, online: CpuSet) -> list[CpuFacts]:
    """The facts of every online CPU, ascending. A CPU that went offline meanwhile is noted and left out.

    Raises SysfsError for a topology file that is garbage, or contradicts another CPU's.
    """
    efficient = _efficiency_cpus(reader)
    has_cpufreq = bool(reader.names(f"{CPU}/cpufreq"))
    if not any(reader.names(f"{CPU}/cpu{cpu}/topology") for cpu in online):
        reader.note("the kernel tells no CPU topology: every CPU taken as a core of one package")
        return [CpuFacts(cpu, 0, 0, cpu, CpuSet.of([cpu])) for cpu in online]
    online = online - CpuSet.of(cpu for cpu in online if _went_offline(reader, cpu))
    siblings_name = _siblings_name(reader, online)
    found = []
    for cpu in online:
        siblings = _siblings(reader, cpu, siblings_name, online) if siblings_name else CpuSet.of([cpu])
        package, die, core_id = _topology(reader, cpu)
        frequency, preference = _frequency(reader, cpu) if has_cpufreq else (0, "")
        kind = CoreKind.EFFICIENCY if cpu in efficient else CoreKind.PERFORMANCE
        found.append(CpuFacts(cpu, package, die, core_id, siblings, kind, frequency, preference))
    _check_siblings(found, siblings_name)
    return found


def _went_offline(reader: Reader, cpu: int) -> bool:
    """True for a CPU of the online list that has lost its topology and says itself that it is offline."""
    if reader.names(f"{CPU}/cpu{cpu}/topology") or not _is_offline(reader, cpu):
        return False
    reader.note(f"CPU {cpu} went offline while the machine was read")
    return True


def _siblings(reader: Reader, cpu: int, name: str, online: CpuSet) -> CpuSet:
    """The online threads of a CPU's core, itself included."""
    path = f"{CPU}/cpu{cpu}/topology/{name}"
    siblings = reader.cpus(path) & online
    if cpu not in siblings:
        raise SysfsError(path, f"a list with CPU {cpu} in it", repr(str(siblings)))
    return siblings


def _topology(reader: Reader, cpu: int) -> tuple[int, int, int]:
    """Package, die and core_id of one CPU."""
    base = f"{CPU}/cpu{cpu}/topology"
    package = _id(reader, f"{base}/physical_package_id")
    if package < 0:
        # Some virtual machines and device-tree boards do not tell: the kernel then prints -1.
        reader.note("the kernel tells no package ids: taken as one package")
        package = 0
    try:
        die = max(_id(reader, f"{base}/die_id"), 0)  # -1 where the architecture has no dies
    except FileMissing:
        die = 0  # Linux before 5.2
    return package, die, _id(reader, f"{base}/core_id")


def _id(reader: Reader, path: str) -> int:
    """A topology id: -1, which the kernel prints when it does not know, or a small number."""
    value = reader.integer(path)
    if not -1 <= value < 1 << 31:
        raise SysfsError(path, "an id", str(value))
    return value


def _siblings_name(reader: Reader, online: CpuSet) -> str:
    """The file that lists a core's threads: by its name since Linux 5.3 or the one before; '' if neither."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        if any(name in reader.names(f"{CPU}/cpu{cpu}/topology") for cpu in online):
            return name
    reader.note("the kernel tells no thread siblings: every CPU taken as a core")
    return ""


def _check_siblings(cpus: list[CpuFacts], name: str) -> None:
    """Siblings must agree on their core and its place, else one file is wrong and we cannot know which."""
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


def _efficiency_cpus(reader: Reader) -> CpuSet:
    """The efficiency cores of a hybrid machine; none elsewhere."""
    found = CpuSet()
    for path in EFFICIENCY_LISTS:
        try:
            found = found | reader.cpus(path)
        except FileMissing:
            continue
        except SysfsError as error:
            reader.note(f"{error}; core types ignored")
            return CpuSet()
    return found


def _frequency(reader: Reader, cpu: int) -> tuple[int, str]:
    """Base frequency in kHz and energy preference; 0 and '' where the driver does not tell them."""
    base = f"{CPU}/cpu{cpu}/cpufreq"
    frequency, preference = 0, ""
    try:
        frequency = max(reader.integer(f"{base}/base_frequency"), 0)
    except SysfsError as error:
        if not isinstance(error, FileMissing):
            reader.note(f"{error}; ignored")
    try:
        preference = reader.text(f"{base}/energy_performance_preference")
    except SysfsError as error:
        if not isinstance(error, FileMissing):
            reader.note(f"{error}; ignored")
    return frequency, preference
