"""Names of the interface's methods that the gRPC relay may treat as unary (CRI v1 as of Kubernetes 1.37).

The splice needs no such list. A method that is missing here works too: it is relayed as a stream of bytes.
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
"""Streams that the runtime never ends by itself, so nobody may wait for their end; the others are long lists."""
