"""A restart of the daemon while the runtime starts containers: the next process cannot know which."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cri_proxy.cri_client.pods import PodSpec
from cri_proxy.errors import CallFailed
from cri_proxy.node.barrier import CLEAR_SECONDS
from cri_proxy.node.sync.reconcile import START_WITHIN_SECONDS
from cri_proxy.node.sync.start_outcomes import PRESUMED_SECONDS
from sysfs.cpuset import CpuSet
from tests.fakes.lone_loop import LoneLoop
from tests.fakes.site import Site
from tests.fakes.store import MemoryStore
from tests.unit.cri_proxy.node.stage import (
    BUSY,
    OWNS_2,
    SHARES,
    background,
    created,
    given_up,
    hanging,
    holders,
    is_alone,
    now,
    on_loop_time,
    owned,
)

SOON_SECONDS = 0.5


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = await on_loop_time()
    await site.run("busy", BUSY)
    yield site
    assert site.log.errors == []


async def restarted(site: Site) -> None:
    """A new process on what the one before it has saved."""
    saved = site.store.load()
    await site.node.close()
    site.store = MemoryStore()
    await site.store.save([*saved.rows, *saved.sandboxes])
    await site.open()


@pytest.mark.parametrize("restarts", [1, 2])
async def test_after_restarts_too_the_cpus_of_a_start_that_hangs_are_nobodys(site: Site, restarts: int) -> None:
    """What it was sent since counts for nothing: runc takes updates during a start, and the kernel never sees them."""
    sharer, gate, start = await hanging(site)
    await given_up(start)
    await restarted(site)
    owner = await created(site, "a", OWNS_2)
    await site.node.settle()
    for _ in range(restarts - 1):
        await restarted(site)
    begun = now()
    await site.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    assert site.runtime.node.containers[sharer].running
    assert is_alone(site, owner)
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    assert CpuSet.parse(site.cpus(sharer)).isdisjoint(owned(site, owner))
    assert sharer not in site.node.context.ledger.starts
    assert site.row(sharer).unconfirmed is None


async def test_what_had_not_run_before_a_restart_is_updated_and_started_at_once(site: Site) -> None:
    sharer = await created(site, "s", SHARES)
    await restarted(site)
    owner = await created(site, "a", OWNS_2)
    await site.node.settle()
    assert site.runtime.node.containers[sharer].record.cpuset_cpus == "3"
    assert len(site.runtime.updates) == 1
    begun = now()
    await site.kubelet.start(sharer)
    await site.kubelet.start(owner)
    assert now() - begun < SOON_SECONDS
    assert (site.cpus(sharer), is_alone(site, owner)) == ("3", True)
    await site.node.settle()
    assert site.row(sharer).unconfirmed is None


async def test_a_start_waits_until_one_from_before_a_restart_is_known_to_be_off_its_cpus(site: Site) -> None:
    sharer = await created(site, "s", SHARES)
    await restarted(site)
    owner = await created(site, "a", OWNS_2)
    start, cpus = background(site.kubelet.start(owner)), owned(site, owner)
    await asyncio.sleep(CLEAR_SECONDS - 1)
    assert not site.runtime.node.containers[owner].running
    await site.kubelet.start(sharer)
    await start
    assert (owned(site, owner), is_alone(site, owner)) == (cpus, True)


async def test_a_start_does_not_wait_for_one_from_before_a_restart_that_was_never_on_its_cpus(site: Site) -> None:
    """The sharer got these CPUs since, and the update that takes them back is enough."""
    sharer = await created(site, "s", SHARES)
    before = await site.run("a", OWNS_2)
    assert site.runtime.node.containers[sharer].record.cpuset_cpus == "3"
    await restarted(site)
    await site.kubelet.remove_pod(before.sandbox_id)
    await site.node.settle()
    assert site.runtime.node.containers[sharer].record.cpuset_cpus == "1-3"
    owner, begun = await created(site, "b", OWNS_2), now()
    await site.kubelet.start(owner)
    assert now() - begun < SOON_SECONDS
    assert str(owned(site, owner)) == "1-2"
    assert site.runtime.node.containers[sharer].record.cpuset_cpus == "3"


async def test_a_container_that_is_never_started_after_a_restart_keeps_cpus_for_a_while_once_replaced(
    site: Site,
) -> None:
    """It is in the runtime's list for as long as its pod: the kubelet keeps one dead container of each name."""
    old = await created(site, "s", SHARES)
    await restarted(site)
    starts = site.node.context.ledger.starts
    await asyncio.sleep(PRESUMED_SECONDS)
    await site.node.resync.check_all("slow check")
    assert old in starts
    await restarted(site)
    starts = site.node.context.ledger.starts
    spec = PodSpec("s", (SHARES,))
    await site.kubelet.start(await site.kubelet.create(spec, SHARES, site.row(old).sandbox_id, attempt=1))
    for seconds in (PRESUMED_SECONDS - 1, 1):
        await site.node.resync.check_all("slow check")
        assert old in starts
        await asyncio.sleep(seconds)
    await site.node.resync.check_all("slow check")
    assert old not in starts


async def test_a_start_that_hangs_for_long_is_on_no_cpu_of_others_after_a_restart_that_takes_its_place(
    site: Site,
) -> None:
    """No kubelet waits for it any more, so it holds nothing; the runtime may carry it out all the same."""
    late, gate, start = await hanging(site)
    await given_up(start)
    await asyncio.sleep(START_WITHIN_SECONDS)
    await restarted(site)
    assert late not in holders(site)
    owner = await created(site, "a", OWNS_2)
    await site.kubelet.start(owner)
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    assert site.runtime.node.containers[late].running
    assert is_alone(site, owner)
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    assert (late in holders(site), is_alone(site, owner)) == (True, True)


async def test_while_the_runtime_refuses_a_start_after_a_restart_the_one_before_it_may_still_come(site: Site) -> None:
    sharer, gate, start = await hanging(site)
    await given_up(start)
    await restarted(site)
    with pytest.raises(CallFailed, match="starting state"):
        await site.kubelet.start(sharer)
    owner = await created(site, "a", OWNS_2)
    await site.kubelet.start(owner)
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    assert site.runtime.node.containers[sharer].running
    assert is_alone(site, owner)
