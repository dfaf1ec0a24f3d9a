"""List a container's host paths, PCI addresses and CDI names whose locality matters; tell a source's kind. Pure."""

import re

from cri_proxy.cri.annotations.device_filter import POD_RESOURCES, HintKind
from cri_proxy.cri.proto import cri_v1_pb2 as pb

# Every container mounts these, or reads them at its start only: their locality does not matter.
_COMMON_TREES = ("/etc", "/lib", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec")
_CDI_ANNOTATION = "cdi.k8s.io/"
_TERMINATION_LOG = "/dev/termination-log"
# The kubelet's directory names of volumes that hold configuration: kubernetes.io~configmap and so on.
_CONFIGURATION_VOLUME = re.compile(r"/volumes/kubernetes\.io~(configmap|secret|projected|downward-api)/")
_PCI_ADDRESS = re.compile(r"(?<![0-9a-f])([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f])", re.IGNORECASE)


def hint_paths(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return host paths whose locality matters, sorted: devices, and mounts that data may be written to."""
    mounts = (m.host_path for m in config.mounts if _mount_counts(m))
    devices = (d.host_path for d in config.devices if d.host_path)
    return tuple(sorted({*mounts, *devices}))


def pci_addresses(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return the PCI addresses in the container's CDI device names, sorted, in lower case.

    A CDI name is vendor/class=device; a name that spells the address needs no specification file.
    """
    found = {match.lower() for name in cdi_names(config) for match in _PCI_ADDRESS.findall(name)}
    return tuple(sorted(found))


def cdi_names(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return the container's CDI devices, sorted: from the field, and from annotations of kubelets before 1.28."""
    annotated = (
        name.strip()
        for key, value in config.annotations.items()
        if key.startswith(_CDI_ANNOTATION)
        for name in value.split(",")
    )
    return tuple(sorted({*(device.name for device in config.CDI_devices), *annotated} - {""}))


def hint_kind(source: str, config: pb.ContainerConfig) -> HintKind:
    """Return the kind of a hint's source: the kubelet's pod resources, a mount of the container, or a device."""
    if source.startswith(POD_RESOURCES):
        return "pod-resources"
    devices = {device.host_path for device in config.devices}
    is_mount = source not in devices and any(mount.host_path == source for mount in config.mounts)
    return "mounts" if is_mount else "devices"


def _mount_counts(mount: pb.Mount) -> bool:
    """Whether a mount's locality matters: it is writable, not of the system's own trees, not configuration."""
    if mount.readonly or not mount.host_path or mount.container_path == _TERMINATION_LOG:
        return False
    if _in_common_tree(mount.host_path) or _in_common_tree(mount.container_path):
        return False
    return not _CONFIGURATION_VOLUME.search(mount.host_path + "/")


def _in_common_tree(path: str) -> bool:
    return any(path == tree or path.startswith(f"{tree}/") for tree in _COMMON_TREES)
