import asyncio
from collections.abc import Callable

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import BUSY, REJECT, background, entered, owned, soon

UPDATE = "UpdateContainerResources"
SHARES = ContainerSpec("c", cpu_request_mcpu=500)
OWNS_2 = guaranteed("c", 2000)


@pytest.fixture
async def busy(site: Site) -> None:
    await site.run("busy", BUSY)


def about(container_id: str) -> Callable[[bytes], bool]:
    return lambda message: pb.UpdateContainerResourcesRequest.FromString(message).container_id == container_id


async def created(site: Site, name: str, container: ContainerSpec) -> str:
    spec = PodSpec(name, (container,))
    return await site.kubelet.create(spec, container, await site.kubelet.run_sandbox(spec))


async def sharing(site: Site) -> str:
    return (await site.run("s", SHARES)).container_id("c")


def runs(site: Site, container_id: str) -> bool:
    return site.runtime.node.containers[container_id].running


@pytest.mark.usefixtures("busy")
async def test_a_start_is_held_until_the_shrinks_of_others_are_confirmed(site: Site) -> None:
    sharer = await sharing(site)
    gate = site.runtime.faults.block(UPDATE)
    owner = await created(site, "a", OWNS_2)
    start = background(site.kubelet.start(owner))
    await entered(gate)
    assert (site.cpus(sharer), runs(site, owner)) == ("1-3", False)
    gate.release()
    await start
    assert (site.cpus(sharer), site.cpus(owner), runs(site, owner)) == ("3", "1-2", True)


@pytest.mark.usefixtures("busy")
async def test_a_container_being_started_is_shrunk_after_its_reply_and_the_other_start_waits(site: Site) -> None:
    """runc takes an update meanwhile and the kernel never sees it."""
    sharer = await created(site, "s", SHARES)
    gate = site.runtime.faults.block("StartContainer")
    first = background(site.kubelet.start(sharer))
    await entered(gate)
    owner = await created(site, "a", OWNS_2)
    second = background(site.kubelet.start(owner))
    await soon(lambda: site.node.effects.lock(site.node.context.ledger.holder(sharer).key).locked())  # type: ignore[union-attr]
    assert (site.runtime.updates, gate.waiting) == ((), 1)
    gate.release()
    await asyncio.gather(first, second)
    assert (site.cpus(sharer), site.cpus(owner)) == ("3", "1-2")


@pytest.mark.usefixtures("busy")
async def test_the_containers_own_pinning_is_brought_up_to_date_before_it_starts(site: Site) -> None:
    gate = site.runtime.faults.block(UPDATE)
    sharer = await created(site, "s", SHARES)
    await created(site, "a", OWNS_2)
    start = background(site.kubelet.start(sharer))
    await entered(gate)
    assert not runs(site, sharer)
    gate.release()
    await start
    assert site.cpus(sharer) == "3"


async def test_two_starts_that_need_each_others_cpus_do_not_wait_in_a_circle(site: Site) -> None:
    sharers = [await created(site, name, SHARES) for name in ("s", "t")]
    owners = [await created(site, name, guaranteed("c", 1500)) for name in ("a", "b")]
    async with asyncio.timeout(20):
        await asyncio.gather(*(site.kubelet.start(c) for c in (*owners, *sharers)))
    assert owned(site, owners[0]).isdisjoint(owned(site, owners[1]))


@pytest.mark.usefixtures("busy")
async def test_a_shrink_that_fails_for_good_makes_the_start_choose_other_cpus(site: Site) -> None:
    sharer = await sharing(site)
    owner = await created(site, "a", OWNS_2)
    site.runtime.faults.fail_next(UPDATE, 2, "stuck", times=100, matches=about(sharer))
    await site.kubelet.start(owner)
    assert (site.cpus(sharer), site.cpus(owner)) == ("1-3", "4-5")
    site.log.errors.clear()  # update_failed


async def test_a_start_whose_cpus_cannot_be_cleared_is_refused_under_reject() -> None:
    async with opened(Site(rules=REJECT)) as site:
        await site.run("full", guaranteed("c", 4000))
        sharer = await sharing(site)
        owner = await created(site, "a", OWNS_2)
        site.runtime.faults.fail_next(UPDATE, 2, "stuck", times=100, matches=about(sharer))
        with pytest.raises(CallFailed, match=r"CPUs 1-2 of a/c could not be cleared: still in use by s/c on 1-3"):
            await site.kubelet.start(owner)
        assert not runs(site, owner)
        site.log.errors.clear()


async def test_under_passthrough_it_starts_all_the_same_and_the_violation_is_noted(site: Site) -> None:
    await site.run("full", guaranteed("c", 4000))
    sharer = await sharing(site)
    owner = await created(site, "a", OWNS_2)
    site.runtime.faults.fail_next(UPDATE, 2, "stuck", times=100, matches=about(sharer))
    await site.kubelet.start(owner)
    assert runs(site, owner)
    (told,) = site.log.errors[-1:]
    assert told.startswith("violation")
    site.log.errors.clear()


@pytest.mark.usefixtures("busy")
async def test_a_container_that_the_runtime_does_not_know_counts_as_moved(site: Site) -> None:
    sharer = await sharing(site)
    gate = site.runtime.faults.block(UPDATE)
    owner = await created(site, "a", OWNS_2)
    start = background(site.kubelet.start(owner))
    await entered(gate)
    del site.runtime.node.containers[sharer]
    gate.release()
    await start
    assert runs(site, owner)
    held = {row.container_id for row in site.node.context.ledger.active()}
    assert (owner in held, sharer in held) == (True, False)


@pytest.mark.usefixtures("busy")
async def test_a_cancelled_start_leaves_the_container_free_for_the_next_one(site: Site) -> None:
    await sharing(site)
    gate = site.runtime.faults.block(UPDATE)
    owner = await created(site, "a", OWNS_2)
    start = background(site.kubelet.start(owner))
    await entered(gate)
    start.cancel()
    await asyncio.wait([start])
    gate.release()
    async with asyncio.timeout(20):
        await site.kubelet.start(owner)


async def test_a_start_of_a_container_that_is_not_ours_is_not_held(site: Site) -> None:
    assert await site.node.barrier.before_start("unknown") is None


async def test_while_the_pinning_of_a_live_container_is_unknown_it_may_sit_anywhere(site: Site) -> None:
    ledger = site.node.context.ledger
    sharer = await sharing(site)
    owner = ledger.holder(await created(site, "a", OWNS_2))
    row = ledger.holder(sharer)
    assert row is not None
    assert owner is not None
    ledger.put(type(row)(row.grant, row.sandbox_id, sharer, "running", None, row.created_order))
    assert [r.container_id for r in ledger.occupants(owner)] == [sharer]
