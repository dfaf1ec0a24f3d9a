"""What becomes of the inventory's devices when containers are created, restarted, resized and removed."""

import errno
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.devices.pci_functions import FunctionsByAddress
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, create_request
from cri_proxy.errors import CallFailed
from cri_proxy.file_workers import PLAIN_THREADS, FilesFailed
from cri_proxy.intercept.container_devices import ContainerDevices
from cri_proxy.intercept.locality import LocalityLookup
from cri_proxy.node.reconfigure import use_devices
from cri_proxy.node.sync.claims import ClaimSources
from cri_proxy.state.decisions import DecisionRecord
from cri_proxy.state.memory_store import MemoryStore
from policies.base import Request
from policies.devices import EMPTY_INVENTORY
from tests.fakes.site import Site, opened
from tests.fakes.sriov_tree import TreeFunction, write_nics
from tests.unit.cri_proxy.intercept.inventory_site import ASKS, OWNS, InventorySite, config, held, variables
from tests.unit.cri_proxy.node.stage import direct
from tests.unit.policies.build import request

VF = "0000:10:00.1"
UNREADABLE = ("/etc/cdi/nvidia.yaml",)


async def all_declared(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not name.startswith("nvidia.com"))


async def hanging(names: Sequence[str]) -> tuple[str, ...]:
    raise FilesFailed("CDI specifications", "has not answered for 1 s")


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


async def test_it_is_told_how_its_function_is_bound_as_by_the_sr_iov_plugin(tmp_path: Path) -> None:
    """Device nodes come by CDI; applications look here for which of them is whose."""
    write_nics(tmp_path, TreeFunction(VF, "vfio-pci", group="12"))
    async with opened(InventorySite()) as site:
        lookup = LocalityLookup(tmp_path, PLAIN_THREADS)
        site.interceptor.use_reader(replace(site.interceptor._reader, functions_of=lookup.functions))
        envs = {env.key: env.value.decode() for env in config(site, await site.run("a", OWNS, **ASKS)).envs}
        assert envs["PCIDEVICE_KOORDINATOR_SH_RDMA"] == VF
        (found,) = json.loads(envs["PCIDEVICE_KOORDINATOR_SH_RDMA_INFO"]).values()
        assert found["vfio"] == {"dev-mount": "/dev/vfio/12", "mount": "/dev/vfio/vfio"}


@pytest.mark.parametrize(
    "error", [FilesFailed("PCI functions", "has not answered for 1 s"), OSError(errno.EIO, "Input/output error")]
)
async def test_where_sysfs_does_not_answer_it_is_told_the_address_alone(error: Exception) -> None:
    async def hanging(addresses: Sequence[str]) -> FunctionsByAddress:
        raise error

    async with opened(InventorySite()) as site:
        site.interceptor.use_reader(replace(site.interceptor._reader, functions_of=hanging))
        envs = {env.key: env.value.decode() for env in config(site, await site.run("a", OWNS, **ASKS)).envs}
        assert envs["PCIDEVICE_KOORDINATOR_SH_RDMA_INFO"] == f'{{"{VF}":{{"generic":{{"deviceID":"{VF}"}}}}}}'
        assert "devices_missing" in site.log.warnings


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
