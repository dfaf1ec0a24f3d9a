from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


class Time:
    """Nanoseconds, set by hand."""

    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


async def test_a_running_container_uses_what_it_asked_for_since_it_started() -> None:
    time = Time()
    calls = Calls(ScriptedRuntime(small_machine(), now_ns=time))
    container = await calls.running(await calls.pod())
    time.now_ns = 5_000_000_000
    request = pb.ContainerStatsRequest(container_id=container)
    cpu = (await calls.call("ContainerStats", request, pb.ContainerStatsResponse)).stats.cpu
    assert cpu.usage_core_nano_seconds.value == 5_000_000_000
    assert cpu.usage_nano_cores.value == 1_000_000_000


async def test_only_running_containers_and_ready_pods_have_statistics() -> None:
    calls = Calls(ScriptedRuntime(small_machine()))
    pods = [await calls.pod("a"), await calls.pod("b")]
    running, _ = await calls.running(pods[0], "x"), await calls.create(pods[0], "y")
    await calls.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pods[1]), pb.StopPodSandboxResponse)
    containers = await calls.call("ListContainerStats", pb.ListContainerStatsRequest(), pb.ListContainerStatsResponse)
    assert [s.attributes.id for s in containers.stats] == [running]
    listed = await calls.call("ListPodSandboxStats", pb.ListPodSandboxStatsRequest(), pb.ListPodSandboxStatsResponse)
    assert [s.attributes.id for s in listed.stats] == [pods[0]]
    assert listed.stats[0].linux.process.process_count.value == 2


async def test_metrics_match_their_descriptor_and_their_stream() -> None:
    calls = Calls(ScriptedRuntime(small_machine()))
    container = await calls.running(await calls.pod())
    described = await calls.call(
        "ListMetricDescriptors", pb.ListMetricDescriptorsRequest(), pb.ListMetricDescriptorsResponse
    )
    reply = await calls.call(
        "ListPodSandboxMetrics", pb.ListPodSandboxMetricsRequest(), pb.ListPodSandboxMetricsResponse
    )
    metric = reply.pod_metrics[0].container_metrics[0].metrics[0]
    assert metric.name == described.descriptors[0].name
    labels = dict(zip(described.descriptors[0].label_keys, metric.label_values, strict=True))
    assert labels == {"id": container, "name": "c0"}
    streamed = [m async for m in calls.runtime.stream(RUNTIME + "StreamPodSandboxMetrics", b"")]
    assert len(streamed) == len(reply.pod_metrics) == 1
