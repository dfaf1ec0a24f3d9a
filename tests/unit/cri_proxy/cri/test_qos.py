import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of, qos_of_cgroup, qos_of_resources
from policies.base import QosClass

G, BU, BE = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT
UID = "pod6c2f_11ab"


@pytest.mark.parametrize(
    ("path", "qos"),
    [
        (f"/kubepods/{UID}", G),
        (f"/kubepods/burstable/{UID}", BU),
        (f"/kubepods/besteffort/{UID}/", BE),
        (f"/kubelet/kubepods/burstable/{UID}", BU),
        (f"/kubepods/besteffort/{UID}/0123abc", BE),
        (f"kubepods-{UID}.slice", G),
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{UID}.slice", BU),
        (f"kubelet-kubepods-besteffort-{UID}.slice:cri-containerd:0123abc", BE),
        (f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-{UID}.slice", G),
        ("/user.slice", None),
        ("/kubepods", None),
        (f"/notkubepods/{UID}", None),
        (f"notkubepods-{UID}.slice", None),
        ("", None),
    ],
)
def test_the_cgroup_tells_the_class_with_both_drivers_under_any_root(path: str, qos: QosClass | None) -> None:
    assert qos_of_cgroup(path) == qos


def resources(shares: int = 0, quota: int = 0, memory: int = 0) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(
        cpu_shares=shares, cpu_quota=quota, cpu_period=100_000, memory_limit_in_bytes=memory
    )


@pytest.mark.parametrize(
    ("figures", "qos"),
    [
        (resources(), BE),
        (resources(shares=2), BE),
        (resources(shares=2048, quota=200_000, memory=1 << 30), G),
        (resources(quota=200_000, memory=1 << 30), G),
        (resources(shares=1024, quota=200_000, memory=1 << 30), BU),
        (resources(shares=2048, quota=200_000), BU),
        (resources(shares=2048, memory=1 << 30), BU),
        (resources(shares=3), BU),
    ],
)
def test_without_a_cgroup_the_resources_tell_the_class(figures: pb.LinuxContainerResources, qos: QosClass) -> None:
    assert qos_of_resources(figures) == qos
    assert qos_of("/elsewhere", figures) == (qos, "linux.resources")


def test_a_container_without_figures_has_the_class_of_its_pod() -> None:
    assert qos_of(f"/kubepods/{UID}", resources(shares=2)) == (G, "cgroup_parent")


def test_figures_in_a_best_effort_pod_are_believed() -> None:
    qos, origin = qos_of(f"/kubepods/besteffort/{UID}", resources(shares=512))
    assert (qos, "against" in origin) == (BU, True)
