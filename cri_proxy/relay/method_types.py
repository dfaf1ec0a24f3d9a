"""The gRPC method types of CRI methods (unary, server stream, endless), for the relay on grpcio and for metrics.

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
_IMAGE: Final = "ListImages ImageStatus PullImage RemoveImage ImageFsInfo"

UNARY: Final = frozenset(
    f"/runtime.v1.{service}/{name}"
    for service, names in (("RuntimeService", _RUNTIME), ("ImageService", _IMAGE))
    for name in names.split()
)

SERVER_STREAMS: Final = frozenset(
    f"/runtime.v1.{name}"
    for name in (
        "RuntimeService/GetContainerEvents",
        "RuntimeService/StreamPodSandboxes",
        "RuntimeService/StreamContainers",
        "RuntimeService/StreamContainerStats",
        "RuntimeService/StreamPodSandboxStats",
        "RuntimeService/StreamPodSandboxMetrics",
        "ImageService/StreamImages",
    )
)

ENDLESS: Final = frozenset({"/runtime.v1.RuntimeService/GetContainerEvents"})
"""Streams that the runtime never ends by itself: a stop must not wait for them. The others are long lists."""
