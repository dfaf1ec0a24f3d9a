import asyncio
from dataclasses import replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import StoreError
from cri_proxy.node.node import POLL_SECONDS
from cri_proxy.state.memory_store import MemoryStore
from cri_proxy.state.rows import Saved
from policies.base import Pinning
from tests.fakes.clock import ManualClock
from tests.fakes.embedded_calls import Calls
from tests.fakes.grants import small_policy
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import (
    OWNS_2,
    SHARES,
    FragilePolicy,
    background,
    direct,
    entered,
    holders,
    owned,
    soon,
)

LEAVE = Config(adopt="leave")


async def fill(site: Site) -> tuple[str, str]:
    """A container that shares 6-7 and one that owns 4-5."""
    shares = await site.run("s", SHARES)
    owns = await site.run("a", OWNS_2)
    return shares.container_id("c"), owns.container_id("c")


@pytest.mark.parametrize("lost", [False, True], ids=["store kept", "store lost"])
async def test_a_restart_sends_nothing_and_changes_nothing(lost: bool, site: Site) -> None:
    ids = await fill(site)
    before, calls = site.recorded(), len(site.runtime.updates)
    if lost:
        site.store = MemoryStore()
    await site.open()
    assert (site.recorded(), len(site.runtime.updates)) == (before, calls)
    assert str(owned(site, ids[1])) == "1-2"


@pytest.mark.parametrize("lost", [False, True], ids=["store kept", "store lost"])
async def test_containers_that_share_their_pods_cpus_do_so_after_a_restart(lost: bool, site: Site) -> None:
    """The first one's annotation was written before another came."""
    amounts = pods.PodAmounts(3000, 3000, 64 << 20, 64 << 20)
    containers = (ContainerSpec("a"), ContainerSpec("b"), guaranteed("own", 1000, memory_bytes=1 << 20))
    await site.run_spec(pods.PodSpec("p", containers, amounts=amounts))
    before, calls = site.recorded(), len(site.runtime.updates)
    sharing = [row.grant for row in site.node.context.ledger.active() if row.grant.shares_cpus]
    if lost:
        site.store = MemoryStore()
    await site.open()
    again = [row.grant for row in site.node.context.ledger.active() if row.grant.shares_cpus]
    assert (site.recorded(), len(site.runtime.updates)) == (before, calls)
    assert [(g.owned, g.booked_for_mcpu) for g in again] == [(g.owned, g.booked_for_mcpu) for g in sharing]
    assert [len(grant.owned) for grant in again] == [2, 2]


@pytest.mark.parametrize("modern", [True, False])
async def test_a_resized_container_is_rebuilt_with_all_that_it_has(modern: bool) -> None:
    """Its annotation tells what it had when it was created."""
    async with opened(Site(modern=modern)) as site:
        a = await site.run("a", OWNS_2)
        await site.kubelet.update(a.container_id("c"), pods.resources(a.spec, guaranteed("c", 3000), site.kubelet.node))
        before = site.recorded()
        site.store = MemoryStore()
        await site.open()
        assert (site.recorded(), len(owned(site, a.container_id("c")))) == (before, 3)


@pytest.mark.parametrize("text", ["", "{", '{"v": 1}', '{"v": 99}'])
async def test_without_a_grant_that_can_be_read_a_container_is_placed_anew(text: str, site: Site) -> None:
    _, owner = await fill(site)
    site.runtime.node.containers[owner].config.annotations[GRANT_KEY] = text
    site.store = MemoryStore()
    await site.open()
    assert len(owned(site, owner)) == 2
    assert site.cpus(owner) == str(owned(site, owner))


async def test_a_grant_that_the_live_cpuset_does_not_bear_out_is_placed_anew(site: Site) -> None:
    """As after ``reset``: the annotation still names CPUs, the container is on others."""
    _, owner = await fill(site)
    await Calls(site.runtime).update(owner, cpuset_cpus="1", cpuset_mems="0")
    site.store = MemoryStore()
    await site.open()
    assert len(owned(site, owner)) == 2


async def test_rows_of_a_node_that_was_rebooted_are_dropped(site: Site) -> None:
    await fill(site)
    site.runtime.node.containers.clear()
    site.runtime.node.sandboxes.clear()
    await site.open()
    assert site.store.load() == Saved()


async def test_what_is_left_alone_keeps_its_own_cpus_to_itself_until_it_ends() -> None:
    async with opened(Site(rules=LEAVE)) as site:
        foreign = (await direct(site).run_pod(PodSpec("foreign", (SHARES,)))).container_id("c")
        await Calls(site.runtime).update(foreign, cpuset_cpus="4-7")
        await site.open()
        assert (holders(site), str(site.node.context.ledger.allocations.withheld)) == (set(), "4-7")
        site.runtime.exit(foreign)
        await site.node.resync.check_all("test")
        assert not site.node.context.ledger.allocations.withheld


async def test_recovery_waits_for_a_runtime_that_is_away(site: Site) -> None:
    ids = await fill(site)
    site.runtime.go_away()
    opening = background(site.open())
    await soon(lambda: site.clock.monotonic_seconds() > 1_000_010)
    assert not site.node.coordinator.is_ready
    site.runtime.come_back()
    await opening
    assert holders(site) == set(ids)


async def test_recovery_starts_over_when_the_runtime_goes_away_in_the_middle(site: Site) -> None:
    """Else half of the node would be unknown, and its CPUs would seem free."""
    ids = await fill(site)
    site.store = MemoryStore()
    gate = site.runtime.faults.block("ContainerStatus")
    opening = background(site.open())
    await entered(gate)
    site.runtime.restart()
    gate.release()
    await opening
    assert holders(site) == set(ids)


async def test_a_container_that_is_created_while_a_list_is_taken_is_not_released(site: Site) -> None:
    gate = site.runtime.faults.block("ListContainers")
    check = background(site.node.resync.check_all("test"))
    await entered(gate)
    a = await site.run("a", OWNS_2)
    gate.release()
    await check
    assert holders(site) == {a.container_id("c")}


async def test_a_stopped_container_that_never_ran_holds_nothing_after_the_next_check(site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,))
    await site.kubelet.stop(await site.kubelet.create(spec, OWNS_2, await site.kubelet.run_sandbox(spec)))
    await site.node.resync.check_all("test")
    assert holders(site) == set()


async def test_what_is_remembered_of_a_sandbox_that_was_removed_behind_our_back_is_forgotten(site: Site) -> None:
    a = await site.run("a", OWNS_2)
    await direct(site).remove_pod(a.sandbox_id)
    await site.node.resync.check_all("test")
    await site.node.settle()
    assert (list(site.node.context.ledger.rows()), site.store.load()) == ([], Saved())


async def test_an_exit_is_heard_of_by_the_runtimes_events(site: Site) -> None:
    site.clock = ManualClock()  # type: ignore[assignment]  # the same protocol
    await site.open()
    site.node.start_watching()
    a = await site.run("a", OWNS_2)
    await soon(lambda: site.runtime.listeners() == 1)
    site.runtime.exit(a.container_id("c"))
    await soon(lambda: holders(site) == set())
    await site.node.close()


async def test_a_fault_does_not_end_the_slow_check() -> None:
    policy, clock = FragilePolicy(small_policy()), ManualClock()
    site = Site(policy, modern=False)
    site.clock = clock  # type: ignore[assignment]  # the same protocol
    await site.open()
    site.node.start_watching()
    stranger = (await direct(site).run_pod(PodSpec("stranger", (SHARES,)))).container_id("c")
    policy.broken.add("reinstate")
    await soon(lambda: clock.waiting > 0)
    await clock.advance(POLL_SECONDS)
    await soon(lambda: bool(site.log.errors))
    policy.broken.clear()
    async with asyncio.timeout(20):
        while stranger not in holders(site):
            await clock.advance(POLL_SECONDS)
            await asyncio.sleep(0.01)
    await site.node.close()


async def test_a_store_that_failed_is_brought_up_to_date_by_the_slow_check() -> None:
    async with opened(Site(modern=False)) as site:
        site.clock = clock = ManualClock()  # type: ignore[assignment]  # the same protocol
        await site.open()
        site.node.start_watching()
        site.store.failure = StoreError("state.db", "disk full")
        a = await site.run("a", OWNS_2)
        site.store.failure = None
        await soon(lambda: clock.waiting > 0)
        await clock.advance(POLL_SECONDS)
        await soon(lambda: [r.container_id for r in site.store.load().rows] == [a.container_id("c")])
        await site.node.close()


async def test_a_row_without_a_known_pinning_is_asked_for_at_start(site: Site) -> None:
    _, owner = await fill(site)
    row = site.row(owner)
    await site.store.save([replace(row, acknowledged=None)])
    await site.open()
    assert site.row(owner).acknowledged == Pinning(row.grant.owned, row.grant.mems)
    assert site.node.effects.sent == 0
