"""What ``version-7.db`` holds, as values of today.

The file was written by the program whose newest version that was, where a grant had two lists: ``devices`` of cost
files, by their names, and ``allocated`` of the inventory. Texts that look like these names must stay.
"""

from dataclasses import replace

from cri_proxy.state import decisions as kept
from cri_proxy.state.rows import DisplacedGrant, Row
from policies.alignment import PodSums
from policies.base import (
    ContainerKey,
    CpuKind,
    DeviceLocality,
    Grant,
    Pinning,
    Pod,
    Previous,
    QosClass,
    Reason,
    Request,
)
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.preferences import Preferences
from sysfs.cpuset import CpuSet, NodeSet

CPUS, NODES = CpuSet.parse("2-3"), NodeSet.parse("0")
PINNING = Pinning(CPUS, NODES)
ASK = DeviceAsk(
    (),
    (("koordinator.sh/rdma", 1), ("nvidia.com/gpu", 1)),
    (("scheduling.koordinator.sh/device-joint-allocate", '{"deviceTypes":["gpu","rdma"]}'),),
)
AMOUNTS = (DeviceAmount("example.com/gpu", 2), DeviceAmount("nic", 1))
LISTED = (
    DeviceGrant("example.com/gpu", "gpu0", 100),
    DeviceGrant("example.com/gpu", "0000:51:00.0", 100),
    DeviceGrant("nic", "mlx5_0", 100),
)
GPU = DeviceGrant("gpu", 0, 100, resources=(("nvidia.com/gpu", 1),))
VF = DeviceGrant(
    "rdma",
    1,
    1,
    vf="0000:51:00.1",
    resources=(("koordinator.sh/rdma", 1),),
    exclusive=ExclusivePolicy.PCIE_LEVEL,
)
GIVEN = DeviceGrant("fpga", 2, 100, is_given=True)


def _grant(
    name: str,
    listed: tuple[DeviceGrant, ...] = (),
    shares: tuple[DeviceGrant, ...] = (),
    given: tuple[DeviceGrant, ...] = (),
    *,
    had_it_before: bool = True,
) -> Grant:
    devices = (*listed, *shares)
    request = Request(
        ContainerKey("uid-1", name),
        Pod("uid-1", "web", "default", QosClass.GUARANTEED, (("devices", "allocated"),)),
        cpu_request_mcpu=2000,
        cpu_limit_mcpu=2000,
        preferences=Preferences(
            devices=replace(ASK if shares else DeviceAsk(), counts=AMOUNTS if listed else ()),
            notify=('"devices":["a"]',),
        ),
        localities=tuple(DeviceLocality(device.source, CpuSet.parse("0-3"), NODES) for device in listed),
        previous=Previous("root", CPUS, devices=devices, is_running=True) if had_it_before else None,
        pod_sums=PodSums(devices=(DeviceAsk(AMOUNTS), ASK)),
        given=given,
    )
    return Grant(request, "package #0", CpuKind.EXCLUSIVE, CPUS, mems=NODES, devices=devices)


ROWS = (
    Row(_grant("a", LISTED), "s1", "c-a", "running", PINNING, 1),
    Row(
        _grant("b", (), (GPU, VF, GIVEN), (GIVEN,)),
        "s1",
        "",
        "pending",
        None,
        2,
        displaced=(
            DisplacedGrant(_grant("c", LISTED[:1], (GPU,)), 3),
            DisplacedGrant(_grant("d", had_it_before=False), 4),
        ),
    ),
    Row(_grant("e", LISTED, (GPU, VF), had_it_before=False), "s1", "c-e", "exited", PINNING, 5),
)
DECISIONS = tuple(
    kept.DecisionRecord(
        row.grant.request,
        kept.Outcome.PLACED,
        1000.25,
        0.001,
        kept.granted_of(row.grant, PINNING),
        (Reason("pool", "x"),),
        is_confirmed=True,
    )
    for row in (ROWS[0], ROWS[2])
)
