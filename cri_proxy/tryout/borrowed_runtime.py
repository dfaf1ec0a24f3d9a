"""A runtime that runs already, borrowed for a while: what we bring is taken away again, the rest is left alone."""

import json
from pathlib import Path
from types import TracebackType
from typing import Self

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.errors import TryoutError
from cri_proxy.cri_client.kernel import memory_total_bytes
from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import IMAGE, Node
from cri_proxy.errors import CallFailed
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.testbed import cgroups
from cri_proxy.testbed.child import run
from cri_proxy.testbed.image import write_image
from cri_proxy.testbed.wait import finish
from cri_proxy.tryout.workloads import LABEL
from cri_proxy.unix_socket import socket_path

IMPORT_SECONDS = 60.0
IMAGE_SERVICE = "/runtime.v1.ImageService/"


class RunningRuntime:
    """Entered, it has our image and knows the cgroup driver; left, it is without our pods and image again."""

    def __init__(self, endpoint: str, directory: Path, *, run_id: str, image: str = "") -> None:
        """``run_id`` is the value of our pods' label; ``image`` '' = bring our own, else one that the node has."""
        self.endpoint = endpoint
        self._directory = directory
        self._run_id = run_id
        self._image = image
        self._brought_image = False
        self._client = RuntimeClient(endpoint)
        self.node = Node(memory_total_bytes())

    async def __aenter__(self) -> Self:
        try:
            self.node = Node(
                memory_capacity_bytes=memory_total_bytes(),
                log_directory=str(self._directory / "logs"),
                cgroup_root=f"/{self._directory.name}",
                image=self._image or IMAGE,
                systemd_cgroups=await self._uses_systemd(),
            )
            await self._bring_image()
        except BaseException:
            await finish(self._leave())
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self._leave())

    async def _leave(self) -> None:
        try:
            kubelet = Kubelet(self._client, self.node)
            for sandbox_id in await kubelet.sandboxes({LABEL: self._run_id}):
                await kubelet.remove_pod(sandbox_id)
            if self._brought_image:
                remove = pb.RemoveImageRequest(image=pb.ImageSpec(image=IMAGE))
                await self._ask_images("RemoveImage", remove.SerializeToString())
        finally:
            await self._client.close()
        if not self.node.systemd_cgroups:
            cgroups.remove_everywhere(self.node.cgroup_root)

    async def _uses_systemd(self) -> bool:
        """The cgroup driver, from RuntimeConfig where the runtime has it, else from containerd's configuration."""
        kubelet = Kubelet(self._client, self.node)
        try:
            told = await kubelet.call("RuntimeConfig", pb.RuntimeConfigRequest(), pb.RuntimeConfigResponse)
            return told.linux.cgroup_driver == pb.SYSTEMD
        except CallFailed:
            status = await kubelet.call("Status", pb.StatusRequest(verbose=True), pb.StatusResponse)
            return systemd_in(status.info.get("config", "{}"))

    async def _bring_image(self) -> None:
        if await self._has_image():
            return
        if self._image:
            raise TryoutError(self._image, "the runtime does not have this image")
        archive = self._directory / "image.tar"
        write_image(archive)
        socket = str(socket_path(self.endpoint))
        try:
            run(["ctr", "-a", socket, "-n", "k8s.io", "images", "import", str(archive)], seconds=IMPORT_SECONDS)
        except TryoutError as error:
            remedy = "give --image NAME: an image of the node that has /bin/sleep and /bin/cat"
            raise TryoutError(self.endpoint, f"cannot be given an image: {error.problem}", remedy) from error
        self._brought_image = True

    async def _has_image(self) -> bool:
        request = pb.ImageStatusRequest(image=pb.ImageSpec(image=self.node.image)).SerializeToString()
        return pb.ImageStatusResponse.FromString(await self._ask_images("ImageStatus", request)).HasField("image")

    async def _ask_images(self, method: str, message: bytes) -> bytes:
        return await self._client.unary(IMAGE_SERVICE + method, message, timeout_seconds=IMPORT_SECONDS)


def systemd_in(configuration: str) -> bool:
    """Whether containerd's own JSON says that the default runtime's cgroups are systemd's.

    >>> systemd_in('{"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {}}}}}')
    False
    """
    containerd = json.loads(configuration).get("containerd", {})
    runtime = containerd.get("runtimes", {}).get(containerd.get("defaultRuntimeName", ""), {})
    return bool((runtime.get("options") or {}).get("SystemdCgroup", False))
