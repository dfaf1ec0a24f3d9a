"""Who was moved to make room for a container: back where it was when that one never comes to be."""

from dataclasses import replace

import pytest

from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec
from cri_proxy.node.coordinator import Reservation
from cri_proxy.state.rows import Row
from tests.fakes.grants import request
from tests.fakes.site import Site


async def place_six(site: Site) -> Reservation:
    placed = await site.node.placer.place(request("x", 6000), "sandbox-1")
    assert isinstance(placed, Reservation)
    return placed


def rows(site: Site) -> list[Row]:
    return list(site.node.context.ledger.rows())


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
    site.node.coordinator.commit(placed, "id-x", placed.pinning)
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
