"""A kubelet's pod resources service for tests: answers that are built, calls that are counted."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.runtime.channel import RuntimeChannel


def devices(resource: str, *ids: str, nodes: Sequence[int] = ()) -> pb.ContainerDevices:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])
    return pb.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)


def pod(name: str, containers: Mapping[str, Sequence[pb.ContainerDevices]]) -> pb.PodResources:
    held = [pb.ContainerResources(name=c, devices=d) for c, d in containers.items()]
    return pb.PodResources(name=name, namespace="default", containers=held)


class KubeletService(RuntimeChannel):
    """Implements ``runtime.channel.RuntimeChannel`` as the kubelet would answer."""

    def __init__(self, *pods: pb.PodResources, get: str = "offered") -> None:
        """``get``: offered, disabled (the feature gate is closed), absent or silent (never an answer)."""
        self.pods = pods
        self.get = get
        self.machine = pb.AllocatableResourcesResponse()
        self.calls: list[str] = []

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        name = method.rpartition("/")[2]
        self.calls.append(name)
        if self.get == "absent":
            raise RuntimeUnavailable(method, "no such file")
        if self.get == "silent":
            await asyncio.Event().wait()
        if name == "List":
            return pb.ListPodResourcesResponse(pod_resources=self.pods).SerializeToString()
        if name == "GetAllocatableResources":
            return self.machine.SerializeToString()
        if name == "Future":
            return message
        if self.get == "disabled":
            raise CallFailed(method, 2, "PodResources API Get method disabled")
        if self.get == "garbage":
            return b"\xff\xff\xff"
        wanted = pb.GetPodResourcesRequest.FromString(message).pod_name
        found = [p for p in self.pods if p.name == wanted]
        if not found:
            raise CallFailed(method, 5, f"pod {wanted} not found")
        return pb.GetPodResourcesResponse(pod_resources=found[0]).SerializeToString()

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        raise NotImplementedError(method)

    async def close(self) -> None:
        """Nothing is open."""
