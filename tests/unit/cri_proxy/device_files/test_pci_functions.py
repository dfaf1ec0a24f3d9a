import errno
import os
from pathlib import Path

import pytest

from cri_proxy.cri.devices.pci_functions import PciFunction
from cri_proxy.device_files.pci_functions import functions_at
from tests.fakes.sriov_tree import TreeFunction, bind, write_nics

NIC = TreeFunction("0000:51:00.0", "mlx5_core", rdma="mlx5_0", verbs="uverbs0", mad="umad0", interface="ens1")
RDMA = TreeFunction("0000:51:00.1", "mlx5_core", NIC.address, "8", "mlx5_1", "uverbs1", "umad1", "ens1v0")
VFIO = TreeFunction("0000:51:00.2", "vfio-pci", NIC.address, "9")
IDLE = TreeFunction("0000:51:00.3", "", NIC.address, "9")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_nics(tmp_path, NIC, RDMA, VFIO, IDLE)


def test_a_function_has_its_driver_its_rdma_device_and_its_interface(root: Path) -> None:
    assert functions_at(root, [RDMA.address])[RDMA.address] == PciFunction(
        RDMA.address,
        "mlx5_core",
        rdma=("mlx5_1",),
        verbs=("uverbs1",),
        mads=("umad1",),
        has_connection_manager=True,
        interfaces=("ens1v0",),
    )


def test_one_that_is_bound_to_vfio_has_the_node_of_its_group(root: Path) -> None:
    found = functions_at(root, [VFIO.address])[VFIO.address]
    assert (found.vfio, found.nodes) == ("/dev/vfio/9", ("/dev/vfio/vfio", "/dev/vfio/9"))


@pytest.mark.parametrize("driver", ["mlx5_vfio_pci", "hisi_acc_vfio_pci", "vfio-pci"])
def test_drivers_of_vendors_for_vfio_count_as_vfio(root: Path, driver: str) -> None:
    bind(root, VFIO, driver)
    found = functions_at(root, [VFIO.address])[VFIO.address]
    assert found.vfio == "/dev/vfio/9"


def test_without_an_iommu_the_node_of_the_group_has_another_name(root: Path) -> None:
    (root / "sys/kernel/iommu_groups/9/name").write_text("vfio-noiommu\n")
    found = functions_at(root, [VFIO.address])[VFIO.address]
    assert found.vfio == "/dev/vfio/noiommu-9"


def test_one_without_a_driver_has_nothing_to_give(root: Path) -> None:
    found = functions_at(root, [IDLE.address])[IDLE.address]
    assert (found.driver, found.nodes) == ("", ())


def test_an_address_that_the_machine_has_not_is_no_function(root: Path) -> None:
    assert list(functions_at(root, ["0000:99:00.0", RDMA.address])) == [RDMA.address]


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
@pytest.mark.parametrize("broken", [IDLE.address, "rdma_cm"])
def test_one_that_sysfs_cannot_read_is_no_function_and_keeps_none_of_the_others_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, broken: str
) -> None:
    is_dir = Path.is_dir

    def failing(path: Path) -> bool:
        if path.name == broken:
            raise OSError(number, os.strerror(number), str(path))
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", failing)
    found = functions_at(root, [IDLE.address, RDMA.address])
    assert found[RDMA.address].rdma == ("mlx5_1",)
    assert (IDLE.address in found, found[RDMA.address].has_connection_manager) == (
        broken != IDLE.address,
        broken != "rdma_cm",
    )


def test_what_cannot_be_read_of_a_function_it_has_not(root: Path) -> None:
    group = root / "sys/kernel/iommu_groups/9"
    (group / "name").mkdir()
    assert functions_at(root, [VFIO.address])[VFIO.address].vfio == "/dev/vfio/9"
