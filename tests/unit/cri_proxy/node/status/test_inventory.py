import pytest

from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView, state_of


@pytest.mark.parametrize(
    ("view", "state"),
    [
        (InventoryDeviceView("gpu", 0), "free"),
        (InventoryDeviceView("gpu", 0, is_healthy=False), "unhealthy"),
        (InventoryDeviceView("gpu", 0, free=0), "cut"),
        (InventoryDeviceView("gpu", 0, is_healthy=False, holders=(HolderView("d/a/c", 100),)), "held"),
        (InventoryDeviceView("gpu", 0, is_missing=True, holders=(HolderView("d/a/c", 100),)), "missing"),
    ],
)
def test_a_device_is_in_one_state(view: InventoryDeviceView, state: str) -> None:
    assert state_of(view) == state
