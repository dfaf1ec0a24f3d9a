"""Read a few small sysfs files whose change shows that CPUs or memory nodes changed; the daemon polls it.

They show CPUs and memory nodes that go offline or come back, and the kernel-isolated CPUs; the rest of a machine
changes only with a boot. Source: Documentation/ABI/testing/sysfs-devices-system-cpu and sysfs-devices-node.
"""

from sysfs.reader import Tree

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"
FILES = (
    *(f"{CPU}/{name}" for name in ("online", "present", "isolated")),
    *(f"{NODE}/{name}" for name in ("online", "has_cpu", "has_memory", "has_normal_memory")),
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
