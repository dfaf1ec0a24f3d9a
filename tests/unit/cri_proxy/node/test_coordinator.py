import asyncio
from dataclasses import replace

import pytest

from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable, StoreError
from cri_proxy.node.coordinator import Reservation
from cri_proxy.state.rows import Row
from policies.base import Pinning, QosClass, Rejected, Request
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import listed, use_costs, with_costs
from tests.fakes.grants import request, small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import background, entered, owned
from tests.unit.policies.cost_devices import Costs, inventory

CREATE = "CreateContainer"
OWNS_2 = guaranteed("c", 2000)
OWNS_3 = guaranteed("c", 3000)
DISK = StoreError("state.db", "disk full")


async def place(site: Site, wanted: Request, sandbox: str = "sandbox-1") -> Reservation:
    placed = await site.node.place(wanted, sandbox)
    assert isinstance(placed, Reservation)
    return placed


def rows(site: Site) -> list[Row]:
    return list(site.node.context.ledger.rows())


def saved(site: Site) -> dict[str, str]:
    return {row.key.name: row.state for row in site.store.load().rows}


async def test_a_place_is_held_and_saved_before_the_runtime_is_asked(site: Site) -> None:
    gate = site.runtime.faults.block(CREATE)
    run = background(site.run("a", OWNS_2))
    await entered(gate)
    assert saved(site) == {"c": "reserved"}
    gate.release()
    await run
    assert saved(site) == {"c": "running"}


async def test_a_create_that_the_runtime_refuses_leaves_everything_as_before(site: Site) -> None:
    await site.run("s", ContainerSpec("c", cpu_request_mcpu=500))
    before = rows(site)
    site.runtime.faults.fail_next(CREATE, 2, "no")
    with pytest.raises(CallFailed):
        await site.run("a", OWNS_2)
    await site.node.settle()
    assert rows(site) == before
    assert site.store.load().rows == tuple(before)


async def test_a_roll_back_restores_the_earlier_row_and_the_moved_grants(site: Site) -> None:
    coordinator, ledger = site.node.coordinator, site.node.context.ledger
    first = await place(site, request("c", 2000))
    coordinator.commit(first, "id-1", first.decision.pinning)
    row = site.row("id-1")
    coordinator.release(row, "test")
    before = ledger.get(row.key)
    second = await place(site, request("c", 3000))
    coordinator.roll_back(second, "the runtime refused")
    assert ledger.get(row.key) == before


def moved_along(site: Site, reservation: Reservation, row: Row) -> Reservation:
    return replace(reservation, before=(*reservation.before, row))


async def test_a_roll_back_does_not_bring_back_a_container_that_went_meanwhile(site: Site) -> None:
    a = await site.run("a", ContainerSpec("c", cpu_request_mcpu=500))
    row = site.row(a.container_id("c"))
    reservation = moved_along(site, await place(site, request("x", 1000)), row)
    await site.kubelet.remove_pod(a.sandbox_id)
    site.node.coordinator.roll_back(reservation, "the runtime refused")
    assert rows(site) == []


async def test_a_roll_back_does_not_replace_a_newer_attempt_of_a_moved_container(site: Site) -> None:
    a = await site.run("a", ContainerSpec("c", cpu_request_mcpu=500))
    row = site.row(a.container_id("c"))
    reservation = moved_along(site, await place(site, request("x", 1000)), row)
    site.runtime.exit(row.container_id)
    again = await site.kubelet.create(a.spec, a.spec.containers[0], a.sandbox_id, attempt=1)
    site.node.coordinator.roll_back(reservation, "the runtime refused")
    assert [r.container_id for r in rows(site)] == [again]


@pytest.mark.parametrize("after", [True, False], ids=["it was created", "it was not"])
async def test_an_unknown_outcome_is_settled_by_asking_the_runtime(after: bool, site: Site) -> None:
    site.runtime.faults.fail_next(CREATE, 4, "deadline exceeded", after=after)
    with pytest.raises(CallFailed):
        await site.run("a", OWNS_2)
    assert [row.state for row in rows(site)] == ["pending"]
    await site.node.settle()
    assert [row.state for row in rows(site)] == (["created"] if after else [])
    assert {row.container_id for row in rows(site)} == {c.id for c in site.live()}


async def test_two_checks_of_one_unknown_outcome_settle_it_once(site: Site) -> None:
    site.runtime.faults.fail_next(CREATE, 4, "deadline exceeded", after=True)
    with pytest.raises(CallFailed):
        await site.run("a", OWNS_2)
    await asyncio.gather(*(site.node.resync.check_all("test") for _ in range(3)))
    await site.node.settle()
    assert [row.container_id for row in rows(site)] == [c.id for c in site.live()]


async def test_removing_a_container_twice_releases_it_once(site: Site) -> None:
    a = await site.run("a", OWNS_2)
    for _ in range(2):
        await site.kubelet.remove(a.container_id("c"))
    assert [row.state for row in rows(site)] == ["exited"]


async def test_removing_an_old_attempt_leaves_the_new_one_what_it_has(site: Site) -> None:
    a = await site.run("a", OWNS_2)
    site.runtime.exit(a.container_id("c"))
    again = await site.kubelet.create(a.spec, OWNS_2, a.sandbox_id, attempt=1)
    await site.kubelet.start(again)
    await site.kubelet.remove(a.container_id("c"))
    assert [(row.container_id, row.state) for row in rows(site)] == [(again, "running")]


async def test_the_next_attempt_takes_the_cpus_of_the_one_before(site: Site) -> None:
    a = await site.run("a", OWNS_2)
    await site.run("b", OWNS_2)
    before = owned(site, a.container_id("c"))
    site.runtime.exit(a.container_id("c"))
    assert owned(site, await site.kubelet.create(a.spec, OWNS_2, a.sandbox_id, attempt=1)) == before


async def test_a_pod_whose_sandbox_is_made_anew_holds_its_cpus_once(site: Site) -> None:
    a = await site.run("a", OWNS_2)
    await site.kubelet.remove_pod(a.sandbox_id)
    b = await site.run("a", OWNS_2)
    assert [row.container_id for row in rows(site)] == [b.container_id("c")]


async def test_a_pod_that_is_stopped_while_a_container_is_created_keeps_its_place_until_the_answer(site: Site) -> None:
    """Freed earlier, its CPUs could be another's by the time it exists."""
    sandbox = await site.kubelet.run_sandbox(PodSpec("a", (OWNS_2,)))
    reservation = await place(site, request("c", 2000), sandbox)
    for row in site.node.context.ledger.of_sandbox(sandbox):
        site.node.coordinator.release(row, "sandbox stopped")
    site.node.coordinator.commit(reservation, "late", reservation.decision.pinning)
    other = await place(site, request("d", 2000, uid="pod-2"), sandbox)
    assert other.row.grant.owned.isdisjoint(owned(site, "late"))


async def test_the_last_of_two_decisions_about_one_container_counts(site: Site) -> None:
    first = await place(site, request("c", 2000))
    second = await place(site, request("c", 3000))
    site.node.coordinator.commit(first, "old", first.decision.pinning)
    site.node.coordinator.commit(second, "new", second.decision.pinning)
    assert [row.container_id for row in rows(site)] == ["new"]


async def test_when_the_second_of_two_creates_fails_the_first_is_asked_for(site: Site) -> None:
    await place(site, request("c", 2000))
    second = await place(site, request("c", 3000))
    site.node.coordinator.roll_back(second, "the runtime refused")
    assert [row.state for row in rows(site)] == ["pending"]


async def test_what_was_released_is_saved_before_what_is_decided_next(site: Site) -> None:
    """Saves that nobody waits for must not overtake, nor be overtaken."""
    first = await place(site, request("c", 2000))
    site.node.coordinator.commit(first, "id-1", first.decision.pinning)
    site.node.coordinator.release(site.row("id-1"), "test")
    await place(site, request("c", 2000))
    await site.node.context.tasks.join()
    assert saved(site) == {"c": "reserved"}


async def test_the_fallback_leaves_out_what_was_granted_since(site: Site) -> None:
    assert str(site.node.coordinator.fallback.cpus) == "1-7"
    reservation = await place(site, request("c", 2000))
    assert site.node.coordinator.fallback.cpus == CpuSet.parse("1-7") - reservation.row.grant.owned


async def test_a_reply_about_a_container_that_is_gone_changes_nothing(site: Site) -> None:
    reservation = await place(site, request("c", 2000))
    site.node.coordinator.forget_sandbox("sandbox-1", "test")
    site.node.coordinator.commit(reservation, "late", Pinning(None, None))
    site.node.coordinator.leave_pending(reservation)
    site.node.coordinator.roll_back(reservation, "the runtime refused")
    assert rows(site) == []


async def test_while_the_runtime_is_away_no_outcome_is_guessed(site: Site) -> None:
    gate = site.runtime.faults.block(CREATE)
    run = background(site.run("a", OWNS_2))
    await entered(gate)
    site.runtime.go_away()
    with pytest.raises(RuntimeUnavailable):
        await run
    await site.node.settle()
    assert [row.state for row in rows(site)] == ["pending"]
    site.runtime.come_back()
    await site.node.resync.check_all("test")
    assert rows(site) == []


async def place_six(site: Site) -> Reservation:
    placed = await site.node.place(request("x", 6000), "sandbox-1")
    assert isinstance(placed, Reservation)
    return placed


async def two_that_make_room(site: Site) -> list[Row]:
    """Two that share, each in a package of its own; whoever wants six CPUs has one lifted to the root."""
    for name in ("s1", "s2"):
        await site.run(name, ContainerSpec("c", cpu_request_mcpu=500))
    assert sorted(row.grant.pool for row in rows(site)) == ["socket #0", "socket #1"]
    return rows(site)


def lifted(site: Site) -> set[str]:
    return {row.grant.pool for row in rows(site) if row.container_id}


@pytest.mark.parametrize("ending", ["refused", "never came", "lost by a kill"])
async def test_who_was_lifted_for_a_container_that_is_not_created_is_where_it_was(ending: str, site: Site) -> None:
    before = await two_that_make_room(site)
    pinned = site.recorded()
    placed = await place_six(site)
    assert "root" in lifted(site)
    match ending:
        case "refused":
            site.node.coordinator.roll_back(placed, "the runtime refused")
        case "never came":
            site.node.coordinator.leave_pending(placed)
            await site.node.resync.check_all("unknown create")
        case _:
            await site.open()
    await site.node.settle()
    assert (rows(site), site.recorded()) == (before, pinned)
    assert site.store.load().rows == tuple(before)


async def test_who_was_lifted_stays_there_where_others_need_the_room_by_now(site: Site) -> None:
    await two_that_make_room(site)
    placed = await place_six(site)
    site.node.coordinator.leave_pending(placed)
    taken = replace(placed.row, grant=replace(placed.row.grant, request=request("y", 6000)), displaced=())
    site.node.context.ledger.drop(placed.row.key)
    site.node.context.ledger.put(taken)
    assert site.node.coordinator.undo_displacement(placed.row) == ()
    assert "root" in lifted(site)


async def test_who_has_come_to_be_keeps_no_word_of_those_that_made_room(site: Site) -> None:
    await two_that_make_room(site)
    placed = await place_six(site)
    assert len(placed.row.displaced) == 1
    site.node.coordinator.commit(placed, "id-x", placed.decision.pinning)
    assert all(row.displaced == () for row in rows(site))


async def test_a_roll_back_leaves_who_was_moved_the_size_that_it_got_meanwhile(site: Site) -> None:
    await two_that_make_room(site)
    placed = await place_six(site)
    moved = next(row for row in rows(site) if row.key == placed.row.displaced[0].grant.container)
    spec = ContainerSpec("c", cpu_request_mcpu=400)
    smaller = pods.resources(pods.PodSpec("s", (spec,)), spec, site.kubelet.node)
    await site.kubelet.update(moved.container_id, smaller)
    site.node.coordinator.roll_back(placed, "the runtime refused")
    assert sorted(row.grant.shared_mcpu for row in rows(site)) == [400, 500]


async def test_what_is_known_of_a_refused_pod_goes_with_its_last_sandbox(site: Site) -> None:
    pod = PodSpec("a", (OWNS_2,))
    sandbox_id = await site.kubelet.run_sandbox(pod)
    known = site.node.context.ledger.sandboxes[sandbox_id]
    site.node.save_sandbox(replace(known, sandbox_id="earlier"))
    site.runtime.faults.fail_next(CREATE, 2, "no such level")
    with pytest.raises(CallFailed):
        await site.kubelet.create(pod, OWNS_2, sandbox_id)
    site.node.coordinator.forget_sandbox("earlier", "test")
    await site.node.settle()
    assert len(site.store.load().decisions) == len(site.journal.records.names()) == 1
    await site.kubelet.remove_pod(sandbox_id)
    await site.node.settle()
    assert len(site.store.load().decisions) == len(site.journal.records.names()) == 0


async def test_only_the_last_try_lets_in_what_has_no_room(site: Site) -> None:
    """What an unannounced exit leaves is found before the last try."""
    coordinator, asked = site.node.coordinator, request("b", 20_000, qos=QosClass.BURSTABLE)
    assert isinstance(coordinator.decide_and_reserve(asked, "s", is_last_try=False), Rejected)
    let_in = coordinator.decide_and_reserve(asked, "s")
    assert isinstance(let_in, Reservation)
    assert let_in.row.grant.is_overcommitted


async def test_a_shortage_refuses_where_the_operator_says_so(site: Site) -> None:
    coordinator = site.node.coordinator
    coordinator.config = replace(coordinator.config, on_shortage="refuse")
    refused = coordinator.decide_and_reserve(request("b", 20_000, qos=QosClass.BURSTABLE), "s")
    assert isinstance(refused, Rejected)
    assert refused.reason.code == "cpu-full"


@pytest.mark.parametrize("costs", [[("example.com/gpu/gpu1", 0, "cpu/cpu0-7")], []], ids=["others", "none"])
async def test_a_created_container_that_is_placed_elsewhere_keeps_its_devices(costs: Costs) -> None:
    site = Site(with_costs(small_policy(), inventory([("example.com/gpu/gpu0", 1, "cpu/cpu0-7")])))
    await site.open()
    spec = PodSpec("a", (OWNS_2,), annotations=(("cri-proxy.io/device-request", "example.com/gpu=1"),))
    created = await site.kubelet.create(spec, OWNS_2, await site.kubelet.run_sandbox(spec))
    row = site.row(created)
    assert row.grant.devices == listed("example.com/gpu/gpu0")
    use_costs(site.node, inventory(costs))
    moved = site.node.coordinator.place_elsewhere(row, row.grant.owned)
    assert isinstance(moved, Reservation)
    assert row.grant.owned.isdisjoint(moved.row.grant.owned)
    assert moved.row.grant.devices == row.grant.devices
