"""The kubelet's answer as hints."""

from cri_proxy.kubelet.device_locality import hints_of_container
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from sysfs.cpuset import NodeSet
from tests.unit.cri_proxy.podresources.kubelet import devices, pod

KNOWN = NodeSet.parse("0-3")


def told(*given: pb.ContainerDevices, container: str = "c0") -> list[tuple[str, str]]:
    """(source, nodes) of each hint for c0 when ``container`` has these devices."""
    return [(h.source, str(h.nodes)) for h in hints_of_container(pod("web", {container: given}), "c0", KNOWN)]


def test_each_group_of_devices_gives_its_nodes() -> None:
    nic, gpu = devices("example.com/nic", "eth1", nodes=(1,)), devices("example.com/gpu", "b", "a", nodes=(2, 3))
    assert told(nic, gpu) == [("podresapi:example.com/gpu/a,b", "2-3"), ("podresapi:example.com/nic/eth1", "1")]


def test_a_device_without_a_place_or_on_all_nodes_tells_nothing() -> None:
    assert told(devices("example.com/nic", "eth1"), devices("example.com/fuse", "0", nodes=(0, 1, 2, 3))) == []


def test_nodes_that_the_machine_lacks_do_not_count_however_large() -> None:
    assert told(devices("example.com/nic", "eth1", nodes=(-1, 1, 9, 1 << 62))) == [
        ("podresapi:example.com/nic/eth1", "1")
    ]


def test_devices_of_other_containers_do_not_count() -> None:
    assert told(devices("example.com/nic", "eth1", nodes=(1,)), container="c1") == []
