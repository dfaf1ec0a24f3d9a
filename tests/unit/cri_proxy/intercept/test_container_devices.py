"""What becomes of the inventory's devices when containers are created, restarted, resized and removed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.file_workers import FilesFailed
from cri_proxy.intercept.container_devices import ContainerDevices
from cri_proxy.kubelet.pod_resources import PodResources
from cri_proxy.kubelet.proto import podresources_v1_pb2 as podresources
from cri_proxy.metrics import catalog
from cri_proxy.node.reconfigure import use_devices
from cri_proxy.node.status.view import NodeView
from cri_proxy.node.sync.claims import ClaimSources
from cri_proxy.state.decisions import DecisionRecord
from cri_proxy.state.memory_store import MemoryStore
from policies.base import Request
from policies.devices import EMPTY_INVENTORY
from sysfs.cpuset import NodeSet
from tests.fakes.device_policy import policy_with_devices, two_pairs
from tests.fakes.scripted_cdi import DeclaredOf, ScriptedCdi
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.kubelet.service import KubeletService, devices
from tests.unit.cri_proxy.kubelet.service import pod as told_pod
from tests.unit.cri_proxy.node.stage import direct
from tests.unit.policies.build import request

OWNS = guaranteed("c", 1000)
UNREADABLE = ("/etc/cdi/nvidia.yaml",)
ASKS = {
    "cri-proxy.io/device-resources": "nvidia.com/gpu=1,rdma=1",
    "scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}',
    "scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}',
}


class InventorySite(Site):
    """A site with a GPU and a NIC with two VFs on each of two nodes."""

    def __init__(self, rules: Config | None = None) -> None:
        super().__init__(policy_with_devices(devices=two_pairs()), rules=rules)

    async def declare(self, declared: DeclaredOf | None = None, unreadable: tuple[str, ...] = ()) -> None:
        cdi = ScriptedCdi(declared, unreadable=unreadable)
        self.interceptor.use_reader(replace(self.interceptor._reader, cdi=cdi))

    def ask_kubelet(self, *pods: podresources.PodResources) -> None:
        """Let the kubelet tell of these pods."""
        known = NodeSet.parse("0-1")
        kubelet = PodResources(KubeletService(*pods), self.clock, self.journal, known=lambda: known)
        self.interceptor.use_reader(replace(self.interceptor._reader, pod_resources=kubelet))


async def all_declared(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not name.startswith("nvidia.com"))


async def hanging(names: Sequence[str]) -> tuple[str, ...]:
    raise FilesFailed("CDI specifications", "has not answered for 1 s")


def config(site: Site, pod: RunningPod) -> pb.ContainerConfig:
    return site.runtime.node.containers[pod.container_id("c")].config


def variables(site: Site, pod: RunningPod) -> dict[str, str]:
    envs = config(site, pod).envs
    return {env.key: env.value.decode() for env in envs if env.key.startswith(("CRI_PROXY_", "NVIDIA_"))}


def held(site: Site, container_id: str) -> list[str]:
    return [str(device) for device in site.row(container_id).grant.devices]


def said(site: Site, pod: RunningPod) -> list[str]:
    record = site.journal.records.get(site.row(pod.container_id("c")).key)
    assert isinstance(record, DecisionRecord)
    return [entry.text for entry in record.history if entry.what == "devices"]


async def test_a_container_gets_devices_that_go_together_and_is_told() -> None:
    async with opened(InventorySite()) as site:
        pod = await site.run("a", OWNS, **ASKS)
        assert held(site, pod.container_id("c")) == ["gpu 0", "rdma 0 VF 0000:10:00.1"]
        assert variables(site, pod) == {
            "CRI_PROXY_ALLOCATED_GPU": "0",
            "CRI_PROXY_ALLOCATED_RDMA": "0@0000:10:00.1",
            "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        }
        told = json.loads(config(site, pod).annotations["scheduling.koordinator.sh/device-allocated"])
        assert [(kind, [entry["minor"] for entry in entries]) for kind, entries in told.items()] == [
            ("gpu", [0]),
            ("rdma", [0]),
        ]


async def test_the_cpus_are_where_the_devices_are() -> None:
    async with opened(InventorySite()) as site:
        await site.run("a", OWNS, **ASKS)
        second = await site.run("b", OWNS, **ASKS)
        assert held(site, second.container_id("c")) == ["gpu 1", "rdma 1 VF 0000:20:00.1"]
        node = site.policy.machine.nodes[1]
        assert site.row(second.container_id("c")).grant.owned <= node.cpus


async def test_the_first_declared_cdi_name_of_each_is_named_to_the_runtime() -> None:
    async with opened(InventorySite()) as site:
        await site.declare(all_declared)
        pod = await site.run("a", OWNS, **ASKS)
        names = [device.name for device in config(site, pod).CDI_devices]
        assert names == ["cri-proxy.io/gpu=0", "cri-proxy.io/vf=0000:10:00.1"]
        assert said(site, pod) == ["added by CDI: cri-proxy.io/gpu=0, cri-proxy.io/vf=0000:10:00.1"]


async def test_without_specifications_it_knows_from_its_variables() -> None:
    async with opened(InventorySite()) as site:
        pod = await site.run("a", OWNS, **ASKS)
        assert said(site, pod) == ["in no CDI specification: gpu 0, rdma 0 VF 0000:10:00.1"]
        await site.declare(hanging)
        late = await site.run("b", OWNS, **ASKS)
        assert said(site, late) == ["not named to CDI: CDI specifications: has not answered for 1 s"]
        assert "devices_missing" in site.log.warnings


async def test_files_that_may_be_the_specification_of_its_devices_are_named() -> None:
    async with opened(InventorySite()) as site:
        await site.declare(unreadable=UNREADABLE)
        pod = await site.run("a", OWNS, **ASKS)
        expected = "gpu 0, rdma 0 VF 0000:10:00.1; cannot be read as a specification: /etc/cdi/nvidia.yaml"
        assert said(site, pod) == [f"in no CDI specification: {expected}"]
        assert "devices_missing" in site.log.warnings


async def test_where_all_are_declared_no_other_file_matters() -> None:
    async with opened(InventorySite()) as site:
        await site.declare(all_declared, UNREADABLE)
        await site.run("a", OWNS, **ASKS)
        assert "devices_missing" not in site.log.warnings


async def test_a_reload_while_it_is_created_does_not_change_which_device_it_is_told() -> None:
    async with opened(InventorySite()) as site:

        async def reloaded(names: Sequence[str]) -> tuple[str, ...]:
            use_devices(site.node, EMPTY_INVENTORY)
            return tuple(names)

        await site.declare(reloaded)
        pod = await site.run("a", OWNS, **ASKS)
        assert variables(site, pod)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
        told = json.loads(config(site, pod).annotations["scheduling.koordinator.sh/device-allocated"])
        assert told["gpu"][0]["id"] == "GPU-0"


async def test_what_the_plugin_gave_is_held_and_not_told_again() -> None:
    async with opened(InventorySite()) as site:
        spec = PodSpec("a", (OWNS,))
        sandbox_id = await site.kubelet.run_sandbox(spec)
        asked = create_request(spec, OWNS, sandbox_id, node=site.kubelet.node)
        asked.config.annotations["allocated.cri-proxy.io/gpu"] = "0"
        first = RunningPod(spec, sandbox_id, (("c", await site.kubelet.create_as(asked)),))
        assert held(site, first.container_id("c")) == ["gpu 0"]
        assert variables(site, first) == {}
        second = await site.run("b", OWNS, **ASKS)
        assert held(site, second.container_id("c"))[0] == "gpu 1"


async def test_only_what_was_allocated_here_is_named_to_the_runtime() -> None:
    async with opened(InventorySite()) as site:
        await site.declare(all_declared)
        spec = PodSpec("a", (OWNS,), annotations=(("cri-proxy.io/device-resources", "rdma=1"),))
        asked = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        asked.config.annotations["allocated.cri-proxy.io/gpu"] = "0"
        container_id = await site.kubelet.create_as(asked)
        assert held(site, container_id) == ["rdma 0", "gpu 0"]
        created = site.runtime.node.containers[container_id].config
        assert [device.name for device in created.CDI_devices] == ["cri-proxy.io/rdma=0"]


async def test_a_word_of_the_plugin_that_cannot_be_read_is_a_problem_of_the_container() -> None:
    async with opened(InventorySite()) as site:
        read = ReadRequest(request("a/c", 1000))
        words = pb.ContainerConfig(annotations={"allocated.cri-proxy.io/gpu": "x"})
        found = await ContainerDevices(site.node).with_given(site.interceptor._reader, read, words)
        assert (found.request.given, [each.key for each in found.problems]) == ((), ["allocated.cri-proxy.io/gpu"])
        assert (
            await ContainerDevices(site.node).with_given(site.interceptor._reader, read, pb.ContainerConfig()) is read
        )


async def test_devices_survive_a_restart_and_a_lost_store() -> None:
    async with opened(InventorySite()) as site:
        other = await site.run("other", OWNS, **ASKS)
        pod = await site.run("a", OWNS, **ASKS)
        await site.kubelet.remove_pod(other.sandbox_id)
        had = ["gpu 1", "rdma 1 VF 0000:20:00.1"]
        await site.open()
        assert held(site, pod.container_id("c")) == had
        site.store = MemoryStore()
        await site.open()
        assert held(site, pod.container_id("c")) == had


async def test_the_next_container_of_the_same_name_gets_the_same_devices() -> None:
    async with opened(InventorySite()) as site:
        other, pod = [await site.run(name, OWNS, **ASKS) for name in ("other", "a")]
        await site.kubelet.remove_pod(other.sandbox_id)
        had = held(site, pod.container_id("c"))
        await site.kubelet.stop(pod.container_id("c"))
        again = await site.kubelet.create(pod.spec, OWNS, pod.sandbox_id, attempt=1)
        assert held(site, again) == had


async def test_a_removed_container_gives_its_devices_back() -> None:
    async with opened(InventorySite()) as site:
        pods = [await site.run(name, OWNS, **ASKS) for name in ("a", "b")]
        for pod in pods:
            await site.kubelet.remove_pod(pod.sandbox_id)
        await site.node.settle()
        assert site.node.context.ledger.allocations.grants == ()
        assert held(site, (await site.run("c", OWNS, **ASKS)).container_id("c"))[0] == "gpu 0"


async def gpu_0_told(asked: Request) -> ToldDevices:
    return ToldDevices(allocated=("nvidia.com/gpu/GPU-0",) if asked.pod.name == "a" else (), is_known=True)


async def runs_past_the_proxy(site: Site, way: str) -> str:
    """Run a pod that the kubelet gave a GPU before the proxy came; return its sandbox."""
    spec = PodSpec("a", (OWNS,))
    sandbox_id = await direct(site).run_sandbox(spec)
    asked = create_request(spec, OWNS, sandbox_id, node=site.kubelet.node)
    if way == "annotation":
        asked.config.annotations["allocated.cri-proxy.io/gpu"] = "0"
    elif way == "name":
        asked.config.CDI_devices.add(name="nvidia.com/gpu=0")
    else:
        site.claims = ClaimSources(told_of=gpu_0_told)
    await direct(site).start(await direct(site).create_as(asked))
    return sandbox_id


@pytest.mark.parametrize("adopt", ["leave", "pin"])
@pytest.mark.parametrize("way", ["annotation", "name", "kubelet"])
async def test_what_a_container_has_from_before_the_proxy_goes_to_no_other_one_until_it_ends(
    way: str, adopt: Literal["leave", "pin"]
) -> None:
    async with opened(InventorySite(Config(adopt=adopt))) as site:
        sandbox_id = await runs_past_the_proxy(site, way)
        await site.open()
        second = await site.run("b", OWNS, **ASKS)
        assert held(site, second.container_id("c"))[0] == "gpu 1"
        with pytest.raises(CallFailed, match="gpu"):
            await site.run("c", OWNS, **ASKS)
        await site.kubelet.remove_pod(sandbox_id)
        third = await site.run("d", OWNS, **ASKS)
        assert held(site, third.container_id("c"))[0] == "gpu 0"


async def test_a_name_of_what_was_allocated_here_is_nothing_that_others_chose() -> None:
    async with opened(InventorySite()) as site:
        await site.declare(all_declared)
        pod = await site.run("a", OWNS, **ASKS)
        site.store = MemoryStore()
        await site.open()
        grant = site.row(pod.container_id("c")).grant
        assert (grant.request.given, [each.is_given for each in grant.devices]) == ((), [False, False])


async def test_what_the_kubelet_has_allocated_goes_to_no_pod_that_asks_by_annotation() -> None:
    """NVIDIA's plugin tells a container its GPUs by a variable, which a pod can write too."""
    async with opened(InventorySite()) as site:
        site.ask_kubelet(told_pod("a", {"c": [devices("nvidia.com/gpu", "GPU-0")]}), told_pod("b", {}))
        first, second = await site.run("a", OWNS), await site.run("b", OWNS, **ASKS)
        assert held(site, first.container_id("c")) == ["gpu 0"]
        assert held(site, second.container_id("c"))[0] == "gpu 1"
        assert variables(site, first) == {}
        assert NodeView(site.node, name="n").status().held_twice == ()


async def test_a_device_that_the_kubelet_gives_away_again_has_two_holders() -> None:
    async with opened(InventorySite()) as site:
        site.ask_kubelet(told_pod("a", {}), told_pod("b", {"c": [devices("nvidia.com/gpu", "GPU-0")]}))
        for name, asks in (("a", ASKS), ("b", {})):
            await site.run(name, OWNS, **asks)
        view = NodeView(site.node, name="n")
        twice = "gpu 0 has 2 holders: default/a/c, default/b/c (chosen by others)"
        assert view.status().held_twice == (twice,)
        assert f"devices: {twice}" in view.status().warnings
        (count,) = [each.value for each in view.samples() if each.metric is catalog.DEVICES_HELD_TWICE]
        assert count == 1


async def test_a_gpu_that_a_plugin_lets_containers_share_has_as_many_holders_as_it_likes() -> None:
    async with opened(InventorySite()) as site:
        replicas = {name: devices("nvidia.com/gpu.shared", f"GPU-0::{n}") for n, name in enumerate("ab")}
        site.ask_kubelet(*(told_pod(name, {"c": [each]}) for name, each in replicas.items()))
        for name in replicas:
            await site.run(name, OWNS)
        assert NodeView(site.node, name="n").status().held_twice == ()
        third = await site.run("c", OWNS, **ASKS)
        assert held(site, third.container_id("c"))[0] == "gpu 1"


VOID = Config(visible_devices="void")
NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "void"}


async def seen(
    site: InventorySite, name: str, namespace: str = "default", *, is_privileged: bool = False
) -> str | None:
    """Create a container whose pod names all GPUs; return what its runtime is told."""
    spec = PodSpec(name, (OWNS,), namespace)
    request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
    request.config.envs.add(key="NVIDIA_VISIBLE_DEVICES", value=b"all")
    request.config.linux.security_context.privileged = is_privileged
    made = await site.kubelet.create_as(request)
    envs = site.runtime.node.containers[made].config.envs
    return next((env.value.decode() for env in envs if env.key == "NVIDIA_VISIBLE_DEVICES"), None)


async def test_a_container_without_a_gpu_sees_none_where_the_operator_says_so() -> None:
    async with opened(InventorySite(VOID)) as site:
        gpu = devices("nvidia.com/gpu", "GPU-0")
        site.ask_kubelet(told_pod("a", {"c": []}), told_pod("b", {"c": [gpu]}), told_pod("image", {"c": []}))
        assert [await seen(site, name) for name in ("a", "b")] == ["void", "all"]
        assert variables(site, await site.run("image", OWNS)) == NO_GPU  # the image may say all
        (key,) = [key for key, who in site.journal.records.names().items() if who.pod == "a"]
        record = site.journal.records.get(key)
        assert isinstance(record, DecisionRecord)
        assert "NVIDIA_VISIBLE_DEVICES is void instead of all: it has no GPU" in [e.text for e in record.history]


async def test_a_container_with_a_gpu_by_annotation_sees_that_one() -> None:
    async with opened(InventorySite(VOID)) as site:
        site.ask_kubelet(told_pod("a", {"c": []}))
        assert variables(site, await site.run("a", OWNS, **ASKS))["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


@pytest.mark.parametrize(
    ("rules", "namespace", "is_privileged"),
    [
        (Config(), "default", False),
        (VOID, "default", True),
        (VOID, "gpu-operator", False),
        (replace(VOID, visible_devices_namespaces=("mon*",)), "monitoring", False),
    ],
    ids=["leave", "privileged", "default-namespace", "named-namespace"],
)
async def test_others_keep_what_they_name(rules: Config, namespace: str, *, is_privileged: bool) -> None:
    async with opened(InventorySite(rules)) as site:
        site.ask_kubelet(told_pod("a", {"c": []}))
        assert await seen(site, "a", namespace, is_privileged=is_privileged) == "all"


async def test_nothing_is_hidden_where_the_kubelet_has_not_answered_or_no_gpu_is_nvidias() -> None:
    async with opened(InventorySite(VOID)) as site:
        assert await seen(site, "a") == "all"
        site.ask_kubelet(told_pod("init", {}))  # it tells nothing of init containers
        assert await seen(site, "init") == "all"
        site.ask_kubelet(told_pod("b", {"c": []}))
        use_devices(site.node, EMPTY_INVENTORY)
        assert await seen(site, "b") == "all"
