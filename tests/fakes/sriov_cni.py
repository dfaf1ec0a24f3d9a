"""How Multus and the SR-IOV CNI plugin find the function of a pod, as their own words have it.

Multus (pkg/kubeletclient, pkg/k8sclient): the kubelet lists a pod's devices by resource, those of all containers one
after the other; each network whose annotation names the resource takes the next one, and its configuration gets it as
``deviceID``. The SR-IOV CNI plugin (pkg/config, pkg/utils) takes a PCI address alone: its physical function's interface
is the master, the number of the link ``virtfnN`` its own; it has an interface, or else a driver of DPDK.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
DPDK_DRIVERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


@dataclass(frozen=True, slots=True)
class FoundVf:
    """A VF by its master and number; ``interface`` is '' in DPDK mode."""

    master: str
    number: int
    interface: str


def device_id(listed: pb.ListPodResourcesResponse, pod: str, resource: str, index: int = 0) -> str:
    """The ``deviceID`` of the pod's network of this number with this resource."""
    (found,) = [each for each in listed.pod_resources if (each.name, each.namespace) == (pod, "default")]
    groups = [group for container in found.containers for group in container.devices]
    return [name for group in groups if group.resource_name == resource for name in group.device_ids][index]


def vf_of(root: Path, device: str) -> FoundVf:
    """The VF behind a ``deviceID``; raises ValueError with the plugin's reason to refuse it."""
    if _ADDRESS.fullmatch(device) is None:
        raise ValueError(f"invalid PCI address {device}")
    home = root / "sys/bus/pci/devices" / device
    masters = sorted(path.name for path in (home / "physfn/net").iterdir())
    owner = home / "physfn"
    numbers = [int(link.name[6:]) for link in owner.glob("virtfn*") if link.resolve() == home.resolve()]
    if not masters or not numbers:
        raise ValueError("failed to get VF information")
    interfaces = sorted(path.name for path in (home / "net").iterdir()) if (home / "net").is_dir() else []
    driver = (home / "driver").readlink().name if (home / "driver").is_symlink() else ""
    if not interfaces and driver not in DPDK_DRIVERS:
        raise ValueError(f"the VF {device} does not have a interface name or a dpdk driver")
    return FoundVf(masters[0], numbers[0], interfaces[0] if interfaces else "")
