import pytest

from cri_proxy.cri.devices.pci_functions import PciFunction, pci_variables, variable_of
from tests.fakes.sriov_tree import by_address

VF = "0000:51:00.1"


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("intel.com/sriov_net_A", "PCIDEVICE_INTEL_COM_SRIOV_NET_A"),
        ("a.b.com/x.y", "PCIDEVICE_A_B_COM_X_Y"),
        ("example.com/roce-rail", "PCIDEVICE_EXAMPLE_COM_ROCE-RAIL"),
    ],
)
def test_the_variable_has_the_name_that_its_readers_derive_from_the_resource(resource: str, name: str) -> None:
    assert variable_of(resource) == name


def test_a_resource_without_functions_has_no_variable() -> None:
    assert pci_variables("example.com/vf", (), {}) == {}


@pytest.mark.parametrize(
    ("function", "nodes", "providers"),
    [
        (PciFunction(VF, "ixgbevf", interfaces=("eth5",)), (), {"generic"}),
        (PciFunction(VF, "vfio-pci", vfio="/dev/vfio/9"), ("/dev/vfio/vfio", "/dev/vfio/9"), {"generic", "vfio"}),
        (
            PciFunction(VF, "mlx5_core", rdma=("mlx5_1",), verbs=("uverbs1",), mads=("umad1",)),
            ("/dev/infiniband/uverbs1", "/dev/infiniband/umad1"),
            {"generic", "rdma"},
        ),
        # Without its verbs, ib_uverbs is not loaded: no container can use the RDMA device.
        (PciFunction(VF, "mlx5_core", rdma=("mlx5_1",), has_connection_manager=True), (), {"generic"}),
    ],
)
def test_what_a_container_needs_follows_from_the_driver(
    function: PciFunction, nodes: tuple[str, ...], providers: set[str]
) -> None:
    assert function.nodes == nodes
    assert set(function.information) == providers


def test_functions_are_told_in_the_order_in_which_they_are_given() -> None:
    functions = by_address([PciFunction(VF), PciFunction("0000:52:00.1")])
    assert pci_variables("x.io/d", ["0000:52:00.1", VF], functions)["PCIDEVICE_X_IO_D"] == f"0000:52:00.1,{VF}"
