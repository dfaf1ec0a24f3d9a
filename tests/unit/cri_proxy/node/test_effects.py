import asyncio
from dataclasses import replace

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.errors import RuntimeUnavailable
from cri_proxy.events import UPDATE_FAILED
from cri_proxy.node.coordinator import Refusal
from cri_proxy.node.effects import BACKOFF_SECONDS, NOT_FOUND, is_announced
from cri_proxy.node.node import POLL_SECONDS
from cri_proxy.state.rows import Row
from policies.base import Pinning, QosClass
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.clock import ManualClock
from tests.fakes.grants import row
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import BUSY, background, entered, soon

UPDATE = "UpdateContainerResources"
# With a memory limit: one without may use every node, and nothing of it ever narrows
SHARES = ContainerSpec("c", cpu_request_mcpu=500, memory_request_bytes=1 << 20, memory_limit_bytes=2 << 20)


@pytest.fixture
async def busy(site: Site) -> None:
    await site.run("busy", BUSY)


async def sharing(site: Site) -> Row:
    return site.row((await site.run("s", SHARES)).container_id("c"))


def sent(site: Site) -> list[tuple[str, str]]:
    return [(update.cpus, update.mems) for update in site.runtime.updates]


@pytest.mark.usefixtures("busy")
async def test_only_what_differs_is_sent(site: Site) -> None:
    await sharing(site)
    await site.run("a", guaranteed("c", 2000))
    assert sent(site) == [("3", "")]
    await site.node.effects.settle_all()
    assert len(sent(site)) == 1


@pytest.mark.usefixtures("busy")
async def test_an_update_of_our_own_sets_nothing_but_the_cpuset(site: Site) -> None:
    await sharing(site)
    await site.run("a", guaranteed("c", 2000))
    linux = pb.UpdateContainerResourcesRequest.FromString(site.runtime.updates[0].message).linux
    assert linux == pb.LinuxContainerResources(cpuset_cpus="3")


async def test_of_several_wishes_the_newest_goes_out(site: Site) -> None:
    row = await sharing(site)
    lock = site.node.effects.lock(row.key)
    await lock.acquire()
    runs = [background(site.run(f"owns {mcpu}", guaranteed("c", mcpu))) for mcpu in (2000, 3000, 1000)]
    await soon(lambda: len(list(site.node.context.ledger.active())) == 4)
    lock.release()
    await asyncio.gather(*runs)
    assert sent(site) == [("7", "")]


async def test_a_wish_that_is_withdrawn_in_time_causes_no_call(site: Site) -> None:
    row = await sharing(site)
    lock = site.node.effects.lock(row.key)
    await lock.acquire()
    ledger = site.node.context.ledger
    other = replace(row.grant.request, container=replace(row.key, name="x"), cpu_request_mcpu=2000)
    placed = await site.node.place(replace(other, pod=replace(other.pod, qos=QosClass.GUARANTEED)), "sandbox")
    assert not isinstance(placed, Refusal)
    site.node.effects.schedule()
    site.node.coordinator.roll_back(placed, "the runtime refused")
    lock.release()
    await site.node.settle()
    assert (sent(site), ledger.unsettled()) == ([], ())


@pytest.mark.usefixtures("busy")
async def test_without_an_answer_the_container_counts_as_being_on_both_sets(site: Site) -> None:
    row = await sharing(site)
    gate = site.runtime.faults.block(UPDATE)
    run = background(site.run("a", guaranteed("c", 2000)))
    await entered(gate)
    site.runtime.faults.abort(lambda: RuntimeUnavailable("", "gone"))
    await soon(lambda: site.node.context.ledger.unconfirmed(row.key).cpus is not None)
    known = site.row(row.container_id).acknowledged
    assert known is not None
    assert str(known.cpus) == "1-3"
    gate.release()
    await run
    assert site.cpus(row.container_id) == "3"


@pytest.mark.usefixtures("busy")
async def test_a_refused_update_is_in_doubt_as_well(site: Site) -> None:
    """runc writes one file after the other: a refusal is no proof that nothing happened."""
    row = await sharing(site)
    a = await site.run("a", guaranteed("c", 2000))
    site.runtime.faults.fail_next(UPDATE, 2, "half done", times=len(BACKOFF_SECONDS) + 1, after=True)
    await site.kubelet.remove_pod(a.sandbox_id)
    await site.node.settle()
    known = site.row(row.container_id).acknowledged
    assert known is not None
    assert str(known.cpus) == "1-3"
    assert site.node.context.ledger.unconfirmed(row.key).cpus == CpuSet.parse("1-3")
    site.log.errors.clear()


@pytest.mark.usefixtures("busy")
async def test_cpus_that_an_update_adds_are_saved_before_it_goes_out(site: Site) -> None:
    """Should the process die with the call under way, the next one knows where the container may be."""
    row = await sharing(site)
    a = await site.run("a", guaranteed("c", 2000))
    gate = site.runtime.faults.block(UPDATE)
    await site.kubelet.remove_pod(a.sandbox_id)
    await entered(gate)
    saved = {r.container_id: r.acknowledged for r in site.store.load().rows}[row.container_id]
    assert saved is not None
    assert str(saved.cpus) == "1-3"
    gate.release()
    await site.node.settle()


async def test_a_failed_update_is_retried_with_growing_pauses_then_counted(site: Site) -> None:
    row = await sharing(site)
    site.runtime.faults.fail_next(UPDATE, 2, "stuck", times=len(BACKOFF_SECONDS) + 1)
    began = site.clock.monotonic_seconds()
    site.node.context.ledger.mark_unconfirmed(row.key, Pinning(CpuSet.parse("4-7"), None))
    assert not await site.node.effects.settle(row.key)
    assert site.clock.monotonic_seconds() - began == pytest.approx(sum(BACKOFF_SECONDS))
    assert site.node.effects.failures[row.key] == "stuck"
    site.log.errors.clear()


def refuses_dead_tasks(site: Site, times: int) -> None:
    """As containerd does between the exit of a process and the deletion of its task."""
    words = "failed to update resources: failed to update resources: runc did not terminate successfully: exit status 1"
    site.runtime.faults.fail_next(UPDATE, 2, f"{words}: container not running\n: unknown", times=times)


@pytest.mark.parametrize(
    ("status", "refusals"),
    [
        pytest.param(None, 1, id="it has ended"),
        pytest.param((NOT_FOUND, "an error occurred when try to find container"), 1, id="it is gone"),
        pytest.param((4, "slow"), 2, id="the second look sees it"),
    ],
)
async def test_an_update_that_comes_after_the_end_of_its_container_is_no_failure(
    site: Site, status: tuple[int, str] | None, refusals: int
) -> None:
    """The exit falls between the decision and the update, and is not noted yet."""
    row = await sharing(site)
    site.runtime.node.on_event = None
    site.runtime.exit(row.container_id)
    refuses_dead_tasks(site, refusals)
    if status is not None:
        site.runtime.faults.fail_next("ContainerStatus", *status)
    site.node.context.ledger.mark_unconfirmed(row.key, Pinning(CpuSet.parse("4-7"), None))
    assert await site.node.effects.settle(row.key)
    assert (site.log.errors, site.row(row.container_id).state) == ([], "exited")
    assert site.runtime.calls[UPDATE] == refusals


@pytest.mark.parametrize("code", [None, 4])
async def test_the_refusal_of_a_container_that_may_be_alive_is_reported(site: Site, code: int | None) -> None:
    row, attempts = await sharing(site), len(BACKOFF_SECONDS) + 1
    refuses_dead_tasks(site, attempts)
    if code is not None:
        site.runtime.faults.fail_next("ContainerStatus", code, "slow", times=attempts)
    site.node.context.ledger.mark_unconfirmed(row.key, Pinning(CpuSet.parse("4-7"), None))
    assert not await site.node.effects.settle(row.key)
    (error,) = site.log.errors
    assert error.startswith(UPDATE_FAILED)
    site.log.errors.clear()


async def test_what_was_given_up_is_tried_again_by_the_slow_check(site: Site) -> None:
    row = await sharing(site)
    site.runtime.faults.fail_next(UPDATE, 2, "stuck", times=len(BACKOFF_SECONDS) + 1)
    site.node.context.ledger.mark_unconfirmed(row.key, Pinning(CpuSet.parse("4-7"), None))
    await site.node.effects.settle_all()
    site.node.effects.schedule()
    assert site.node.effects.failures.keys() == {row.key}
    site.node.effects.retry_failed()
    await site.node.settle()
    assert (site.node.effects.failures, sent(site)) == ({}, [("4-7", "")])
    site.log.errors.clear()


async def test_an_update_never_reaches_a_newer_attempt_that_has_no_id_yet(site: Site) -> None:
    row = await sharing(site)
    gate = site.runtime.faults.block(UPDATE)
    ledger = site.node.context.ledger
    ledger.mark_unconfirmed(row.key, Pinning(CpuSet.parse("4-7"), None))
    site.node.effects.schedule()
    await entered(gate)
    ledger.put(replace(row, container_id="", state="reserved", acknowledged=None))
    gate.release()
    await site.node.settle()
    assert [update.container_id for update in site.runtime.updates] == [row.container_id]


def move(site: Site, row: Row, mems: str, cpus: str = "4-7") -> None:
    """The container is known to be on these; its grant says CPUs 4-7 and node 1."""
    site.node.context.ledger.put(replace(row, acknowledged=Pinning(CpuSet.parse(cpus), NodeSet.parse(mems) or None)))


@pytest.mark.parametrize("known", ["0-1", "0", ""])
async def test_memory_of_a_running_container_is_narrowed_in_a_call_of_its_own(known: str, site: Site) -> None:
    """Without nodes on record it can use all of them, so naming some narrows."""
    row = await sharing(site)
    move(site, row, known, cpus="3-7")
    site.node.effects.schedule()
    await site.node.settle()
    assert sent(site) == [("4-7", ""), ("", "1")]


async def test_nobodys_start_waits_for_a_memory_move(site: Site) -> None:
    row = await sharing(site)
    move(site, row, "0-1")
    assert await site.node.effects.settle(row.key)
    assert sent(site) == []


def widen(site: Site, row: Row) -> None:
    """Its memory is to be widened from node 1 to both, and nothing else."""
    site.node.context.ledger.put(replace(row, grant=replace(row.grant, mems=NodeSet.parse("0-1"))))


async def test_memory_that_only_widens_moves_no_page_and_may_come_before_a_start(site: Site) -> None:
    row = await sharing(site)
    widen(site, row)
    assert await site.node.effects.settle(row.key)
    assert sent(site) == [("", "0-1")]


async def test_memory_that_only_widens_waits_for_no_move(site: Site) -> None:
    mover, other = await sharing(site), site.row((await site.run("t", SHARES)).container_id("c"))
    move(site, mover, "0-1", cpus=str(mover.acknowledged.cpus if mover.acknowledged else ""))
    gate = site.runtime.faults.block(UPDATE)
    site.node.effects.schedule()
    await entered(gate)
    widen(site, other)
    site.node.effects.schedule()
    await soon(lambda: gate.waiting == 2)
    gate.release()
    await site.node.settle()


async def test_of_a_memory_node_that_is_gone_nothing_is_left_to_move(site: Site) -> None:
    """The runtime writes what it has on record, and the kernel refuses a node that is not there: in one call."""
    row = await sharing(site)
    move(site, row, "1-5", cpus="3-7")
    site.node.effects.schedule()
    await site.node.settle()
    assert sent(site) == [("4-7", "1")]


async def test_a_memory_node_that_is_gone_leaves_the_record_though_memory_is_not_ours_to_write(site: Site) -> None:
    """``PinMemory`` was turned off since: without this every update of the CPUs would be refused for good."""
    row = await sharing(site)
    move(site, row, "1-5", cpus="3-7")
    ledger = site.node.context.ledger
    ledger.put(*(replace(r, grant=replace(r.grant, mems=NodeSet())) for r in ledger.active()))
    site.node.effects.schedule()
    await site.node.settle()
    assert sent(site) == [("4-7", "1")]


async def test_memory_moves_one_container_at_a_time_and_who_waits_holds_no_lock(site: Site) -> None:
    rows = [await sharing(site), site.row((await site.run("t", SHARES)).container_id("c"))]
    for each in rows:
        move(site, each, "0-1", cpus=str(each.acknowledged.cpus if each.acknowledged else ""))
    gate = site.runtime.faults.block(UPDATE)
    site.node.effects.schedule()
    await entered(gate)
    for _ in range(50):
        await asyncio.sleep(0)
    assert gate.waiting == 1
    assert [site.node.effects.lock(row.key).locked() for row in rows].count(True) == 1
    gate.release()
    await site.node.settle()
    assert len(sent(site)) == 2


async def test_a_lock_lives_as_long_as_somebody_uses_it(site: Site) -> None:
    row = await sharing(site)
    lock = site.node.effects.lock(row.key)
    await lock.acquire()
    site.node.coordinator.release(row, "test")
    assert site.node.effects.lock(row.key) is lock


async def test_the_slow_check_comes_every_half_minute(site: Site) -> None:
    clock = ManualClock()
    site.clock = clock  # type: ignore[assignment]  # the same protocol
    await site.open()
    site.node.start_watching()
    pod = await site.run("s", SHARES)
    await soon(lambda: clock.waiting > 0)
    site.runtime.faults.fail_next("GetContainerEvents", 12, "no events")
    site.runtime.node.on_event = None
    site.runtime.exit(pod.container_id("c"))
    assert len(list(site.node.context.ledger.active())) == 1
    await clock.advance(POLL_SECONDS)
    await soon(lambda: not list(site.node.context.ledger.active()))
    await site.node.close()


@pytest.mark.usefixtures("busy")
async def test_an_update_that_nobody_lived_to_see_answered_is_sent_again_by_the_next_process(site: Site) -> None:
    sharer = (await site.run("s", SHARES)).container_id("c")
    owner = await site.run("a", guaranteed("c", 2000))
    gate = site.runtime.faults.block(UPDATE)
    await site.kubelet.remove_pod(owner.sandbox_id)
    await entered(gate)
    await site.node.effects.close()  # the growth never reached the kernel
    site.runtime.faults.clear()
    assert site.cpus(sharer) == "3"
    await site.open()
    assert site.cpus(sharer) == "1-3"


@pytest.mark.usefixtures("busy")
async def test_a_shrink_is_noted_before_it_goes_out_as_well(site: Site) -> None:
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.block(UPDATE)
    start = background(site.run("a", guaranteed("c", 2000)))
    await entered(gate)
    unconfirmed = {saved.container_id: saved.unconfirmed for saved in site.store.load().rows}
    assert unconfirmed[sharer] == Pinning(CpuSet.parse("3"), None)
    gate.release()
    await start


def test_what_is_confirmed_or_doubted_already_needs_no_announcement() -> None:
    there = row("a", owned="1", acknowledged="1")
    assert is_announced(there, Pinning(CpuSet.parse("1"), None))
    assert not is_announced(there, Pinning(CpuSet.parse("2"), None))
    assert not is_announced(there, Pinning(None, NodeSet.parse("0")))
