import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from cri_proxy.cri_client.pods import guaranteed
from policies.base import Allocations, ContainerKey, Decision, Grant, Placed, Request
from sysfs.cpuset import NodeSet
from tests.fakes.grants import small_policy
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import FragilePolicy, background, soon

SLOW, BOTH = NodeSet.parse("1"), NodeSet.parse("0-1")
LASTS_SECONDS = 90


class Cold(FragilePolicy):
    """A policy under which every container starts cold, on memory node 1."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        cold = replace(request, preferences=replace(request.preferences, cold_start_seconds=LASTS_SECONDS))
        decision = super().decide(held, cold)
        if not isinstance(decision, Placed):
            return decision
        grant = replace(decision.grant, mems=SLOW, is_cold=True)
        return replace(decision, grant=grant, pinning=replace(decision.pinning, mems=SLOW))

    def after_cold_start(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
        grant = held.get(container)
        return (replace(grant, mems=BOTH, is_cold=False),) if grant is not None else ()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with opened(Site(Cold(small_policy()))) as site:
        yield site


async def started(site: Site) -> str:
    return (await site.run("a", guaranteed("c", 1000))).container_id("c")


def mems(site: Site, container_id: str) -> str:
    return site.recorded()[container_id][1]


async def test_its_end_is_saved_when_the_runtime_confirms_the_start(site: Site) -> None:
    container_id = await started(site)
    (saved,) = site.store.load().rows
    assert saved.warm_at_seconds == site.clock.now_seconds() + LASTS_SECONDS
    assert mems(site, container_id) == "1"


async def test_until_then_nothing_changes(site: Site) -> None:
    container_id = await started(site)
    await site.clock.sleep(LASTS_SECONDS - 1)
    assert site.node.cold_starts.end_due()
    await site.node.settle()
    assert mems(site, container_id) == "1"


async def test_when_its_time_is_over_the_container_gets_the_other_memory_too(site: Site) -> None:
    container_id = await started(site)
    await site.clock.sleep(LASTS_SECONDS)
    assert not site.node.cold_starts.end_due()
    await site.node.settle()
    assert mems(site, container_id) == "0-1"
    assert [row.grant.is_cold for row in site.store.load().rows] == [False]


async def test_it_ends_at_the_same_moment_after_a_restart_of_the_proxy(site: Site) -> None:
    container_id = await started(site)
    await site.clock.sleep(LASTS_SECONDS - 10)
    await site.open()
    await site.clock.sleep(10)
    site.node.cold_starts.look()
    await site.node.settle()
    assert mems(site, container_id) == "0-1"


async def test_a_start_that_nobody_heard_of_counts_from_when_it_is_seen(site: Site) -> None:
    container_id = await started(site)
    site.node.context.ledger.put(replace(site.row(container_id), warm_at_seconds=None))
    site.node.cold_starts.end_due()
    assert site.row(container_id).warm_at_seconds == site.clock.now_seconds() + LASTS_SECONDS


async def test_a_clock_that_is_set_back_does_not_make_it_last_for_ever(site: Site) -> None:
    container = await started(site)
    site.node.cold_starts.look()
    site.clock._now -= 500_000.0
    site.node.cold_starts.look()
    await site.clock.sleep(LASTS_SECONDS)
    site.node.cold_starts.look()
    await site.node.settle()
    assert mems(site, container) == str(BOTH)


async def test_a_container_with_a_call_under_way_waits(site: Site) -> None:
    container_id = await started(site)
    await site.clock.sleep(LASTS_SECONDS)
    async with site.node.effects.lock(site.row(container_id).key):
        assert site.node.cold_starts.end_due()
    assert not site.node.cold_starts.end_due()


async def test_a_policy_that_knows_no_cold_starts_ends_them_too() -> None:
    class Forgetful(Cold):
        def after_cold_start(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
            return ()

    site = Site(Forgetful(small_policy()))
    await site.open()
    container_id = await started(site)
    await site.clock.sleep(LASTS_SECONDS)
    assert not site.node.cold_starts.end_due()
    assert (site.row(container_id).grant.is_cold, mems(site, container_id)) == (False, "1")


async def test_the_timer_sleeps_until_there_is_a_cold_start(site: Site) -> None:
    before = site.clock.now_seconds()
    watch = background(site.node.cold_starts.watch())
    await soon(lambda: True)
    for _ in range(20):
        await asyncio.sleep(0)
    assert site.clock.now_seconds() == before
    container_id = await started(site)
    await soon(lambda: not site.row(container_id).grant.is_cold)
    assert site.clock.now_seconds() - before >= LASTS_SECONDS
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
