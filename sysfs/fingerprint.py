"""What tells that a machine has changed while it runs: a few small files, cheap enough to be read every few seconds.

CPUs that go offline or come back, the set that the kernel isolates, memory nodes that come and go
(Documentation/ABI/testing/sysfs-devices-system-cpu and -node). Everything else of a machine stays until it is booted.
"""

from sysfs.reader import Tree

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"
FILES = (
    f"{CPU}/online",
    f"{CPU}/present",
    f"{CPU}/isolated",
    f"{NODE}/online",
    f"{NODE}/has_cpu",
    f"{NODE}/has_memory",
    f"{NODE}/has_normal_memory",
)

Fingerprint = tuple[str, ...]


def fingerprint(tree: Tree) -> Fingerprint:
    """The content of each file, '' for one that is not there. Two that are equal are of the same machine."""
    return tuple(_content(tree, path) for path in FILES)


def _content(tree: Tree, path: str) -> str:
    try:
        return tree.read(path).decode("ascii", "replace").strip()
    except OSError:
        return ""
