"""The kubelet, our device plugin and our node agree: what Allocate has given is what the container holds, no more.

The plugin and the kubelet's device manager talk over real sockets. What Allocate answers goes into CreateContainer as
the kubelet writes it: environment, annotations and CDI devices.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.inventory.file import read_inventory_file
from cri_proxy.kubelet.device_plugin.sources import PluginSources
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as plugin_pb
from cri_proxy.node.status.device_usage import inventory_views
from cri_proxy.state.memory_store import MemoryStore
from tests.fakes.device_kubelet import DeviceKubelet
from tests.fakes.device_policy import policy_with_devices
from tests.fakes.site import Site, opened
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.kubelet.device_plugin.stage import running, settings_of

GPU, NIC = "cri-proxy.io/gpu", "cri-proxy.io/rdma"
INVENTORY = """\
gpu:
- {minor: 0, numa: 0, pcie: a, uuid: GPU-0}
- {minor: 1, numa: 1, pcie: b, uuid: GPU-1}
- {minor: 2, numa: 1, pcie: b, uuid: GPU-2}
rdma:
- {minor: 0, numa: 0, pcie: a}
- {minor: 1, numa: 1, pcie: b, vf_groups: [{vfs: [{bus: "0000:20:00.1"}, {bus: "0000:20:00.2"}]}]}
"""
DECLARED = """\
{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "GPU-1"}, {"name": "GPU-2"}]}
"""
OWNS = guaranteed("c", 1000)
ASKS = {
    "cri-proxy.io/device-resources": "nvidia.com/gpu=1,koordinator.sh/rdma=1",
    "scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}',
}


class OneNode(Site):
    """A node whose kubelet has the devices of a plugin; both read the same inventory."""

    def __init__(self, directory: Path) -> None:
        (directory / "devices.yaml").write_text(INVENTORY)
        super().__init__(policy_with_devices(devices=read_inventory_file(directory / "devices.yaml")))
        self.manager = DeviceKubelet(directory / "plugins")

    async def create(self, name: str, **counts: int) -> RunningPod:
        """Have devices allocated and create the container that gets them, as the kubelet does."""
        answers = [(await self.manager.allocate(f"cri-proxy.io/{kind}", n))[1] for kind, n in counts.items()]
        return await self.create_with(name, *answers)

    async def create_with(self, name: str, *answers: plugin_pb.ContainerAllocateResponse) -> RunningPod:
        spec = PodSpec(name, (OWNS,))
        sandbox_id = await self.kubelet.run_sandbox(spec)
        request = create_request(spec, OWNS, sandbox_id, node=self.kubelet.node)
        for answer in answers:
            request.config.envs.extend(pb.KeyValue(key=key, value=text.encode()) for key, text in answer.envs.items())
            request.config.annotations.update(answer.annotations)
            request.config.CDI_devices.extend(pb.CDIDevice(name=device.name) for device in answer.cdi_devices)
        container_id = await self.kubelet.create_as(request)
        await self.kubelet.start(container_id)
        await self.node.settle()
        return RunningPod(spec, sandbox_id, (("c", container_id),))

    def held(self, pod: RunningPod) -> list[str]:
        return [str(device) for device in self.row(pod.container_id("c")).grant.devices]

    def nodes(self, pod: RunningPod) -> list[int]:
        """The NUMA nodes of its own CPUs."""
        owned = self.row(pod.container_id("c")).grant.owned
        return [node.id for node in self.policy.machine.nodes if node.cpus & owned]

    def holders(self) -> dict[str, list[str]]:
        """Which pods hold each device, as the status shows it."""
        views = inventory_views(self.policy.known, self.node.context.ledger.allocations)
        return {f"{v.type} {v.minor}": [holder.container.split("/")[1] for holder in v.holders] for v in views}


@asynccontextmanager
async def on_node(directory: Path, *forms: str) -> AsyncIterator[OneNode]:
    (directory / "etc" / "cdi").mkdir(parents=True)
    (directory / "etc" / "cdi" / "gpu.json").write_text(DECLARED)
    node = OneNode(directory)
    await node.manager.start()
    sources = PluginSources(directory / "devices.yaml", sysfs_root=directory)
    async with running(settings_of(node.manager.directory, sources, forms=forms)), opened(node):
        await holds("the kubelet knows both", lambda: node.manager.knows(GPU, NIC))
        yield node
    await node.manager.stop()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OneNode]:
    async with on_node(tmp_path, "rdma=vfs") as node:
        yield node


async def test_a_container_holds_the_devices_that_allocate_named_and_runs_beside_them(node: OneNode) -> None:
    pod = await node.create("a", gpu=2, rdma=1)
    assert node.held(pod) == ["gpu 1", "gpu 2", "rdma 1 VF 0000:20:00.1"]
    assert node.nodes(pod) == [1]
    config = node.runtime.node.containers[pod.container_id("c")].config
    assert [device.name for device in config.CDI_devices] == ["nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2"]


async def test_who_asks_by_annotation_gets_others_and_the_status_shows_both(node: OneNode) -> None:
    pod = await node.create("a", gpu=2, rdma=1)
    other = await node.run("b", OWNS, **ASKS)
    assert not set(node.held(pod)) & set(node.held(other))
    assert node.held(other) == ["gpu 0", "rdma 1 VF 0000:20:00.2"]
    assert node.holders() == {"gpu 0": ["b"], "gpu 1": ["a"], "gpu 2": ["a"], "rdma 0": [], "rdma 1": ["a", "b"]}


async def test_what_a_removed_container_had_is_free_again(node: OneNode) -> None:
    pod = await node.create("a", gpu=2, rdma=1)
    await node.kubelet.remove_pod(pod.sandbox_id)
    await node.node.settle()
    assert not any(node.holders().values())
    assert [node.held(await node.run(name, OWNS, **ASKS))[0] for name in ("b", "c")] == ["gpu 1", "gpu 2"]


async def test_the_kubelet_gives_out_again_what_was_asked_by_annotation_and_both_hold_it(node: OneNode) -> None:
    other = await node.run("b", OWNS, **ASKS)
    assert node.held(other)[0] == "gpu 1"
    assert node.held(await node.create("a", gpu=3)) == ["gpu 0", "gpu 1", "gpu 2"]
    assert sorted(node.holders()["gpu 1"]) == ["a", "b"]


async def test_a_restarted_daemon_holds_them_still(node: OneNode) -> None:
    pod = await node.create("a", gpu=2, rdma=1)
    before = node.held(pod)
    await node.open()
    assert node.held(pod) == before
    node.store = MemoryStore()  # lost
    await node.open()
    assert node.held(pod) == before
    assert node.holders()["gpu 1"] == ["a"]


@pytest.mark.parametrize(
    ("form", "gpus", "free"),
    [("shares:4", ["0:50", "0:25", "1:75"], ["gpu 2"]), ("shares:4:spread", ["0:50", "1:25", "2:75"], [])],
)
async def test_shares_of_gpus_are_held_as_what_they_are_of_the_gpu(
    tmp_path: Path, form: str, gpus: list[str], free: list[str]
) -> None:
    async with on_node(tmp_path, f"gpu={form}") as node:
        pods = [await node.create(name, gpu=count) for name, count in (("a", 2), ("b", 1), ("c", 3))]
        held = [device for pod in pods for device in node.row(pod.container_id("c")).grant.devices]
        assert [device.word for device in held] == gpus
        config = node.runtime.node.containers[pods[0].container_id("c")].config
        envs = {env.key: env.value.decode() for env in config.envs}
        assert (envs["CRI_PROXY_ALLOCATED_GPU"], envs["NVIDIA_VISIBLE_DEVICES"]) == ("0:50", "GPU-0")
        try:
            found = node.held(await node.run("d", OWNS, **{"cri-proxy.io/device-resources": "nvidia.com/gpu=1"}))
        except CallFailed as error:
            assert "gpu 0: in use: 50 of 100 units free; 1: in use: 75 of 100 units free" in str(error)
            found = []
        assert found == free
