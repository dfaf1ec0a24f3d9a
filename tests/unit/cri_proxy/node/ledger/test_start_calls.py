from dataclasses import replace

import pytest

from cri_proxy.node.ledger.start_calls import StartCall, StartCalls
from cri_proxy.state.rows import Row
from policies.base import Pinning
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.rows import confirmed_cpus
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import BUSY, OWNS_2, SHARES, created


async def sent(site: Site) -> tuple[Row, Row]:
    """A container that shares 1-3, whose start was sent, and one that is to own 1-2."""
    await site.run("busy", BUSY)
    sharer = site.row(await created(site, "s", SHARES))
    site.node.effects.start_sent(sharer)
    return sharer, site.row(await created(site, "a", OWNS_2))


async def test_during_its_start_nothing_may_be_written_for_a_container(site: Site) -> None:
    sharer, _ = await sent(site)
    ledger = site.node.context.ledger
    assert ledger.sendable(sharer.key) is None
    assert not ledger.can_step_aside(sharer.key)
    site.node.effects.start_ended(sharer.container_id)
    assert ledger.sendable(sharer.key) == Pinning(CpuSet.parse("3"), sharer.known.mems)


async def test_one_that_was_replaced_or_released_meanwhile_may_still_come_alive_where_it_was(site: Site) -> None:
    sharer, owner = await sent(site)
    ledger = site.node.context.ledger
    assert ledger.remnants() == ()
    site.node.coordinator.release(sharer, "stopped")
    assert (ledger.remnants(), ledger.occupants(owner)) == ((sharer,), (sharer,))
    ledger.drop(sharer.key)
    assert (ledger.remnants(), ledger.occupants(owner)) == ((sharer,), (sharer,))
    site.node.effects.starts_ended_in(sharer.sandbox_id)
    assert (ledger.remnants(), ledger.occupants(owner)) == ((), ())


async def test_a_running_container_does_not_count_cpus_as_its_own_where_one_may_come_alive(site: Site) -> None:
    ledger = site.node.context.ledger
    runs = (await site.run("r", SHARES)).container_id("c")
    await site.run("t", SHARES)
    sharer = site.row(await created(site, "s", SHARES))
    assert str(sharer.known.cpus) == site.cpus(runs)
    site.node.effects.start_sent(sharer)
    site.node.coordinator.release(sharer, "stopped")
    row = site.row(runs)
    ledger.put(replace(row, grant=replace(row.grant, exclusive=CpuSet.parse("6"))))
    ledger.confirm(row.key, Pinning(row.known.cpus))
    assert not confirmed_cpus(ledger, row.key)
    site.node.effects.start_ended(sharer.container_id)
    ledger.confirm(row.key, Pinning(row.known.cpus))
    assert str(confirmed_cpus(ledger, row.key)) == "6"


async def test_a_copy_is_changed_apart(site: Site) -> None:
    sharer, _ = await sent(site)
    copy = site.node.context.ledger.copy()
    assert sharer.container_id in copy.starts
    copy.starts.end(sharer.container_id)
    assert [call.row for call in site.node.context.ledger.starts.values()] == [sharer]


@pytest.mark.parametrize(
    ("shared", "spared"),
    [("1-7,9-15", "6-7,14-15"), ("1-5,9-13", "5,13"), ("1-3", "2-3"), ("1,9", ""), ("7", "")],
)
async def test_whole_cores_with_a_quarter_of_the_cpus_are_spared_while_a_start_hangs(
    site: Site, shared: str, spared: str
) -> None:
    row, starts = site.row(await created(site, "s", SHARES)), StartCalls()
    machine = describe({"cores": 8, "threads": 2, "numbering": "split"})
    assert not starts.spared(row, CpuSet.parse(shared), machine)
    starts.one_hangs = True
    assert str(starts.copy().spared(row, CpuSet.parse(shared), machine)) == spared
    assert not starts.spared(replace(row, state="running"), CpuSet.parse(shared), machine)


@pytest.mark.parametrize(
    ("cpus", "spared"),
    [("1-7,9-15", "6-7,14-15"), ("1-6,9-14", "5-6,13-14"), ("1-5,9-13", ""), ("1-3,9-11", ""), ("7,15", "")],
    ids=["all", "all but two", "all but four, of which owners have enough", "a half", "one core of all"],
)
async def test_before_a_start_hangs_they_are_spared_where_others_leave_owners_too_few(
    site: Site, cpus: str, spared: str
) -> None:
    row, starts = site.row(await created(site, "s", SHARES)), StartCalls()
    machine = describe({"cores": 8, "threads": 2, "numbering": "split"})
    starts.all_shared = lambda: CpuSet.parse("1-7,9-15")
    assert str(starts.copy().spared(row, CpuSet.parse(cpus), machine)) == spared
    assert not starts.spared(replace(row, state="running"), CpuSet.parse(cpus), machine)


async def test_an_end_may_come_twice(site: Site) -> None:
    sharer, _ = await sent(site)
    calls = StartCalls()
    calls.begin(StartCall(sharer, 0.0, 0))
    assert [call.row for call in calls.values()] == [sharer]
    for _ in range(2):
        calls.end(sharer.container_id)
        assert (len(calls), sharer.container_id in calls) == (0, False)


async def test_an_update_during_a_presumed_start_counts_beside_what_was_there_at_the_restart(site: Site) -> None:
    """What was taken in between counts no more: a start that is still to come takes the last."""
    sharer = site.row(await created(site, "s", SHARES))
    calls = StartCalls()
    calls.begin(StartCall(sharer, 0.0, 0, is_presumed=True))
    row = sharer
    for cpus in ("1-2", "3"):
        sent = Pinning(CpuSet.parse(cpus))
        assert calls.note_sending(row)
        assert not calls.has_taken(row, sent)
        taken = calls.take_update(row, sent)
        assert taken is not None
        assert (taken.known.cpus, taken.unconfirmed) == (CpuSet.parse(f"4-7,{cpus}"), sent)
        assert calls.has_taken(taken, sent)
        row = taken
    assert not calls.has_taken(row, Pinning(CpuSet.parse("1-2")))


async def test_once_it_runs_a_presumed_start_loses_updates_as_any_other(site: Site) -> None:
    """Until the start's end is noted, which follows at once."""
    sharer = site.row(await created(site, "s", SHARES))
    calls = StartCalls()
    calls.begin(StartCall(sharer, 0.0, 0, is_presumed=True))
    assert not calls.loses_updates(sharer)
    running = replace(sharer, state="running")
    assert calls.loses_updates(running)
    assert not calls.note_sending(running)
    assert calls.take_update(running, Pinning(CpuSet.parse("3"))) is None
    calls.end(sharer.container_id)
    assert not calls.loses_updates(running)


def test_a_start_is_asked_for_until_the_last_caller_has_its_answer() -> None:
    calls = StartCalls()
    with calls.asking("abc"):
        with calls.asking("ab"):
            assert (calls.is_asked_for("abcd"), calls.is_asked_for("abd")) == (True, True)
        assert (calls.is_asked_for("abcd"), calls.is_asked_for("abd")) == (True, False)
    assert not calls.is_asked_for("abcd")
