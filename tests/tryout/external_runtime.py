"""Prepare an existing runtime for the try-out: find its cgroup driver, add an image; later remove pods and image."""

import json
from pathlib import Path
from typing import Self

import psutil

from cri_proxy.cri import methods
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE, KubeletNode
from cri_proxy.errors import CallFailed
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.unix_socket import socket_path
from tests.testbed import cgroups
from tests.testbed.child import run
from tests.testbed.errors import TryoutError
from tests.testbed.image import write_image
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import finish
from tests.tryout.workloads import LABEL

IMPORT_SECONDS = 60.0


class ExternalRuntime:
    """A running runtime; entering adds our image and finds the cgroup driver, leaving removes our pods and image."""

    def __init__(self, endpoint: str, directory: Path, *, run_id: str, image: str = "") -> None:
        """``run_id`` is the value of our pods' label; ``image`` '' = add our own, else one that the node has."""
        self.endpoint = endpoint
        self._directory = directory
        self._run_id = run_id
        self._image = image
        self._added_image = False
        self._client = RuntimeClient(endpoint)
        self.node = KubeletNode(psutil.virtual_memory().total)

    async def __aenter__(self) -> Self:
        try:
            self.node = KubeletNode(
                memory_capacity_bytes=psutil.virtual_memory().total,
                log_directory=str(self._directory / "logs"),
                cgroup_root=f"/{self._directory.name}",
                image=self._image or IMAGE,
                systemd_cgroups=await self._uses_systemd(),
            )
            await self._add_image()
        except BaseException:
            await finish(self._leave())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await finish(self._leave())

    async def _leave(self) -> None:
        try:
            kubelet = PodKubelet(self._client, self.node)
            for sandbox_id in await kubelet.sandboxes({LABEL: self._run_id}):
                await kubelet.remove_pod(sandbox_id)
            if self._added_image:
                remove = pb.RemoveImageRequest(image=pb.ImageSpec(image=IMAGE))
                await self._ask_images("RemoveImage", remove.SerializeToString())
        finally:
            await self._client.close()
        if not self.node.systemd_cgroups:
            cgroups.remove_everywhere(self.node.cgroup_root)

    async def _uses_systemd(self) -> bool:
        """Return True for the systemd cgroup driver, by RuntimeConfig or, without it, containerd's configuration."""
        kubelet = PodKubelet(self._client, self.node)
        try:
            reply = await kubelet.call("RuntimeConfig", pb.RuntimeConfigRequest(), pb.RuntimeConfigResponse)
            return reply.linux.cgroup_driver == pb.SYSTEMD
        except CallFailed:
            status = await kubelet.call("Status", pb.StatusRequest(verbose=True), pb.StatusResponse)
            return systemd_in(status.info.get("config", "{}"))

    async def _add_image(self) -> None:
        request = pb.ImageStatusRequest(image=pb.ImageSpec(image=self.node.image)).SerializeToString()
        reply = pb.ImageStatusResponse.FromString(await self._ask_images("ImageStatus", request))
        if reply.HasField("image"):
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
        self._added_image = True

    async def _ask_images(self, method: str, message: bytes) -> bytes:
        return await self._client.unary(methods.IMAGE + method, message, timeout_seconds=IMPORT_SECONDS)


def systemd_in(configuration: str) -> bool:
    """Return True when the default runtime in containerd's JSON has systemd's cgroups.

    >>> systemd_in('{"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {}}}}}')
    False
    """
    containerd = json.loads(configuration).get("containerd", {})
    runtime = containerd.get("runtimes", {}).get(containerd.get("defaultRuntimeName", ""), {})
    return bool((runtime.get("options") or {}).get("SystemdCgroup", False))
