"""Virtual functions of NICs written into a sysfs tree, with what their drivers add to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

from cri_proxy.cri.devices.pci_functions import FunctionsByAddress, PciFunction
from sysfs.cpuset import CpuSet
from sysfs.model import Device, Machine
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import device_path, write_tree

NETWORK = 0x020000
RDMA_CM = "sys/class/misc/rdma_cm/dev"


@dataclass(frozen=True, slots=True)
class TreeFunction:
    """A function of a NIC. ``owner`` is the physical function of a VF, ``group`` its IOMMU group ('' = in none)."""

    address: str
    driver: str = ""
    owner: str = ""
    group: str = ""
    rdma: str = ""
    verbs: str = ""
    mad: str = ""
    interface: str = ""
    node: int = 0

    @property
    def device(self) -> Device:
        root = f"pci0000:{self.address[5:6]}0"
        return Device(
            self.address,
            NETWORK,
            vendor=0x15B3,
            device=0x101E,
            node=self.node,
            local_cpus=CpuSet(),
            bridges=(root,),
            physical_function=self.owner,
        )


def by_address(functions: Iterable[PciFunction]) -> FunctionsByAddress:
    return {function.address: function for function in functions}


def nic_machine(functions: Iterable[TreeFunction]) -> Machine:
    """The small machine with these functions and no others."""
    return replace(small_machine(), devices=tuple(function.device for function in functions))


def write_nics(root: Path, *functions: TreeFunction, has_connection_manager: bool = True) -> Path:
    """Write a machine with these functions below ``root``, as the kernel shows it; return the root."""
    files: dict[str, str | None] = {RDMA_CM: "10:58\n"} if has_connection_manager else {}
    for function in functions:
        files |= _files(function)
    write_tree(root, nic_machine(functions), files)
    pairs = [pair for function in functions for pair in _links(function)]
    for owner in functions:
        vfs = sorted(function.address for function in functions if function.owner == owner.address)
        home = root / device_path(owner.device)
        (home / "sriov_numvfs").write_text(f"{len(vfs)}\n")
        pairs += ((f"{device_path(owner.device)}/virtfn{n}", f"sys/bus/pci/devices/{vf}") for n, vf in enumerate(vfs))
    for path, target in pairs:
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(root / target)
    return root


def bind(root: Path, function: TreeFunction, driver: str) -> None:
    """Bind a function of the tree to another driver, '' = to none: what the old one made of it is gone."""
    home = root / device_path(function.device)
    for name in ("infiniband", "infiniband_verbs", "infiniband_mad", "net"):
        rmtree(home / name, ignore_errors=True)
    (home / "driver").unlink(missing_ok=True)
    if driver:
        (root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
        (home / "driver").symlink_to(root / f"sys/bus/pci/drivers/{driver}")


def _files(function: TreeFunction) -> Mapping[str, str]:
    home = device_path(function.device)
    files = {f"sys/bus/pci/drivers/{function.driver}/new_id": ""} if function.driver else {}
    for name, place in ((function.verbs, "infiniband_verbs"), (function.mad, "infiniband_mad")):
        files |= {f"{home}/{place}/{name}/dev": "231:0\n"} if name else {}
    files |= {f"{home}/infiniband/{function.rdma}/node_type": "1: CA\n"} if function.rdma else {}
    return files | ({f"{home}/net/{function.interface}/operstate": "up\n"} if function.interface else {})


def _links(function: TreeFunction) -> Iterable[tuple[str, str]]:
    home = device_path(function.device)
    if function.driver:
        yield f"{home}/driver", f"sys/bus/pci/drivers/{function.driver}"
    if function.group:
        group = f"sys/kernel/iommu_groups/{function.group}"
        yield f"{home}/iommu_group", group
        yield f"{group}/devices/{function.address}", home
