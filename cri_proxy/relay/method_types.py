"""Sets of CRI v1 method paths by gRPC type: unary, server streams, and endless streams that no stop waits for.

A method that is missing here works too: the relay on grpcio passes it on as a stream, the splice needs no shape.
"""

from typing import Final

_RUNTIME: Final = (
    "Version RunPodSandbox StopPodSandbox RemovePodSandbox PodSandboxStatus ListPodSandbox CreateContainer "
    "StartContainer StopContainer RemoveContainer ListContainers ContainerStatus UpdateContainerResources "
    "ReopenContainerLog ExecSync Exec Attach PortForward ContainerStats ListContainerStats PodSandboxStats "
    "ListPodSandboxStats UpdateRuntimeConfig Status CheckpointContainer CheckpointPod RestorePod "
    "ListMetricDescriptors ListPodSandboxMetrics RuntimeConfig UpdatePodSandboxResources"
)


def _paths(runtime: str, image: str) -> frozenset[str]:
    services = (("RuntimeService", runtime), ("ImageService", image))
    return frozenset(f"/runtime.v1.{service}/{name}" for service, names in services for name in names.split())


UNARY: Final = _paths(_RUNTIME, "ListImages ImageStatus PullImage RemoveImage ImageFsInfo")
SERVER_STREAMS: Final = _paths(
    "GetContainerEvents StreamPodSandboxes StreamContainers StreamContainerStats StreamPodSandboxStats "
    "StreamPodSandboxMetrics",
    "StreamImages",
)
ENDLESS: Final = frozenset({"/runtime.v1.RuntimeService/GetContainerEvents"})
"""Streams that the runtime never ends by itself: a stop must not wait for them. The others are long lists."""
