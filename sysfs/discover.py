"""Discover a ``Machine``: run the readers of a sysfs tree and assemble; and fingerprint a tree, to poll for hotplug.

Content that would make the machine wrong (a malformed CPU list, two nodes that claim a CPU) raises a SysfsError that
names the file. Content that only adds detail (a cache, a device, a file that older kernels lack) is left out or
replaced by a documented default, with a sentence in ``Machine.notes``.
"""

from pathlib import Path

from sysfs.assemble import MachineFacts, assemble
from sysfs.caches import read_caches
from sysfs.cpus import CPU, read_cpus, read_isolated, read_offline, read_online
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.errors import MachineSourceError
from sysfs.gpu_partitions import KFD, with_partitions
from sysfs.hugepages import OF_MACHINE, OF_NODE, count_paths
from sysfs.model import Machine
from sysfs.nodes import NODE, read_nodes
from sysfs.pci import BUS, VERBS_CLASS, read_devices
from sysfs.reader import DirectoryTree, Tree, TreeReader

ROOT_REMEDY = "--sysfs-root takes the directory that holds sys/ and proc/"
# A few small files show that CPUs or memory nodes went offline or came back; caches and cores change with a boot.
FILES = (
    *(f"{CPU}/{name}" for name in ("online", "present", "isolated")),
    *(f"{NODE}/{name}" for name in ("online", "has_cpu", "has_memory", "has_normal_memory")),
    f"{KFD}/generation_id",  # of GPUs in partitions
)
# A device that comes or goes on PCI; a NIC whose driver gives it verbs, or does not any more (bound to vfio).
LISTINGS = (BUS, VERBS_CLASS)

Fingerprint = tuple[str, ...]


def discover(root: Path = Path("/"), remedy: str = ROOT_REMEDY) -> Machine:
    """Return the machine whose ``sys`` and ``proc`` are below ``root``.

    Raises MachineSourceError when there is no such tree, SysfsError for invalid content.
    """
    if not (root / "sys" / "devices").is_dir():
        problem = "it has no sys/devices" if root.is_dir() else "no such directory"
        raise MachineSourceError(str(root), f"{problem}; {remedy}")
    return discover_tree(DirectoryTree(root))


def discover_tree(tree: Tree) -> Machine:
    """Return the machine of any tree, on disk or in memory. Raises SysfsError."""
    reader = TreeReader(tree)
    cpus = read_cpus(reader, read_online(reader))
    # Without those that went offline meanwhile: no node or cache may have a CPU of which nothing is known.
    online = CpuSet.of(cpu.id for cpu in cpus)
    nodes = read_nodes(reader, online)
    caches = read_caches(reader, online)
    # Those of the kernel: without NUMA it has none, and ``nodes`` one that stands for the whole machine.
    listed = NodeSet.of(reader.numbered(NODE, "node"))
    devices = with_partitions(reader, read_devices(reader, online, listed))
    offline, isolated = read_offline(reader, online), read_isolated(reader, online)
    return assemble(MachineFacts(cpus, nodes, caches, devices, offline, isolated, reader.notes))


def fingerprint(tree: Tree) -> Fingerprint:
    """Return the content of each file, '' for a missing one, and names of devices. Equal ones: an unchanged machine.

    Numbers of huge pages are among them: an operator may change these at any time, and the number of VFs, too.
    """
    reader = TreeReader(tree)
    none: list[int] = []
    nodes = reader.lenient(lambda path: reader.numbered(path, "node"), NODE, none)
    pages = [path for node in nodes for path in count_paths(reader, f"{NODE}/node{node}/{OF_NODE}")]
    listed = (" ".join(reader.lenient(reader.names, path, [])) for path in LISTINGS)
    files = (*FILES, *(pages if nodes else count_paths(reader, OF_MACHINE)))
    return (*listed, *(_content(tree, path) for path in files))


def _content(tree: Tree, path: str) -> str:
    try:
        # Bytes that are no text are compared all the same; to refuse them is up to discovery.
        return tree.read(path).decode("ascii", "replace").strip()
    except OSError:
        return ""
