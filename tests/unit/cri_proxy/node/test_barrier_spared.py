"""Containers that are created while a start hangs leave room for owners, told as in ``test_barrier_unanswered``."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.node.barrier import CLEAR_SECONDS
from sysfs.cpuset import CpuSet
from tests.fakes.lone_loop import LoneLoop
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import OWNS_2, created, hanging, is_alone, now, on_loop_time

SOON_SECONDS = 0.5
SHARES = ContainerSpec("c", cpu_request_mcpu=100)
LATER = ("t", "u", "v")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """CPUs 1 to 3 are all that is shared: a machine of one pool."""
    site = await on_loop_time()
    await site.run("full", guaranteed("c", 4000))
    yield site
    assert site.log.errors == []


async def test_an_owner_starts_beside_later_sharers_that_hang_once_the_first_start_has_ended(site: Site) -> None:
    first, gate, start = await hanging(site, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    later = [await hanging(site, name, SHARES) for name in LATER]
    gate.release()
    await start
    owner, begun = await created(site, "a", OWNS_2), now()
    await site.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS
    assert {site.cpus(container) for container in (first, *(container for container, _, _ in later))} == {"1"}
    for _, gate, _ in later:
        gate.release()
    await asyncio.gather(*(start for _, _, start in later))
    assert is_alone(site, owner)


async def test_it_has_all_shared_cpus_once_it_runs(site: Site) -> None:
    _, gate, start = await hanging(site, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    later = await created(site, "t", SHARES)
    assert site.cpus(later) == "1"
    await site.kubelet.start(later)
    await asyncio.sleep(SOON_SECONDS)
    assert site.cpus(later) == "1-3"
    gate.release()
    await start


async def test_one_that_has_not_run_grows_when_the_start_ends(site: Site) -> None:
    _, gate, start = await hanging(site, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    later = await created(site, "t", SHARES)
    gate.release()
    await start
    await asyncio.sleep(SOON_SECONDS)
    assert site.cpus(later) == "1-3"


async def test_a_start_that_does_not_hang_yet_narrows_nobody(site: Site) -> None:
    _, gate, start = await hanging(site, spec=SHARES)
    assert site.cpus(await created(site, "t", SHARES)) == "1-3"
    gate.release()
    await start


@pytest.mark.parametrize(
    ("spec", "cpus"), [(guaranteed("c", 1000), 1), (guaranteed("c", 1500), 3), (ContainerSpec("c"), 1)]
)
async def test_owners_have_all_of_theirs_at_once(site: Site, spec: ContainerSpec, cpus: int) -> None:
    _, gate, start = await hanging(site, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    assert len(CpuSet.parse(site.cpus(await created(site, "t", spec)))) == cpus
    gate.release()
    await start


async def test_the_last_two_shared_cpus_are_left_to_who_shares(site: Site) -> None:
    await site.run("more", guaranteed("c", 1000))
    _, gate, start = await hanging(site, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    assert len(CpuSet.parse(site.cpus(await created(site, "t", SHARES)))) == 2
    gate.release()
    await start


async def part_of() -> Site:
    """The same machine where sharers are created on a part of their pool."""
    site = await on_loop_time(Config(sharers_start_on="part"))
    await site.run("full", guaranteed("c", 4000))
    return site


async def test_an_owner_starts_beside_the_first_start_that_hangs_where_sharers_begin_on_a_part() -> None:
    site = await part_of()
    first, gate, start = await hanging(site, spec=SHARES)
    later = [await site.run(name, SHARES) for name in LATER]
    await asyncio.sleep(SOON_SECONDS)
    assert {site.cpus(pod.container_id("c")) for pod in later} == {"1-3"}
    owner, begun = await created(site, "a", OWNS_2), now()
    await site.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS
    assert is_alone(site, owner)
    assert {site.cpus(container) for container in (first, *(pod.container_id("c") for pod in later))} == {"1"}
    gate.release()
    await start
    await asyncio.sleep(SOON_SECONDS)
    assert is_alone(site, owner)
    assert site.log.errors == []


async def test_a_sharer_that_began_on_a_part_has_all_once_it_runs_until_the_option_is_taken_away() -> None:
    site = await part_of()
    first = await created(site, "t", SHARES)
    assert site.cpus(first) == "1"
    await site.kubelet.start(first)
    await asyncio.sleep(SOON_SECONDS)
    assert site.cpus(first) == "1-3"
    site.node.coordinator.config = Config()
    assert site.cpus(await created(site, "u", SHARES)) == "1-3"
    assert site.log.errors == []
