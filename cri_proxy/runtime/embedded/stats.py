"""Statistics and metrics of the embedded runtime. Nothing is measured: a running container uses what it asked for."""

from collections.abc import Iterator

from cri_proxy.cri.kubelet_numbers import mcpu_of_shares
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.pods import unknown_method
from cri_proxy.runtime.embedded.state import UNKNOWN, Container, Node, Refusal, Sandbox, matches_labels

_METRIC = "container_cpu_usage_seconds_total"


def _value(number: int) -> pb.UInt64Value:
    return pb.UInt64Value(value=number)


def _cpu(node: Node, containers: tuple[Container, ...]) -> pb.CpuUsage:
    """CPU time as if each container had used its request ever since it started."""
    now_ns = node.now_ns()
    running = [c for c in containers if c.running]
    spent = sum((now_ns - c.started_at_ns) * mcpu_of_shares(c.record.cpu_shares) // 1000 for c in running)
    rate = sum(mcpu_of_shares(c.record.cpu_shares) for c in running)
    return pb.CpuUsage(
        timestamp=now_ns, usage_core_nano_seconds=_value(max(0, spent)), usage_nano_cores=_value(rate * 1_000_000)
    )


def _memory(node: Node, containers: tuple[Container, ...]) -> pb.MemoryUsage:
    used = sum(c.record.memory_limit_in_bytes // 2 for c in containers if c.running)
    return pb.MemoryUsage(timestamp=node.now_ns(), working_set_bytes=_value(used), usage_bytes=_value(used))


def _stats(node: Node, container: Container) -> pb.ContainerStats:
    config = container.config
    return pb.ContainerStats(
        attributes=pb.ContainerAttributes(
            id=container.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
        ),
        cpu=_cpu(node, (container,)),
        memory=_memory(node, (container,)),
        writable_layer=pb.FilesystemUsage(timestamp=node.now_ns(), used_bytes=_value(0), inodes_used=_value(1)),
    )


def container_stats(node: Node, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
    """One running container's figures; without a process there are none."""
    container = node.container(request.container_id, "failed to find container")
    if not container.running:
        raise Refusal(UNKNOWN, "unexpected metrics response: []")
    return pb.ContainerStatsResponse(stats=_stats(node, container))


def _listed(node: Node, wanted: pb.ContainerStatsFilter) -> Iterator[pb.ContainerStats]:
    for container in node.containers.values():
        if not container.running or not container.id.startswith(wanted.id):
            continue
        if not container.sandbox_id.startswith(wanted.pod_sandbox_id):
            continue
        if matches_labels(container.config.labels, wanted.label_selector):
            yield _stats(node, container)


def list_container_stats(node: Node, request: pb.ListContainerStatsRequest) -> pb.ListContainerStatsResponse:
    """Running containers' figures."""
    return pb.ListContainerStatsResponse(stats=_listed(node, request.filter))


def stream_container_stats(
    node: Node, request: pb.StreamContainerStatsRequest
) -> Iterator[pb.StreamContainerStatsResponse]:
    """The same, a container in each message."""
    for stats in _listed(node, request.filter):
        yield pb.StreamContainerStatsResponse(container_stats=[stats])


def _pod_stats(node: Node, sandbox: Sandbox) -> pb.PodSandboxStats:
    containers = node.containers_of(sandbox.id)
    config = sandbox.config
    return pb.PodSandboxStats(
        attributes=pb.PodSandboxAttributes(
            id=sandbox.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
        ),
        linux=pb.LinuxPodSandboxStats(
            cpu=_cpu(node, containers),
            memory=_memory(node, containers),
            process=pb.ProcessUsage(
                timestamp=node.now_ns(), process_count=_value(1 + sum(c.running for c in containers))
            ),
            containers=[_stats(node, c) for c in containers if c.running],
        ),
    )


def pod_sandbox_stats(node: Node, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
    """One pod's figures."""
    words = f"an error occurred when trying to find sandbox {request.pod_sandbox_id}"
    return pb.PodSandboxStatsResponse(stats=_pod_stats(node, node.sandbox(request.pod_sandbox_id, words)))


def _listed_pods(node: Node, wanted: pb.PodSandboxStatsFilter) -> Iterator[pb.PodSandboxStats]:
    for sandbox in node.sandboxes.values():
        labelled = matches_labels(sandbox.config.labels, wanted.label_selector)
        if sandbox.ready and labelled and sandbox.id.startswith(wanted.id):
            yield _pod_stats(node, sandbox)


def list_pod_sandbox_stats(node: Node, request: pb.ListPodSandboxStatsRequest) -> pb.ListPodSandboxStatsResponse:
    """Ready pods' figures."""
    return pb.ListPodSandboxStatsResponse(stats=_listed_pods(node, request.filter))


def stream_pod_sandbox_stats(
    node: Node, request: pb.StreamPodSandboxStatsRequest
) -> Iterator[pb.StreamPodSandboxStatsResponse]:
    """The same, a pod in each message."""
    for stats in _listed_pods(node, request.filter):
        yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=[stats])


def list_metric_descriptors(node: Node, request: pb.ListMetricDescriptorsRequest) -> pb.ListMetricDescriptorsResponse:
    """One metric, so that there is something to describe."""
    if not node.modern:
        raise unknown_method("ListMetricDescriptors")
    help_text = "CPU time used by the containers, in seconds."
    return pb.ListMetricDescriptorsResponse(
        descriptors=[pb.MetricDescriptor(name=_METRIC, help=help_text, label_keys=["id", "name"])]
    )


def _metrics(node: Node) -> Iterator[pb.PodSandboxMetrics]:
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


def list_pod_sandbox_metrics(node: Node, request: pb.ListPodSandboxMetricsRequest) -> pb.ListPodSandboxMetricsResponse:
    """CPU time of every container, by pod."""
    if not node.modern:
        raise unknown_method("ListPodSandboxMetrics")
    return pb.ListPodSandboxMetricsResponse(pod_metrics=_metrics(node))


def stream_pod_sandbox_metrics(
    node: Node, request: pb.StreamPodSandboxMetricsRequest
) -> Iterator[pb.StreamPodSandboxMetricsResponse]:
    """The same, a pod in each message."""
    for metrics in _metrics(node):
        yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=[metrics])
