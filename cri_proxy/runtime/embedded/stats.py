"""CRI statistics and metrics of the embedded runtime, computed from CPU requests and from half of the memory limits."""

from collections.abc import Iterator

from cri_proxy.cri.linux_resources import mcpu_of_shares
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.status import Code
from cri_proxy.runtime.embedded.state import Container, NodeState, RefusedCall, Sandbox, attributes, matches_labels

_METRIC = "container_cpu_usage_seconds_total"


def _value(number: int) -> pb.UInt64Value:
    return pb.UInt64Value(value=number)


def _cpu(node: NodeState, containers: tuple[Container, ...]) -> pb.CpuUsage:
    """Return CPU time as if each container had used its request ever since it started."""
    now_ns = node.now_ns()
    used = [(now_ns - c.started_at_ns, mcpu_of_shares(c.record.cpu_shares)) for c in containers if c.running]
    return pb.CpuUsage(
        timestamp=now_ns,
        usage_core_nano_seconds=_value(max(0, sum(ns * mcpu // 1000 for ns, mcpu in used))),
        usage_nano_cores=_value(sum(mcpu for _, mcpu in used) * 1_000_000),
    )


def _memory(node: NodeState, containers: tuple[Container, ...]) -> pb.MemoryUsage:
    used = sum(c.record.memory_limit_in_bytes // 2 for c in containers if c.running)
    return pb.MemoryUsage(timestamp=node.now_ns(), working_set_bytes=_value(used), usage_bytes=_value(used))


def _stats(node: NodeState, container: Container) -> pb.ContainerStats:
    return pb.ContainerStats(
        attributes=pb.ContainerAttributes(**attributes(container)),
        cpu=_cpu(node, (container,)),
        memory=_memory(node, (container,)),
        writable_layer=pb.FilesystemUsage(timestamp=node.now_ns(), used_bytes=_value(0), inodes_used=_value(1)),
    )


def container_stats(node: NodeState, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
    """Return one running container's figures; without a process there are none."""
    container = node.container(request.container_id, "failed to find container")
    if not container.running:
        raise RefusedCall(Code.UNKNOWN, "unexpected metrics response: []")
    return pb.ContainerStatsResponse(stats=_stats(node, container))


def list_container_stats(node: NodeState, request: pb.ListContainerStatsRequest) -> pb.ListContainerStatsResponse:
    """Return running containers' figures."""
    return pb.ListContainerStatsResponse(stats=[_stats(node, c) for c in node.filtered(request.filter) if c.running])


def _pod_stats(node: NodeState, sandbox: Sandbox) -> pb.PodSandboxStats:
    containers = node.containers_of(sandbox.id)
    processes = _value(1 + sum(c.running for c in containers))
    return pb.PodSandboxStats(
        attributes=pb.PodSandboxAttributes(**attributes(sandbox)),
        linux=pb.LinuxPodSandboxStats(
            cpu=_cpu(node, containers),
            memory=_memory(node, containers),
            process=pb.ProcessUsage(timestamp=node.now_ns(), process_count=processes),
            containers=[_stats(node, c) for c in containers if c.running],
        ),
    )


def pod_sandbox_stats(node: NodeState, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
    """Return one pod's figures."""
    words = f"an error occurred when trying to find sandbox {request.pod_sandbox_id}"
    return pb.PodSandboxStatsResponse(stats=_pod_stats(node, node.sandbox(request.pod_sandbox_id, words)))


def list_pod_sandbox_stats(node: NodeState, request: pb.ListPodSandboxStatsRequest) -> pb.ListPodSandboxStatsResponse:
    """Return ready pods' figures."""
    wanted = request.filter
    found = (s for s in node.sandboxes.values() if s.ready and s.id.startswith(wanted.id))
    labelled = (s for s in found if matches_labels(s.config.labels, wanted.label_selector))
    return pb.ListPodSandboxStatsResponse(stats=[_pod_stats(node, sandbox) for sandbox in labelled])


def list_metric_descriptors(
    node: NodeState, request: pb.ListMetricDescriptorsRequest
) -> pb.ListMetricDescriptorsResponse:
    """Return one metric, so that there is something to describe."""
    help_text = "CPU time used by the containers, in seconds."
    return pb.ListMetricDescriptorsResponse(
        descriptors=[pb.MetricDescriptor(name=_METRIC, help=help_text, label_keys=["id", "name"])]
    )


def _metrics(node: NodeState) -> Iterator[pb.PodSandboxMetrics]:
    for sandbox in node.sandboxes.values():
        metrics = pb.PodSandboxMetrics(pod_sandbox_id=sandbox.id)
        for container in node.containers_of(sandbox.id):
            used_ns = _cpu(node, (container,)).usage_core_nano_seconds.value
            metric = pb.Metric(
                name=_METRIC,
                timestamp=node.now_ns(),
                metric_type=pb.COUNTER,
                label_values=[container.id, container.config.metadata.name],
                value=_value(used_ns // 1_000_000_000),
            )
            metrics.container_metrics.add(container_id=container.id, metrics=[metric])
        yield metrics


def list_pod_sandbox_metrics(
    node: NodeState, request: pb.ListPodSandboxMetricsRequest
) -> pb.ListPodSandboxMetricsResponse:
    """Return the CPU time of every container, by pod."""
    return pb.ListPodSandboxMetricsResponse(pod_metrics=_metrics(node))
