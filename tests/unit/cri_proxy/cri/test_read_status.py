import json
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_status import read_status
from policies.base import ContainerKey, QosClass
from sysfs.cpuset import CpuSet, NodeSet

RECORDED = Path(__file__).parents[3] / "contract" / "recorded" / "containerd-1.6-verbose.json"
VERBOSE = RECORDED.read_text()
GIB = 1 << 30


def sandbox(**annotations: str) -> pb.PodSandboxStatus:
    meta = pb.PodSandboxMetadata(name="web", namespace="default", uid="u")
    return pb.PodSandboxStatus(id="s1", metadata=meta, labels={"app": "web"}, annotations=annotations)


def status(info: str = "", resources: pb.LinuxContainerResources | None = None) -> pb.ContainerStatusResponse:
    container = pb.ContainerStatus(
        id="c1",
        metadata=pb.ContainerMetadata(name="c0"),
        state=pb.CONTAINER_RUNNING,
        created_at=5,
        annotations={"cri-proxy.io/grant": "{}"},
        resources=pb.ContainerResources(linux=resources) if resources else None,
    )
    return pb.ContainerStatusResponse(status=container, info={"info": info} if info else {})


def test_what_containerd_reports_verbosely_is_enough() -> None:
    found = read_status(status(VERBOSE), sandbox(), node_memory_bytes=10 * GIB)
    assert (found.request.pod.qos, found.request.cpu_request_mcpu) == (QosClass.BURSTABLE, 200)
    assert (found.request.cpu_limit_mcpu, found.request.memory_request_bytes) == (500, 64 << 20)
    assert (found.cpus, found.mems, found.pid) == (CpuSet.of([1]), NodeSet.of([0]), 4711)


def test_identity_state_and_our_annotation_come_from_the_status() -> None:
    found = read_status(status(), sandbox())
    assert (found.container_id, found.grant_text) == ("c1", "{}")
    assert found.request.container == ContainerKey("u", "c0")
    assert found.state == pb.CONTAINER_RUNNING


def test_resources_in_the_status_beat_the_verbose_part() -> None:
    newer = pb.LinuxContainerResources(cpu_shares=512, cpuset_cpus="3")
    found = read_status(status(VERBOSE, newer), sandbox())
    assert (found.request.cpu_request_mcpu, found.cpus, found.mems) == (500, CpuSet.of([3]), NodeSet.of([0]))


def test_the_cpus_of_the_spec_are_told_beside_the_record() -> None:
    found = read_status(status(VERBOSE, pb.LinuxContainerResources(cpuset_cpus="3")), sandbox())
    assert (found.cpus, found.spec_cpus) == (CpuSet.of([3]), CpuSet.of([1]))
    assert read_status(status(), sandbox()).spec_cpus is None


def test_annotations_of_the_sandbox_are_read() -> None:
    found = read_status(status(VERBOSE), sandbox(**{"cri-proxy.io/prefer-shared-cpus": "true", "x/y": "z"}))
    assert found.request.preferences.prefer_shared is True


@pytest.mark.parametrize(
    "info",
    [
        "",
        "not json",
        "[]",
        '{"pid": "x", "runtimeSpec": []}',
        '{"pid": true, "runtimeSpec": {"linux": {"resources": {"cpu": {"shares": "a", "cpus": 3}}}}}',
        json.dumps({"runtimeSpec": {"linux": {"resources": {"cpu": {"cpus": "0-", "shares": 1 << 70}}}}}),
        "[" * 100_000,
    ],
)
def test_a_verbose_part_of_any_shape_is_survived(info: str) -> None:
    found = read_status(status(info), sandbox())
    assert (found.cpus, found.mems, found.pid, found.request.cpu_request_mcpu) == (None, None, 0, 0)


def test_a_container_without_a_cpuset_on_record_has_none() -> None:
    assert read_status(status(resources=pb.LinuxContainerResources(cpu_shares=2)), sandbox()).cpus is None


def test_exact_requests_of_the_pod_are_read_as_at_creation() -> None:
    exact = '{"containers": {"c0": {"requests": {"memory": "60Mi"}}}}'
    found = read_status(status(VERBOSE), sandbox(**{"intel.com/resources": exact}), node_memory_bytes=600 << 20)
    assert found.request.memory_request_bytes == 60 << 20
