"""What we do not change passes: answers, refusals, methods that nobody knows, images."""

import json

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.errors import CallFailed
from tests.e2e.stage import Stage, TwoCpus, refusal
from tests.testbed.inside import output_of

UNIMPLEMENTED = 12  # gRPC status
MIB = 1 << 20
RUNTIME, IMAGES = "/runtime.v1.RuntimeService/", "/runtime.v1.ImageService/"

# Refusals of containerd itself; ids that do not exist, so nothing happens
REFUSED = {
    "status of a container that is not there": ("ContainerStatus", pb.ContainerStatusRequest(container_id="none")),
    "start of a container that is not there": ("StartContainer", pb.StartContainerRequest(container_id="none")),
    "update of a container that is not there": (
        "UpdateContainerResources",
        pb.UpdateContainerResourcesRequest(container_id="none", linux=pb.LinuxContainerResources(cpu_shares=2)),
    ),
    "a sandbox without a configuration": ("RunPodSandbox", pb.RunPodSandboxRequest()),
    "a container without a sandbox": (
        "CreateContainer",
        pb.CreateContainerRequest(pod_sandbox_id="none", config=pb.ContainerConfig()),
    ),
    "a method that nobody knows": ("NoSuchMethod", pb.VersionRequest()),
}
ANSWERED = {
    "version": (RUNTIME + "Version", pb.VersionRequest()),
    "list of images": (IMAGES + "ListImages", pb.ListImagesRequest()),
    "an image that is not there": (IMAGES + "ImageStatus", pb.ImageStatusRequest(image=pb.ImageSpec(image="none"))),
    "list of containers": (RUNTIME + "ListContainers", pb.ListContainersRequest()),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_the_runtimes_own_refusal_reaches_the_caller_unchanged(stage: Stage, case: str) -> None:
    name, message = REFUSED[case]
    data = message.SerializeToString()
    direct = await refusal(stage.to_runtime.unary(RUNTIME + name, data, timeout_seconds=10))
    proxied = await refusal(stage.to_proxy.unary(RUNTIME + name, data, timeout_seconds=10))
    assert (proxied.code, proxied.message) == (direct.code, direct.message)


@pytest.mark.parametrize("case", ANSWERED)
async def test_answers_pass_byte_for_byte(stage: Stage, case: str) -> None:
    method, message = ANSWERED[case]
    data = message.SerializeToString()
    direct = await stage.to_runtime.unary(method, data, timeout_seconds=10)
    assert await stage.to_proxy.unary(method, data, timeout_seconds=10) == direct


async def test_a_service_that_nobody_knows_is_refused_by_the_runtime(stage: Stage) -> None:
    direct = await refusal(stage.to_runtime.unary("/no.Such/Method", b"", timeout_seconds=10))
    proxied = await refusal(stage.to_proxy.unary("/no.Such/Method", b"", timeout_seconds=10))
    assert (proxied.code, proxied.message) == (direct.code, direct.message)
    assert direct.code == UNIMPLEMENTED


async def test_the_kubelet_learns_the_cgroup_driver_also_of_a_containerd_that_does_not_know_the_question(
    stage: Stage,
) -> None:
    asked = RUNTIME + "RuntimeConfig", pb.RuntimeConfigRequest().SerializeToString()
    reply = await stage.to_proxy.unary(*asked, timeout_seconds=10)
    driver = pb.SYSTEMD if stage.containerd.node.systemd_cgroups else pb.CGROUPFS
    assert pb.RuntimeConfigResponse.FromString(reply).linux.cgroup_driver == driver
    try:
        assert await stage.to_runtime.unary(*asked, timeout_seconds=10) == reply
    except CallFailed as error:
        assert error.code == UNIMPLEMENTED  # containerd before 2.0


async def test_the_old_interface_is_refused_because_it_would_bypass_us(stage: Stage) -> None:
    old = "/runtime.v1alpha2.RuntimeService/Version"
    assert (await refusal(stage.to_proxy.unary(old, b"", timeout_seconds=10))).code == UNIMPLEMENTED


async def test_a_cpuset_of_the_kubelet_does_not_pass(stage: Stage, two: TwoCpus) -> None:
    """As the kubelet's own CPU manager sends it, every ten seconds: a cpuset and nothing else."""
    pod = await stage.run("pinned", guaranteed("c0", 1000))
    before = await stage.cpus(pod)
    await stage.kubelet.update(pod.container_id("c0"), pb.LinuxContainerResources(cpuset_cpus=str(two.both)))
    assert await stage.cpus(pod) == before


async def test_what_else_the_kubelet_updates_passes(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("pinned", guaranteed("c0", 1000, memory_bytes=32 * MIB))
    before = await stage.cpus(pod)
    wanted = pb.LinuxContainerResources(cpuset_cpus=str(two.both), memory_limit_in_bytes=48 * MIB)
    await stage.kubelet.update(pod.container_id("c0"), wanted)
    assert await stage.cpus(pod) == before
    assert (await stage.resources(pod.container_id("c0")))["memory"]["limit"] == 48 * MIB


async def test_what_is_executed_inside_answers_through_the_proxy(stage: Stage) -> None:
    pod = await stage.run("exec", ContainerSpec("c0"))
    assert await output_of(stage.kubelet, pod.container_id("c0"), "/bin/echo", "here") == "here\n"


async def test_the_proxys_own_annotation_is_all_that_a_container_gains(stage: Stage) -> None:
    """Of the container's configuration as containerd keeps it, only cpuset and our annotation differ from ours."""
    pod = await stage.run("plain", ContainerSpec("c0", cpu_request_mcpu=100))
    config = (await stage.info(pod.container_id("c0")))["config"]
    added = [key for key in config["annotations"] if not key.startswith("io.kubernetes.")]
    assert all(key.startswith("cri-proxy.io/") for key in added), json.dumps(config)
    assert config["metadata"]["name"] == "c0"
