"""List what names the devices of a container in its CRI request; tell which localities count, a device once. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from cri_proxy.cri.annotations.device_filter import POD_RESOURCES, LocalityFilter, SourceKind
from cri_proxy.cri.device_names.mount_rules import mount_counts
from cri_proxy.cri.device_names.names import DeviceName, Named
from cri_proxy.cri.device_names.nvidia_gpus import DEVICE_LIST
from cri_proxy.cri.device_names.variables import VARIABLE_PREFIXES, named_in_variables
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import DeviceLocality

MAX_VARIABLES: Final = 256
"""The bound of variables that may name devices."""

_CDI_ANNOTATION: Final = "cdi.k8s.io/"
_PCI_ADDRESS = re.compile(r"(?<![0-9a-f])([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f])", re.IGNORECASE)
_CDI_DIRECTORY: Final = "cdi/"


def named_devices(config: pb.ContainerConfig) -> Named:
    """Return the names in the request itself: paths, PCI addresses in CDI names, variables, NVIDIA's list in mounts."""
    variables, cdi = _device_variables(config.envs), cdi_names(config)
    named = named_in_variables(variables) if variables else Named()
    names = [DeviceName("path", path) for path in locality_paths(config)]
    names += (DeviceName("pci", a.lower(), via_cdi(name)) for name in cdi for a in _PCI_ADDRESS.findall(name))
    names += named.names
    listed = [m.container_path for m in config.mounts if m.host_path == "/dev/null"]
    if listed:
        gpus, more_cdi = _nvidia_list(listed)
        return Named(
            (*names, *(DeviceName("gpu", gpu, DEVICE_LIST) for gpu in gpus)), named.problems, (*cdi, *more_cdi)
        )
    return Named(tuple(names), named.problems, cdi)


def locality_paths(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return host paths whose locality matters, sorted: devices, and mounts that data may be written to."""
    mounts = (
        m.host_path for m in config.mounts if mount_counts(m.host_path, m.container_path, is_read_only=m.readonly)
    )
    devices = (d.host_path for d in config.devices if d.host_path)
    return tuple(sorted({*mounts, *devices}))


def pci_addresses(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return the PCI addresses in the container's CDI device names, sorted, in lower case.

    A CDI name is vendor/class=device; a name that spells the address needs no specification file.
    """
    return tuple(sorted({a.lower() for name in cdi_names(config) for a in _PCI_ADDRESS.findall(name)}))


def cdi_names(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return the container's CDI devices, sorted: from the field, and from annotations of kubelets before 1.28."""
    keys = [key for key in config.annotations if key.startswith(_CDI_ANNOTATION)]
    annotated = (name.strip() for key in keys for name in config.annotations[key].split(","))
    return tuple(sorted({*(device.name for device in config.CDI_devices), *annotated} - {""}))


def source_kind(locality: DeviceLocality, config: pb.ContainerConfig) -> SourceKind:
    """Return the kind of a locality's source: the kubelet's pod resources, a mount of the container, or a device."""
    if locality.source.startswith(POD_RESOURCES) or locality.via.startswith(POD_RESOURCES):
        return "pod-resources"
    if locality.via:
        return "devices"
    devices = {device.host_path for device in config.devices}
    is_mount = locality.source not in devices and any(mount.host_path == locality.source for mount in config.mounts)
    return "mounts" if is_mount else "devices"


def counting_localities(
    localities: Iterable[DeviceLocality], config: pb.ContainerConfig, chosen: LocalityFilter
) -> tuple[DeviceLocality, ...]:
    """Return those of these that count, a PCI device once however many names it has: the first one counts."""
    return tuple(_each_device_once(locality for locality in localities if _is_chosen(locality, config, chosen)))


def _is_chosen(locality: DeviceLocality, config: pb.ContainerConfig, chosen: LocalityFilter) -> bool:
    name = locality.via if locality.via.startswith(POD_RESOURCES) else locality.source
    return chosen.takes(source_kind(locality, config), name)


def _each_device_once(localities: Iterable[DeviceLocality]) -> Iterator[DeviceLocality]:
    seen: set[str] = set()
    for locality in localities:
        if locality.devices and seen.issuperset(locality.devices):
            continue
        seen.update(locality.devices)
        yield locality


def _device_variables(envs: Iterable[pb.KeyValue]) -> dict[str, str]:
    """Return the first that may name devices; of two of one name the later value, as it counts for the runtime."""
    may_name = (env for env in envs if env.key.startswith(VARIABLE_PREFIXES))
    return {env.key: env.value.decode("ascii", "replace") for env in islice(may_name, MAX_VARIABLES)}


def via_cdi(name: str) -> str:
    """Return a CDI device in the words of a locality's source.

    >>> via_cdi("vendor.com/gpu=0")
    'CDI device vendor.com/gpu=0'
    """
    return f"CDI device {name}"


def _nvidia_list(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the GPUs, and the CDI names, in NVIDIA's list of devices: the paths at which /dev/null is mounted.

    A CDI name is ``DIRECTORY/cdi/VENDOR/CLASS/DEVICE``, anything else a GPU by its name.
    """
    devices = [path.removeprefix(f"{DEVICE_LIST}/").strip("/") for path in paths if path.startswith(f"{DEVICE_LIST}/")]
    parts = [
        device.removeprefix(_CDI_DIRECTORY).rpartition("/") for device in devices if device.startswith(_CDI_DIRECTORY)
    ]
    gpus = (device for device in devices if not device.startswith(_CDI_DIRECTORY) and device.lower() != "all")
    return tuple(gpus), tuple(f"{kind}={device}" for kind, _, device in parts if "/" in kind and device)
