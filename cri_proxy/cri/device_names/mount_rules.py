"""Tell which mounts say where a container should be: those that data may be written to. Pure."""

import re
from typing import Final

# Every container mounts these, or reads them at its start only: their locality does not matter.
_COMMON_TREES: Final = ("/etc", "/lib", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec")
_TERMINATION_LOG: Final = "/dev/termination-log"
# The kubelet's directory names of volumes that hold configuration: kubernetes.io~configmap and so on.
_CONFIGURATION_VOLUME: Final = re.compile(r"/volumes/kubernetes\.io~(configmap|secret|projected|downward-api)/")


def mount_counts(host_path: str, container_path: str, *, is_read_only: bool) -> bool:
    """Whether a mount's locality matters: it is writable, not of the system's own trees, not configuration."""
    if is_read_only or not host_path or container_path == _TERMINATION_LOG:
        return False
    if _in_common_tree(host_path) or _in_common_tree(container_path):
        return False
    return not _CONFIGURATION_VOLUME.search(host_path + "/")


def _in_common_tree(path: str) -> bool:
    return any(path == tree or path.startswith(f"{tree}/") for tree in _COMMON_TREES)
