from cri_proxy.daemon.device_numbers import KnownNumbers, no_numbers
from cri_proxy.inventory.numbers import DeviceNumbers
from policies.devices.model import EMPTY_INVENTORY, DeviceInventory, InventoryDevice, PciePath

A, B = "0000:10:00.0", "0000:20:00.0"


def gpus(**buses: int) -> DeviceInventory:
    """GPUs at the addresses A and B with these numbers."""
    places = {"a": A, "b": B}
    return DeviceInventory(tuple(InventoryDevice("gpu", n, path=PciePath(bus=places[b])) for b, n in buses.items()))


def test_a_scan_goes_by_what_is_in_force_and_by_what_was_there_before() -> None:
    known = no_numbers()
    known.use(gpus(a=0, b=1))
    known.use(gpus(a=0))
    assert [(gpu.path.bus, gpu.minor) for gpu in known.beside(gpus(a=0)).devices] == [(A, 0), (B, 1)]


def test_what_is_in_force_counts_before_it_is_noted() -> None:
    known = KnownNumbers(DeviceNumbers((("gpu", A, 7),)), lambda numbers: None)
    assert [gpu.minor for gpu in known.beside(gpus(a=0)).devices] == [0]


def test_only_a_change_is_saved() -> None:
    saved: list[DeviceNumbers] = []
    known = KnownNumbers(DeviceNumbers(boot="b"), saved.append)
    known.use(gpus(a=0))
    known.use(gpus(a=0))
    known.use(EMPTY_INVENTORY)
    assert saved == [DeviceNumbers((("gpu", A, 0),), "b")]
