"""Detect that the running machine has changed, by a few small files that are cheap to read every few seconds.

They show CPUs and memory nodes that go offline or come back, and the kernel-isolated CPUs; the rest of a machine
changes only with a boot. Source: Documentation/ABI/testing/sysfs-devices-system-cpu and sysfs-devices-node.
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
    """Return the content of each file, '' for a missing one. Equal fingerprints mean an unchanged machine."""
    return tuple(_content(tree, path) for path in FILES)


def _content(tree: Tree, path: str) -> str:
    try:
        return tree.read(path).decode("ascii", "replace").strip()
    except OSError:
        return ""
