"""PCI functions as their drivers give them out, and the variables that name them to a container. Pure.

Source of the variables: the SR-IOV network device plugin (README, "Pod device information"; ``PCIDEVICE_…_INFO`` since
its version 3.6). DPDK's applications, KubeVirt and Kata Containers read them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

VFIO_CONTAINER: Final = "/dev/vfio/vfio"
RDMA_CM: Final = "/dev/infiniband/rdma_cm"
NODE_DIRECTORIES: Final = ("/dev/vfio/", "/dev/infiniband/")
"""The directories of all nodes that a function may need."""
VARIABLE_PREFIX: Final = "PCIDEVICE_"

_INFINIBAND: Final = "/dev/infiniband"
_INFO: Final = "_INFO"


@dataclass(frozen=True, slots=True)
class PciFunction:
    """A function of PCI as sysfs has it now; '' and () where it has none.

    ``vfio`` is the device node of its IOMMU group where it is bound to vfio. ``rdma`` are its RDMA devices
    (``mlx5_2``), ``verbs`` and ``mads`` their character devices (``uverbs2``, ``umad2``), ``interfaces`` its network
    interfaces.
    """

    address: str
    driver: str = ""
    vfio: str = ""
    rdma: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    mads: tuple[str, ...] = ()
    has_connection_manager: bool = False
    interfaces: tuple[str, ...] = ()

    @property
    def is_vfio(self) -> bool:
        """Whether its driver is vfio's, or a variant of a vendor for live migration (mlx5_vfio_pci)."""
        return "vfio" in self.driver.replace("_", "-").split("-")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The device nodes that a container needs to use it, those of all containers first.

        >>> PciFunction("0000:51:00.1", vfio="/dev/vfio/12").nodes
        ('/dev/vfio/vfio', '/dev/vfio/12')
        >>> PciFunction("0000:51:00.1", rdma=("mlx5_2",), verbs=("uverbs2",), has_connection_manager=True).nodes
        ('/dev/infiniband/rdma_cm', '/dev/infiniband/uverbs2')
        """
        if self.vfio:
            return VFIO_CONTAINER, self.vfio
        shared = (RDMA_CM,) if self.verbs and self.has_connection_manager else ()
        return (*shared, *(f"{_INFINIBAND}/{name}" for name in (*self.verbs, *self.mads)))

    @property
    def information(self) -> Mapping[str, Mapping[str, str]]:
        """Its entry in ``PCIDEVICE_…_INFO``."""
        found: dict[str, dict[str, str]] = {"generic": {"deviceID": self.address}}
        if self.vfio:
            found["vfio"] = {"dev-mount": self.vfio, "mount": VFIO_CONTAINER}
        if self.verbs:
            rdma = {"rdma_dev": self.rdma[0]} if self.rdma else {}
            rdma |= {"uverbs": f"{_INFINIBAND}/{self.verbs[0]}"}
            rdma |= {"umad": f"{_INFINIBAND}/{self.mads[0]}"} if self.mads else {}
            rdma |= {"rdma_cm": RDMA_CM} if self.has_connection_manager else {}
            found["rdma"] = rdma
        return found


FunctionsByAddress = Mapping[str, PciFunction]


def pci_variables(resource: str, addresses: Sequence[str], functions: FunctionsByAddress) -> dict[str, str]:
    """Return the variables that name a container's functions of a resource, in this order; none without any.

    Of a function that is not among ``functions`` the address alone is told.

    >>> pci_variables("example.com/vf", ["0000:51:00.1"], {})["PCIDEVICE_EXAMPLE_COM_VF"]
    '0000:51:00.1'
    """
    if not addresses:
        return {}
    name = variable_of(resource)
    known = {address: functions.get(address, PciFunction(address)).information for address in addresses}
    information = json.dumps(known, separators=(",", ":"), sort_keys=True)
    return {name: ",".join(addresses), f"{name}{_INFO}": information}


def variable_of(resource: str) -> str:
    """Return the name of the variable that has a resource's addresses: its readers derive it from the resource, too.

    Only dots and slashes become underscores: a name with a dash has no variable that a shell can expand.

    >>> variable_of("example.com/vf"), variable_of("cri-proxy.io/rdma")
    ('PCIDEVICE_EXAMPLE_COM_VF', 'PCIDEVICE_CRI-PROXY_IO_RDMA')
    """
    return VARIABLE_PREFIX + resource.replace(".", "_").replace("/", "_").upper()
