"""GPUs that only plugins know, told by the kubelet: CPUs beside them are left."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.kubelet.lister.socket import UnaryServer
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.daemon.test_watchers import CONFIG, Scene, started
from tests.unit.cri_proxy.kubelet.service import KubeletService, devices, pod

GPUS = pb.AllocatableResourcesResponse(devices=[devices("gpu.intel.com/i915", "card0", "card1", nodes=(1,))])


class PluginScene(Scene):
    def __init__(self, directory: Path) -> None:
        self.socket = directory / "k" / "pod-resources" / "kubelet.sock"
        self.socket.parent.mkdir(parents=True)
        self.text = f"{CONFIG}kubeletRoot: {directory}/k\ntopologyAware: {{DeviceCPUs: {{keep: 1}}}}\n"
        self.service = KubeletService()
        self.service.machine = GPUS
        super().__init__(directory, self.text)

    async def place_of(self, name: str, *held: pb.ContainerDevices) -> str:
        """The CPU of a container that owns one; '' if it is refused."""
        self.service.pods = (*self.service.pods, pod(name, {"c0": held}))
        try:
            await self.kubelet.run_pod(PodSpec(name, (guaranteed("c0", 1000),)))
        except CallFailed as error:
            assert "kept for containers that ask for a device" in error.message
            return ""
        return self.cpus()[name]

    def warnings(self) -> list[str]:
        assert self.daemon.node is not None
        return [text for text in self.daemon.node.coordinator.config_warnings if "accelerators" in text]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PluginScene]:
    scene = PluginScene(tmp_path)

    async def answer(method: str, message: bytes) -> bytes:
        return await scene.service.unary(method, message, timeout_seconds=1)

    server = UnaryServer(answer, lambda error: None)
    await server.start(scene.socket, tmp_path)
    async with started(scene):
        yield scene
    await server.close()


async def test_plugins_gpus_count(scene: PluginScene) -> None:
    await holds("the plugins' devices are known", lambda: bool(scene.policy().devices.registered))
    assert str(scene.policy().kept_cpus) == "6-7"
    assert len(scene.warnings()) == 1
    # Node 0 first, then what of node 1 is not kept, the sibling of the reserved CPU last.
    assert [await scene.place_of(f"plain-{number}") for number in range(6)] == ["2", "3", "4", "5", "1", ""]
    assert await scene.place_of("gpu", devices("gpu.intel.com/i915", "card1", nodes=(1,))) in ("6", "7")
    assert await scene.place_of("plain-6") == ""
    assert await scene.place_of("other", devices("gpu.intel.com/i915", "card0", nodes=(1,))) in ("6", "7")
