"""One node put together: its life from recovery to close."""

import asyncio

from cri_proxy.errors import StoreError
from cri_proxy.state.rows import Saved
from cri_proxy.tryout.pods import guaranteed
from tests.fakes.clock import ManualClock
from tests.fakes.grants import small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import FragilePolicy, background, play, soon


def test_a_store_that_cannot_be_read_is_as_one_that_was_lost() -> None:
    async def act(site: Site) -> None:
        a = await site.run("a", guaranteed("c", 2000))
        before = site.recorded()

        def fail() -> Saved:
            raise StoreError("state.db", "input/output error")

        site.store.load = fail  # type: ignore[method-assign]
        await site.open()
        assert site.recorded() == before
        assert site.node.context.ledger.holder(a.container_id("c")) is not None

    play(act)


def test_a_fault_in_recovery_is_reported_and_tried_again() -> None:
    async def run() -> None:
        policy = FragilePolicy(small_policy())
        site = Site(policy)
        policy.broken.add("reinstate")
        opening = background(site.open())
        await soon(lambda: len(site.log.errors) >= 2)
        assert not site.node.coordinator.is_ready
        policy.broken.clear()
        await opening
        assert site.node.coordinator.is_ready

    asyncio.run(run())


def test_closing_ends_what_runs_and_keeps_what_was_saved() -> None:
    async def act(site: Site) -> None:
        site.clock = ManualClock()  # type: ignore[assignment]  # the same protocol
        await site.open()
        site.node.start_watching()
        await site.run("a", guaranteed("c", 2000))
        rows = site.store.load().rows
        await site.node.close()
        assert (len(site.node.background), len(site.node.context.tasks), len(rows)) == (0, 0, 1)

    play(act)


def test_a_sandbox_is_remembered_until_it_is_removed() -> None:
    async def act(site: Site) -> None:
        a = await site.run("a", guaranteed("c", 2000))
        await site.node.settle()
        assert [s.sandbox_id for s in site.store.load().sandboxes] == [a.sandbox_id]
        await site.kubelet.remove_pod(a.sandbox_id)
        await site.node.settle()
        assert site.store.load() == Saved()

    play(act)
