from dataclasses import replace

from cri_proxy.state.device_words import device_words
from policies.base import CpuKind, Grant
from policies.device_grants import DeviceGrant
from tests.fakes.device_policy import listed
from tests.unit.policies.build import request


def test_a_container_has_whole_devices_shares_and_vfs() -> None:
    grant = Grant(request("a/c", 1000), "root", CpuKind.SHARED, devices=listed("x.io/gpu/g0"))
    parts = (DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 25), DeviceGrant("rdma", 0, 1, vf="0000:10:00.1"))
    assert device_words(replace(grant, devices=(*grant.devices, *parts))) == (
        "x.io/gpu/g0",
        "gpu/0",
        "gpu/1:25",
        "rdma/0@0000:10:00.1",
    )
