"""Which devices of a pod's ``device-allocated`` count, and whose word that has to be."""

from dataclasses import replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.read import without_effect
from cri_proxy.cri.annotations.rules import Restriction
from cri_proxy.errors import CallFailed
from cri_proxy.state.memory_store import MemoryStore
from policies.devices import DEVICE_ALLOCATED
from tests.fakes.site import opened
from tests.unit.cri_proxy.intercept.inventory_site import OWNS, InventorySite, held, variables

ASKS = {"cri-proxy.io/device-resources": "nvidia.com/gpu=1"}
SECOND = {DEVICE_ALLOCATED: '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"100"}}]}'}


def rules(site: InventorySite, config: Config) -> None:
    site.interceptor.use_reader(replace(site.interceptor._reader, config=config))


async def test_what_koordinator_has_chosen_is_what_the_container_gets_over_restarts() -> None:
    async with opened(InventorySite()) as site:
        pod = await site.run("a", OWNS, **ASKS, **SECOND)
        assert held(site, pod.container_id("c")) == ["gpu 1"]
        assert variables(site, pod)["CRI_PROXY_ALLOCATED_GPU"] == "1"
        await site.open()
        site.store = MemoryStore()
        await site.open()
        assert held(site, pod.container_id("c")) == ["gpu 1"]


async def test_it_takes_nothing_that_the_container_does_not_ask_for() -> None:
    async with opened(InventorySite()) as site:
        both = {DEVICE_ALLOCATED: '{"gpu":[{"minor":0},{"minor":1}],"rdma":[{"minor":0}]}'}
        assert held(site, (await site.run("a", OWNS, **both)).container_id("c")) == []
        assert held(site, (await site.run("b", OWNS, **ASKS, **both)).container_id("c")) == ["gpu 0"]


async def test_a_device_that_another_pod_has_is_refused_with_both_sides() -> None:
    async with opened(InventorySite()) as site:
        await site.run("a", OWNS, **ASKS, **SECOND)
        with pytest.raises(CallFailed, match=r"not one of those of .*device-allocated; 1: in use.* by default/a/c"):
            await site.run("b", OWNS, **ASKS, **SECOND)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (Config(claims="ignore"), "gpu 0"),
        (Config(restricted_annotations=(Restriction((DEVICE_ALLOCATED,), ()),)), "gpu 0"),
        (Config(restricted_annotations=(Restriction((DEVICE_ALLOCATED,), ("default",)),)), "gpu 1"),
    ],
    ids=["ignored", "restricted", "admitted"],
)
async def test_it_counts_where_the_operator_lets_it(config: Config, found: str) -> None:
    async with opened(InventorySite()) as site:
        rules(site, config)
        assert held(site, (await site.run("a", OWNS, **ASKS, **SECOND)).container_id("c")) == [found]


@pytest.mark.parametrize(
    "text", ['{"gpu": 1}', '{"gpu": [{"minor": 1, "x": "' + "y" * (16 << 10) + '"}]}'], ids=["wrong", "long"]
)
async def test_one_that_cannot_be_read_is_told_and_the_container_placed_without_it(text: str) -> None:
    async with opened(InventorySite()) as site:
        pod = await site.run("a", OWNS, **ASKS, **{DEVICE_ALLOCATED: text})
        assert held(site, pod.container_id("c")) == ["gpu 0"]
        record = site.journal.records.get(site.row(pod.container_id("c")).key)
        assert record is not None and DEVICE_ALLOCATED in str(record.problems)
        assert text not in str(site.row(pod.container_id("c")))
        assert without_effect(site.row(pod.container_id("c")).grant.request.origins) == ()
