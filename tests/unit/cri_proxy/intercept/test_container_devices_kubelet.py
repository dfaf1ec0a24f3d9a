"""What becomes of devices that the kubelet has allocated, and what containers without a GPU see of those of others."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.devices.names import Proofs
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import PodSpec, create_request
from cri_proxy.errors import CallFailed
from cri_proxy.kubelet.pod_resources import told_devices
from cri_proxy.metrics import catalog
from cri_proxy.node.reconfigure import use_devices
from cri_proxy.node.status.view import NodeView
from cri_proxy.node.sync.claims import ClaimSources
from cri_proxy.state.decisions import DecisionRecord
from policies.base import DeviceLocality, Request
from policies.devices import EMPTY_INVENTORY, DeviceInventory, InventoryDevice, PciePath, proved
from sysfs.cpuset import NodeSet
from tests.fakes.scripted_cdi import ScriptedCdi
from tests.fakes.site import opened
from tests.fakes.store import MemoryStore
from tests.unit.cri_proxy.intercept.inventory_site import ASKS, OWNS, InventorySite, held, variables
from tests.unit.cri_proxy.kubelet.service import devices
from tests.unit.cri_proxy.kubelet.service import pod as told_pod
from tests.unit.cri_proxy.node.stage import direct


async def test_what_the_kubelet_has_allocated_goes_to_no_pod_that_asks_by_annotation() -> None:
    """NVIDIA's plugin tells a container its GPUs by a variable, which a pod can write too."""
    async with opened(InventorySite()) as site:
        site.ask_kubelet(told_pod("a", {"c": [devices("nvidia.com/gpu", "GPU-0")]}), told_pod("b", {}))
        first, second = await site.run("a", OWNS), await site.run("b", OWNS, **ASKS)
        assert held(site, first.container_id("c")) == ["gpu 0"]
        assert held(site, second.container_id("c"))[0] == "gpu 1"
        assert variables(site, first) == {}
        assert NodeView(site.node, name="n").status().held_twice == ()


async def test_a_partition_that_amds_plugin_has_given_goes_to_no_other_pod_and_the_rest_of_its_gpu_does() -> None:
    gpu = InventoryDevice("gpu", 0, 0, path=PciePath("pci0000:05", bus="0000:05:00.0"), vendor="amd")
    parts = [replace(gpu, minor=n, path=PciePath("pci0000:05"), uuid=f"amdgpu_xcp_{n}") for n in (1, 2)]
    asks = {"cri-proxy.io/device-resources": "amd.com/gpu=1"}
    async with opened(InventorySite(devices=DeviceInventory((gpu, *parts)))) as site:
        given = {"a": ("amd.com/gpu", "0000:05:00.0"), "b": ("amd.com/cpx_nps4", "amdgpu_xcp_1")}
        told = [told_pod(name, {"c": [devices(*each)]}) for name, each in given.items()]
        site.ask_kubelet(*told, told_pod("c", {}), told_pod("d", {}))
        pods = [await site.run(name, OWNS) for name in given]
        assert [held(site, pod.container_id("c")) for pod in pods] == [["gpu 0"], ["gpu 1"]]
        third = await site.run("c", OWNS, **asks)
        assert held(site, third.container_id("c")) == ["gpu 2"]
        with pytest.raises(CallFailed, match=r"none can be given \(gpu 0-2: in use\)"):
            await site.run("d", OWNS, **asks)
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


async def test_a_virtual_function_of_the_sr_iov_plugin_goes_to_no_pod_that_asks_by_annotation() -> None:
    """Its ids are PCI addresses, whatever the resource is called."""
    async with opened(InventorySite()) as site:
        vf = devices("intel.com/sriov_netdevice", "0000:10:00.1")
        site.ask_kubelet(told_pod("a", {"c": [vf]}), *(told_pod(name, {}) for name in "bcd"))
        first = await site.run("a", OWNS)
        assert held(site, first.container_id("c")) == ["rdma 0 VF 0000:10:00.1"]
        asks = {key: value for key, value in ASKS.items() if "joint" not in key}
        asks["cri-proxy.io/device-resources"] = "rdma=1"
        others = [held(site, (await site.run(name, OWNS, **asks)).container_id("c")) for name in "bcd"]
        free = {f"rdma {n} VF 0000:{n + 1}0:00.{i}" for n, i in ((0, 2), (1, 1), (1, 2))}
        assert {each for (each,) in others} == free
        with pytest.raises(CallFailed, match="all of its VFs that match are in use"):
            await site.run("e", OWNS, **asks)


async def test_a_virtual_function_that_the_kubelet_gives_away_again_has_two_holders() -> None:
    """Who has another one of that NIC is none of them."""
    async with opened(InventorySite()) as site:
        plugin = {name: devices("example.com/vf", f"0000:10:00.{n}") for name, n in (("b", 1), ("c", 2))}
        site.ask_kubelet(told_pod("a", {}), *(told_pod(name, {"c": [each]}) for name, each in plugin.items()))
        for name, asks in (("a", ASKS), ("b", {}), ("c", {})):
            await site.run(name, OWNS, **asks)
        view = NodeView(site.node, name="n")
        (twice,) = view.status().held_twice
        assert twice == "rdma 0 VF 0000:10:00.1 has 2 holders: default/a/c, default/b/c (chosen by others)"
        assert f"devices: {twice}" in view.status().warnings
        (count,) = [each.value for each in view.samples() if each.metric is catalog.DEVICES_HELD_TWICE]
        assert count == 1


async def test_two_functions_of_one_nic_have_a_holder_each() -> None:
    async with opened(InventorySite()) as site:
        vf = devices("example.com/vf", "0000:10:00.2")
        site.ask_kubelet(told_pod("a", {}), told_pod("b", {"c": [vf]}))
        for name, asks in (("a", ASKS), ("b", {})):
            await site.run(name, OWNS, **asks)
        assert NodeView(site.node, name="n").status().held_twice == ()


async def test_a_gpu_that_a_plugin_lets_containers_share_has_as_many_holders_as_it_likes() -> None:
    async with opened(InventorySite()) as site:
        replicas = {name: devices("nvidia.com/gpu.shared", f"GPU-0::{n}") for n, name in enumerate("ab")}
        site.ask_kubelet(*(told_pod(name, {"c": [each]}) for name, each in replicas.items()))
        for name in replicas:
            await site.run(name, OWNS)
        assert NodeView(site.node, name="n").status().held_twice == ()
        third = await site.run("c", OWNS, **ASKS)
        assert held(site, third.container_id("c"))[0] == "gpu 1"


async def test_a_gpu_of_which_the_kubelet_gives_a_part_is_given_to_nobody_else() -> None:
    """A MIG device is named by CDI; its place is that of its GPU."""
    async with opened(InventorySite()) as site:
        spec = PodSpec("a", (OWNS,))
        request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        request.config.CDI_devices.add(name="nvidia.com/gpu=0:1")
        made = await site.kubelet.create_as(request)
        await site.kubelet.start(made)
        assert held(site, made) == ["gpu 0 part 0:1"]
        second = await site.run("b", OWNS, **ASKS)
        assert held(site, second.container_id("c"))[0] == "gpu 1"
        view = NodeView(site.node, name="n").status()
        assert [(each.free, [h.vf for h in each.holders]) for each in view.inventory if each.type == "gpu"] == [
            (0, ["0:1"]),
            (0, [""]),
        ]
        with pytest.raises(CallFailed, match=r"parts of it \(MIG\) are in use: 0:1"):
            await site.run("c", OWNS, **ASKS)
        await site.open()
        assert held(site, made) == ["gpu 0 part 0:1"]


async def counted_backwards(names: Sequence[str]) -> Proofs:
    """Prove by the specifications of a driver that counts the two GPUs the other way round."""
    return {name: [proved([f"GPU-{1 - int(name[-1])}"])] for name in names}


async def test_a_gpu_that_the_kubelet_names_by_a_number_is_the_one_that_its_specification_proves() -> None:
    async with opened(InventorySite()) as site:
        site.claims = ClaimSources(proofs_of=counted_backwards)
        site.interceptor.use_reader(replace(site.interceptor._reader, proofs_of=counted_backwards))
        spec = PodSpec("a", (OWNS,))
        request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        request.config.CDI_devices.add(name="nvidia.com/gpu=0")
        made = await site.kubelet.create_as(request)
        await site.kubelet.start(made)
        assert held(site, made) == ["gpu 1"]
        assert held(site, (await site.run("b", OWNS, **ASKS)).container_id("c"))[0] == "gpu 0"
        await site.open()
        assert held(site, made) == ["gpu 1"]


@pytest.mark.parametrize(("namespace", "holds"), [("default", ["gpu 1"]), ("kube-system", [])])
async def test_what_monitoring_claims_it_does_not_hold(namespace: str, holds: list[str]) -> None:
    """A claim with adminAccess is for devices that others use, and the kubelet does not tell which claims are."""
    name = "nvidia.com/gpu=0"
    told = told_pod("a", {"c": []})
    told.namespace = namespace
    claim = told.containers[0].dynamic_resources.add()
    claim.claim_resources.add(device_name="gpu-1").cdi_devices.add(name=name)
    async with opened(InventorySite()) as site:
        site.ask_kubelet(told)
        site.interceptor.use_reader(replace(site.interceptor._reader, proofs_of=counted_backwards))
        spec = PodSpec("a", (OWNS,), namespace=namespace)
        request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        request.config.CDI_devices.add(name=name)
        made = await site.kubelet.create_as(request)
        await site.kubelet.start(made)
        assert held(site, made) == holds

        async def told_of(_: Request) -> ToldDevices:
            return told_devices(told, "c", NodeSet.of([0, 1]))

        site.claims, site.store = ClaimSources(told_of=told_of, proofs_of=counted_backwards), MemoryStore()
        site.runtime.node.containers[made].config.annotations.clear()  # as of one from before cri-proxy
        await site.open()
        assert held(site, made) == holds


async def test_a_device_of_which_a_plugin_names_the_node_alone_goes_to_no_pod_that_asks_by_annotation() -> None:
    """As Habana's does, whose ids are serial numbers. It may give one GPU to several, which is its own matter."""
    async with opened(InventorySite()) as site:
        site.interceptor.use_reader(replace(site.interceptor._reader, proofs_of=counted_backwards))
        made = []
        for name in ("a", "b"):
            spec = PodSpec(name, (OWNS,))
            request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
            request.config.devices.add(host_path="/dev/accel/accel0", container_path="/dev/accel/accel0")
            made.append(await site.kubelet.create_as(request))
            await site.kubelet.start(made[-1])
        assert [held(site, each) for each in made] == [["gpu 1"], ["gpu 1"]]
        assert NodeView(site.node, name="n").status().held_twice == ()
        assert held(site, (await site.run("c", OWNS, **ASKS)).container_id("c"))[0] == "gpu 0"
        with pytest.raises(CallFailed, match=r"gpu 0-1: in use"):
            await site.run("d", OWNS, **ASKS)


async def test_a_container_is_given_the_number_that_is_proved_to_be_its_gpu() -> None:
    async def declared(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in ("nvidia.com/gpu=0", "nvidia.com/gpu=1"))

    async with opened(InventorySite()) as site:
        reader = replace(site.interceptor._reader, proofs_of=counted_backwards, cdi=ScriptedCdi(declared))
        site.interceptor.use_reader(reader)
        pod = await site.run("a", OWNS, **{"cri-proxy.io/device-resources": "nvidia.com/gpu=1"})
        assert held(site, pod.container_id("c")) == ["gpu 0"]
        config = site.runtime.node.containers[pod.container_id("c")].config
        assert [device.name for device in config.CDI_devices] == ["nvidia.com/gpu=1"]


@pytest.mark.parametrize("told", ["by the runtime", "by the kubelet"])
async def test_a_gpu_from_before_the_proxy_is_the_one_that_its_specification_proves(told: str) -> None:
    """CRI-O keeps no names; the kubelet tells those of claims."""
    names = {"by the kubelet": (("nvidia.com/gpu=0", "podresapi:gpu.nvidia.com/n/gpu-0"),)}.get(told, ())

    async def told_of(asked: Request) -> ToldDevices:
        return ToldDevices(cdi=names if asked.pod.name == "a" else (), is_known=True)

    async with opened(InventorySite()) as site:
        site.claims = ClaimSources(told_of=told_of, proofs_of=counted_backwards)
        spec = PodSpec("a", (OWNS,))
        asked = create_request(spec, OWNS, await direct(site).run_sandbox(spec), node=site.kubelet.node)
        if not names:
            asked.config.CDI_devices.add(name="nvidia.com/gpu=0")
        await direct(site).start(await direct(site).create_as(asked))
        await site.open()
        assert held(site, (await site.run("b", OWNS, **ASKS)).container_id("c"))[0] == "gpu 0"


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


@pytest.mark.parametrize(
    ("resource", "ids", "annotations", "sources"),
    [
        ("cri-proxy.io/gpu", ("gpu-1",), {"gpu": "1"}, ["gpu/1"]),
        ("cri-proxy.io/rdma", ("0000:20:00.1",), {"rdma": "1@0000:20:00.1"}, ["rdma/1"]),
        ("cri-proxy.io/rdma", ("rdma-1-share-0", "rdma-1-share-1"), {"rdma": "1:50"}, ["rdma/1"]),
        ("nvidia.com/gpu", ("GPU-1",), {}, ["gpu/1"]),
        ("example.com/fpga", ("f1",), {}, ["podresapi:example.com/fpga/f1"]),
    ],
)
async def test_a_device_of_a_plugin_is_near_its_container_by_one_name(
    resource: str, ids: tuple[str, ...], annotations: dict[str, str], sources: list[str]
) -> None:
    async with opened(InventorySite()) as site:
        site.ask_kubelet(told_pod("a", {"c": [devices(resource, *ids, nodes=(1,))]}))
        reader = site.interceptor._reader

        async def localities_of(_: pb.ContainerConfig, told: ToldDevices) -> list[DeviceLocality]:
            return [group.place for group in told.places]

        site.interceptor.use_reader(replace(reader, localities_of=localities_of))
        spec = PodSpec("a", (OWNS,))
        asked = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        asked.config.annotations.update({f"allocated.cri-proxy.io/{kind}": word for kind, word in annotations.items()})
        row = site.row(await site.kubelet.create_as(asked))
        assert [hint.source for hint in row.grant.request.localities] == sources
        assert row.grant.owned <= site.policy.machine.nodes[1].cpus


async def test_a_gpu_is_chosen_beside_a_nic_that_the_kubelet_alone_knows() -> None:
    async with opened(InventorySite()) as site:
        site.ask_kubelet(told_pod("a", {"c": [devices("example.com/nic", "eth1", nodes=(1,))]}))

        async def localities_of(_: pb.ContainerConfig, told: ToldDevices) -> list[DeviceLocality]:
            return [group.place for group in told.places]

        site.interceptor.use_reader(replace(site.interceptor._reader, localities_of=localities_of))
        pod = await site.run("a", OWNS, **{"cri-proxy.io/device-resources": "nvidia.com/gpu=1"})
        assert held(site, pod.container_id("c")) == ["gpu 1"]
