"""A machine from a sysfs tree.

Two rules. What would make the machine wrong (a garbage CPU list, two nodes that claim a CPU) raises a SysfsError that
names the file. What only makes it less detailed (a cache, a device, a missing file of an older kernel) is left out or
replaced by a documented default, and a sentence in ``Machine.notes`` says so.
"""

from pathlib import Path

from sysfs.assemble import Facts, assemble
from sysfs.caches import read_caches
from sysfs.cpus import read_cpus, read_isolated, read_offline, read_online
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.errors import MachineSourceError
from sysfs.model import Machine
from sysfs.nodes import read_nodes
from sysfs.pci import read_devices
from sysfs.reader import DirectoryTree, Reader, Tree


def discover(root: Path = Path("/")) -> Machine:
    """The machine whose ``sys`` and ``proc`` stand below ``root``.

    Raises MachineSourceError when there is no such tree, SysfsError for one that cannot be believed.
    """
    if not (root / "sys" / "devices").is_dir():
        problem = "no sys/devices in it" if root.is_dir() else "there is no such directory"
        raise MachineSourceError(str(root), f"{problem}; --sysfs-root names the one that holds sys/ and proc/")
    return discover_tree(DirectoryTree(root))


def discover_tree(tree: Tree) -> Machine:
    """The machine of any tree, on disk or in memory. Raises SysfsError."""
    reader = Reader(tree)
    cpus = read_cpus(reader, read_online(reader))
    online = CpuSet.of(cpu.id for cpu in cpus)
    nodes = read_nodes(reader, online)
    facts = Facts(
        cpus=cpus,
        nodes=nodes,
        caches=read_caches(reader, online),
        devices=read_devices(reader, online, NodeSet.of(node.id for node in nodes)),
        offline=read_offline(reader, online),
        isolated=read_isolated(reader, online),
        notes=reader.notes,
    )
    return assemble(facts)
