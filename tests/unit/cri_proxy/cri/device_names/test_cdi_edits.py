import pytest

from cri_proxy.cri.device_names.cdi_edits import named_by_edits
from cri_proxy.cri.device_names.names import DeviceName

ADDRESS = "0000:3b:00.0"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}, {"path": "c"}]}, DeviceName("path", "/dev/b")),
        (
            {"mounts": [{"hostPath": f"/sys/bus/pci/devices/{ADDRESS}", "containerPath": "/nic"}]},
            DeviceName("path", f"/sys/bus/pci/devices/{ADDRESS}"),
        ),
        ({"mounts": [{"hostPath": "/data", "options": ["rw", "bind"]}]}, DeviceName("path", "/data")),
        ({"env": [f"PCIDEVICE_X={ADDRESS}"]}, DeviceName("pci", ADDRESS, "PCIDEVICE_X")),
        ({"env": [f"MY_NIC={ADDRESS}"]}, DeviceName("pci", ADDRESS, "MY_NIC")),
        ({"env": ["NVIDIA_VISIBLE_DEVICES=1"]}, DeviceName("gpu", "1", "NVIDIA_VISIBLE_DEVICES")),
        ({"env": ["NVIDIA_VISIBLE_DEVICES=void"]}, DeviceName("gpu", "void", "NVIDIA_VISIBLE_DEVICES")),
        ({"netDevices": [{"hostInterfaceName": "eth1", "name": "net1"}]}, DeviceName("interface", "eth1")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_each_part_of_the_edits_may_name_a_device(edits: dict[str, object], expected: DeviceName) -> None:
    assert named_by_edits({"containerEdits": edits}) == (expected,)


def test_an_annotation_that_is_a_pci_address_names_a_device() -> None:
    annotations = {"example.com/bus": ADDRESS, "example.com/model": "X", "example.com/parts": 7}
    assert named_by_edits({"annotations": annotations}) == (DeviceName("pci", ADDRESS),)


@pytest.mark.parametrize(
    "edits",
    [
        None,
        {"mounts": [{"hostPath": "/opt/lib", "containerPath": "/lib", "options": ["ro", "bind"]}, 7]},
        {"mounts": [{"containerPath": "/x"}, {"hostPath": "relative", "containerPath": "/x"}]},
        {"mounts": [{"hostPath": "/data", "options": ["ro"]}, {"hostPath": "/data", "containerPath": "/etc/x"}]},
        {"deviceNodes": [{"path": 3}, {}], "mounts": [{"hostPath": 3}]},
        {"netDevices": [{"hostInterfaceName": "../../x"}, {"hostInterfaceName": ".."}, {"name": "eth1"}]},
        {"env": ["PATH=/bin", 7], "intelRdt": {"closID": ADDRESS}, "hooks": [{"path": "/bin/x", "args": [ADDRESS]}]},
        {"env": "PCIDEVICE_X=0000:3b:00.0", "deviceNodes": {}, "annotations": {"a": ADDRESS}},
    ],
)
def test_what_is_no_device_names_none(edits: object) -> None:
    assert named_by_edits({"containerEdits": edits}) == ()
