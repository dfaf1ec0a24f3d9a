"""What becomes of the devices of a grant when its container is created, and afterwards."""

from collections.abc import Sequence
from dataclasses import replace

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.annotations.rules import Restriction
from cri_proxy.cri.grant_text import grant_parts_from_text
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.file_workers import FilesFailed
from cri_proxy.node.reconfigure import reconfigure
from cri_proxy.state.decisions import DecisionRecord
from cri_proxy.state.memory_store import MemoryStore
from policies.device_grants import cost_names
from tests.fakes.device_policy import listed, policy_with_devices
from tests.fakes.scripted_cdi import DeclaredOf, ScriptedCdi
from tests.fakes.site import Site, opened

OWNS = guaranteed("c", 1000)
ASKS = {"cri-proxy.io/device-request": "example.com/gpu=2"}
GPU0, GPU1, GPU2 = (f"example.com/gpu/gpu{i}" for i in range(3))


class DeviceSite(Site):
    """A site with three GPUs, the first two of which stand in a CDI specification."""

    def __init__(self, *, rules: Config | None = None) -> None:
        super().__init__(policy_with_devices(GPU0, GPU1, GPU2), rules=rules)

    async def declare(self, declared_of: DeclaredOf) -> None:
        self.interceptor.use_reader(replace(self.interceptor._reader, cdi=ScriptedCdi(declared_of)))


async def two_declared(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in ("example.com/gpu=gpu0", "example.com/gpu=gpu1"))


async def hanging(names: Sequence[str]) -> tuple[str, ...]:
    raise FilesFailed("CDI specifications", "has not answered for 1 s")


def config(site: Site, pod: RunningPod) -> pb.ContainerConfig:
    return site.runtime.node.containers[pod.container_id("c")].config


def variable(site: Site, pod: RunningPod) -> str:
    return next((env.value.decode() for env in config(site, pod).envs if env.key == "CRI_PROXY_DEVICES"), "")


def cdi(site: Site, pod: RunningPod) -> list[str]:
    return [device.name for device in config(site, pod).CDI_devices]


def devices(site: Site, pod: RunningPod) -> tuple[str, ...]:
    return cost_names(site.row(pod.container_id("c")).grant.devices)


def history(site: Site, pod: RunningPod) -> list[str]:
    record = site.journal.records.get(site.row(pod.container_id("c")).key)
    assert isinstance(record, DecisionRecord)
    return [entry.text for entry in record.history if entry.what == "devices"]


async def test_a_container_is_told_its_devices_and_gets_those_that_cdi_declares() -> None:
    async with opened(DeviceSite()) as site:
        await site.declare(two_declared)
        first, second = await site.run("a", OWNS, **ASKS), await site.run("b", OWNS, **one())
        assert (devices(site, first), devices(site, second)) == ((GPU0, GPU1), (GPU2,))
        assert (variable(site, first), variable(site, second)) == (f"{GPU0},{GPU1}", GPU2)
        assert cdi(site, first) == ["example.com/gpu=gpu0", "example.com/gpu=gpu1"]
        assert cdi(site, second) == []
        assert history(site, first) == ["added by CDI: example.com/gpu=gpu0, example.com/gpu=gpu1"]
        assert history(site, second) == ["1 in no CDI specification: named in its environment alone"]


def one() -> dict[str, str]:
    return {"cri-proxy.io/device-request": "example.com/gpu=1"}


async def test_files_that_hang_delay_no_container_and_are_reported() -> None:
    async with opened(DeviceSite()) as site:
        await site.declare(hanging)
        pod = await site.run("a", OWNS, **ASKS)
        assert (variable(site, pod), cdi(site, pod)) == (f"{GPU0},{GPU1}", [])
        assert history(site, pod) == ["not added by CDI: CDI specifications: has not answered for 1 s"]
        assert "devices_missing" in site.log.warnings


async def test_a_container_that_asks_for_none_is_not_looked_up() -> None:
    async with opened(DeviceSite()) as site:
        await site.declare(hanging)
        pod = await site.run("a", OWNS)
        assert (variable(site, pod), history(site, pod), site.log.warnings) == ("", [], [])


async def test_devices_are_kept_through_a_restart_and_by_the_next_container() -> None:
    async with opened(DeviceSite()) as site:
        await site.run("other", OWNS, **one())
        pod = await site.run("a", OWNS, **ASKS)
        await site.open()
        assert devices(site, pod) == (GPU1, GPU2)
        await site.kubelet.stop(pod.container_id("c"))
        again = await site.kubelet.create(pod.spec, OWNS, pod.sandbox_id, attempt=1)
        await site.kubelet.start(again)
        await site.node.settle()
        assert cost_names(site.row(again).grant.devices) == (GPU1, GPU2)


async def test_devices_are_found_again_in_the_runtime_when_the_store_is_lost() -> None:
    async with opened(DeviceSite()) as site:
        await site.run("other", OWNS, **one())
        pod = await site.run("a", OWNS, **ASKS)
        assert grant_parts_from_text(config(site, pod).annotations[GRANT_KEY]).devices == listed(GPU1, GPU2)
        site.store = MemoryStore()
        await site.open()
        assert devices(site, pod) == (GPU1, GPU2)


async def test_a_namespace_that_may_not_ask_gets_none_and_what_runs_keeps_its_own() -> None:
    """A process has its devices open, so they come back only with the container."""
    restricted = Config(restricted_annotations=(Restriction(("device-request",), ("ml",)),))
    async with opened(DeviceSite()) as site:
        pod = await site.run("a", OWNS, **ASKS)
        assert await reconfigure(site.node, site.policy, restricted) == ""
        assert devices(site, pod) == (GPU0, GPU1)
    async with opened(DeviceSite(rules=restricted)) as site:
        outside = await site.run("a", OWNS, namespace="shop", **ASKS)
        inside = await site.run("b", OWNS, namespace="ml", **ASKS)
        assert (devices(site, outside), devices(site, inside)) == ((), (GPU0, GPU1))
