"""RuntimeConfig in the place of a runtime that does not know it, as the kubelet sees it."""

import json

import pytest

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed
from cri_proxy.http2.status import Code
from cri_proxy.intercept.runtime_config import uses_systemd
from tests.fakes.site import Site

ASKED = pb.RuntimeConfigRequest().SerializeToString()


async def driver(site: Site) -> pb.CgroupDriver:
    reply = await site.relay.unary(RUNTIME + "RuntimeConfig", ASKED, timeout_seconds=5)
    return pb.RuntimeConfigResponse.FromString(reply).linux.cgroup_driver


def says(site: Site, info: dict[str, str]) -> None:
    reply = pb.StatusResponse(info=info).SerializeToString()
    site.runtime.faults.rewrite(
        "Status", lambda message, _: reply if pb.StatusRequest.FromString(message).verbose else b""
    )


def containerd(is_systemd: object) -> dict[str, str]:
    runc = {"runtimeType": "io.containerd.runc.v2", "options": {"SystemdCgroup": is_systemd}}
    return {"config": json.dumps({"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": runc}}})}


@pytest.mark.parametrize(("is_systemd", "expected"), [(True, pb.SYSTEMD), (False, pb.CGROUPFS)])
async def test_the_cgroup_driver_of_an_old_containerd_is_answered(is_systemd: bool, expected: pb.CgroupDriver) -> None:
    site = Site(modern=False)
    await site.open()
    says(site, containerd(is_systemd))
    assert await driver(site) == expected


@pytest.mark.parametrize("info", [{}, {"config": "{"}, {"config": "{}"}])
async def test_a_driver_that_is_unknown_is_not_made_up(info: dict[str, str]) -> None:
    site = Site(modern=False)
    await site.open()
    says(site, info)
    with pytest.raises(CallFailed) as caught:
        await driver(site)
    assert caught.value.code == Code.UNIMPLEMENTED


async def test_a_runtime_that_fails_meanwhile_is_no_fault_of_ours() -> None:
    site = Site(modern=False)
    await site.open()
    for reason in ("garbage", "refused"):
        if reason == "garbage":
            site.runtime.faults.rewrite("Status", lambda message, reply: b"\xff")
        else:
            site.runtime.faults.fail_next("Status", Code.INTERNAL, "no")
        with pytest.raises(CallFailed) as caught:
            await driver(site)
        assert caught.value.code == Code.UNIMPLEMENTED
    assert site.log.errors == []


async def test_a_runtime_that_knows_the_call_is_not_asked_for_anything_else(site: Site) -> None:
    before = site.runtime.calls["Status"]
    assert await driver(site) == pb.SYSTEMD
    assert site.runtime.calls["Status"] == before


V1, V2 = "io.containerd.runc.v1", "io.containerd.runc.v2"


def config(default: str = "runc", **runtimes: object) -> str:
    return json.dumps({"containerd": {"defaultRuntimeName": default, "runtimes": runtimes}})


def runtime(kind: str, **options: object) -> dict[str, object]:
    return {"runtimeType": kind, "options": options}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (config(runc=runtime(V2, SystemdCgroup=True, BinaryName="")), True),
        (config(runc=runtime(V1, SystemdCgroup=True)), True),
        (config(runc=runtime(V2, SystemdCgroup=False)), False),
        (config(runc=runtime(V2)), False),
        (config(runc={"runtimeType": V2, "options": None}), False),
        (config("nvidia", runc=runtime(V2), nvidia=runtime(V2, SystemdCgroup=True)), True),
        (config("kata", kata=runtime("io.containerd.kata.v2"), runc=runtime(V2, SystemdCgroup=True)), True),
        (config("gone", z=runtime(V2), a=runtime(V2, SystemdCgroup=True)), True),
        (config("", runc=runtime(V2), a=runtime(V2, SystemdCgroup=True)), False),
        (config("kata", kata=runtime("io.containerd.kata.v2")), None),
        (json.dumps({"systemdCgroup": True, "containerd": {"runtimes": {"runc": {"runtimeType": V1}}}}), False),
        (
            json.dumps(
                {
                    "systemdCgroup": True,
                    "containerd": {"runtimes": {"runc": {"runtimeType": "io.containerd.runtime.v1.linux"}}},
                }
            ),
            True,
        ),
        ("", None),
        ("{", None),
        ("[" * 100_000, None),
        ("null", None),
        (json.dumps({"containerd": {"runtimes": ["runc"]}}), None),
        (json.dumps({"containerd": {"runtimes": {"runc": "x"}}}), None),
        (json.dumps({"containerd": {"defaultRuntimeName": 3, "runtimes": {"runc": runtime(V2)}}}), False),
    ],
)
def test_the_driver_of_the_default_runtime_that_runc_serves_counts(text: str, expected: bool | None) -> None:
    assert uses_systemd(text) is expected
