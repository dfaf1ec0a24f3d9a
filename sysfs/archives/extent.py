"""The sysfs and procfs paths that discovery reads: ``capture`` writes these, and the archive reader keeps these."""

import re

from sysfs.cpus import CPU, EFFICIENCY_LISTS
from sysfs.gpu_partitions import KFD_NODES, PLATFORM
from sysfs.hugepages import OF_MACHINE, OF_NODE
from sysfs.nodes import NODE, TIERS
from sysfs.pci import BUS, DEVICES, VERBS

_TOPOLOGY = ("core_cpus_list", "thread_siblings_list", "core_id", "die_id", "physical_package_id")
_CACHE = ("level", "type", "shared_cpu_list", "size")
_FREQUENCY = ("base_frequency", "energy_performance_preference")
PCI_FILES = ("class", "vendor", "device", "numa_node", "local_cpulist", "physfn", VERBS)

# A star matches any name within one directory. Entries may be files, links or directories.
PATTERNS = (
    *(f"{CPU}/{name}" for name in ("online", "present", "isolated")),
    f"{CPU}/cpu[0-9]*",
    *(f"{CPU}/cpu[0-9]*/{name}" for name in ("online", "cpu_capacity")),
    *(f"{CPU}/cpu[0-9]*/topology/{name}" for name in _TOPOLOGY),
    *(f"{CPU}/cpu[0-9]*/cache/index[0-9]*/{name}" for name in _CACHE),
    f"{CPU}/cpu[0-9]*/cpufreq",
    *(f"{CPU}/cpu[0-9]*/cpufreq/{name}" for name in _FREQUENCY),
    *(f"{CPU}/cpufreq/policy[0-9]*/{name}" for name in _FREQUENCY),
    *EFFICIENCY_LISTS,
    *(f"{NODE}/{name}" for name in ("has_cpu", "has_memory", "has_normal_memory")),
    f"{NODE}/node[0-9]*",
    *(f"{NODE}/node[0-9]*/{name}" for name in ("cpulist", "distance", "meminfo")),
    *(f"{NODE}/node[0-9]*/access0/initiators/{name}" for name in ("read_bandwidth", "read_latency")),
    f"{NODE}/node[0-9]*/{OF_NODE}/hugepages-*/nr_hugepages",
    f"{OF_MACHINE}/hugepages-*/nr_hugepages",
    f"{TIERS}/memory_tier[0-9]*/nodelist",
    f"{BUS}/*",
    f"{KFD_NODES}/[0-9]*/properties",
    f"{PLATFORM}/amdgpu_xcp*/drm/renderD*",
    "proc/meminfo",
)


_PCI = f"{DEVICES}/pci[0-9a-f:]+/(?:[0-9a-f:.]+/)+(?:{'|'.join(PCI_FILES)})"
_ESCAPED = re.escape("|".join(PATTERNS)).replace(re.escape("|"), "|").replace(re.escape("[0-9]"), "[0-9]")
_READ = re.compile("|".join([_ESCAPED.replace(re.escape("*"), "[^/]*"), _PCI]))


def is_read(path: str) -> bool:
    """Return True for a path, relative to the root, that discovery may read.

    >>> is_read("sys/devices/system/cpu/cpu0/topology/core_id"), is_read("sys/devices/system/cpu/cpu0/uevent")
    (True, False)
    """
    return _READ.fullmatch(path) is not None
