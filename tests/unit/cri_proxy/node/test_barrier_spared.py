"""Containers that are created while a start hangs leave room for owners, told as in ``test_barrier_unanswered``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.barrier import CLEAR_SECONDS
from policies.builder import build_policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.lone_loop import LoneLoop
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import (
    OWNS_2,
    background,
    created,
    entered,
    hanging,
    is_alone,
    now,
    on_loop_time,
)

SOON_SECONDS = 0.5
SHARES = ContainerSpec("c", cpu_request_mcpu=100)
LATER = ("t", "u", "v")
WHOLE = Config(sharers_start_on="pool")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


@asynccontextmanager
async def one_pool(config: Config) -> AsyncIterator[Site]:
    """CPUs 1 to 3 are all that is shared: a machine of one pool."""
    site = await on_loop_time(config)
    await site.run("full", guaranteed("c", 4000))
    yield site
    assert site.log.errors == []


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with one_pool(Config()) as site:
        yield site


@pytest.fixture
async def whole() -> AsyncIterator[Site]:
    """As ``site``, but before a start hangs containers are created on all CPUs."""
    async with one_pool(WHOLE) as site:
        yield site


@pytest.fixture
async def wide() -> AsyncIterator[Site]:
    """One package of 16 CPUs, all but the first shared."""
    machine = describe({"packages": 1, "cores": 16})
    options = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
    site = await on_loop_time(policy=build_policy("topology-aware", machine, options))
    yield site
    assert site.log.errors == []


async def test_an_owner_starts_beside_later_sharers_that_hang_once_the_first_start_has_ended(whole: Site) -> None:
    first, gate, start = await hanging(whole, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    later = [await hanging(whole, name, SHARES) for name in LATER]
    gate.release()
    await start
    owner, begun = await created(whole, "a", OWNS_2), now()
    await whole.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS
    assert {whole.cpus(container) for container in (first, *(container for container, _, _ in later))} == {"1"}
    for _, gate, _ in later:
        gate.release()
    await asyncio.gather(*(start for _, _, start in later))
    assert is_alone(whole, owner)


async def test_it_has_all_shared_cpus_once_it_runs(whole: Site) -> None:
    _, gate, start = await hanging(whole, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    later = await created(whole, "t", SHARES)
    assert whole.cpus(later) == "1"
    await whole.kubelet.start(later)
    await asyncio.sleep(SOON_SECONDS)
    assert whole.cpus(later) == "1-3"
    gate.release()
    await start


async def test_one_that_has_not_run_grows_when_the_start_ends(whole: Site) -> None:
    _, gate, start = await hanging(whole, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    later = await created(whole, "t", SHARES)
    gate.release()
    await start
    await asyncio.sleep(SOON_SECONDS)
    assert whole.cpus(later) == "1-3"


async def test_a_start_that_does_not_hang_yet_narrows_nobody(whole: Site) -> None:
    _, gate, start = await hanging(whole, spec=SHARES)
    assert whole.cpus(await created(whole, "t", SHARES)) == "1-3"
    gate.release()
    await start


@pytest.mark.parametrize(
    ("spec", "cpus"), [(guaranteed("c", 1000), 1), (guaranteed("c", 1500), 3), (ContainerSpec("c"), 1)]
)
async def test_owners_have_all_of_theirs_at_once(whole: Site, spec: ContainerSpec, cpus: int) -> None:
    _, gate, start = await hanging(whole, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    assert len(CpuSet.parse(whole.cpus(await created(whole, "t", spec)))) == cpus
    gate.release()
    await start


async def test_the_last_two_shared_cpus_are_left_to_who_shares(whole: Site) -> None:
    await whole.run("more", guaranteed("c", 1000))
    _, gate, start = await hanging(whole, spec=SHARES)
    await asyncio.sleep(CLEAR_SECONDS)
    assert len(CpuSet.parse(whole.cpus(await created(whole, "t", SHARES)))) == 2
    gate.release()
    await start


async def test_an_owner_starts_beside_the_first_start_that_hangs(site: Site) -> None:
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


async def test_what_begins_on_a_part_has_all_once_it_runs_as_long_as_the_option_is_on(site: Site) -> None:
    first = await created(site, "t", SHARES)
    assert site.cpus(first) == "1"
    await site.kubelet.start(first)
    await asyncio.sleep(SOON_SECONDS)
    assert site.cpus(first) == "1-3"
    site.node.coordinator.config = WHOLE
    assert site.cpus(await created(site, "u", SHARES)) == "1-3"


async def test_the_part_is_of_what_is_left_beside_an_owner_that_is_being_created(wide: Site) -> None:
    spec = PodSpec("owner", (guaranteed("c", 6000),))
    sandbox_id = await wide.kubelet.run_sandbox(spec)
    gate = wide.runtime.faults.hang("CreateContainer", lambda message: b"owner" in message)
    creation = background(wide.kubelet.create(spec, spec.containers[0], sandbox_id))
    await entered(gate)
    sharer = await created(wide, "t", SHARES)
    assert wide.cpus(sharer) == "7-13"
    gate.release()
    await creation
    await asyncio.sleep(SOON_SECONDS)
    assert wide.cpus(sharer) == "7-13"


async def test_the_part_is_of_what_is_left_by_an_owner_that_has_grown(wide: Site) -> None:
    owner = await wide.run("a", guaranteed("c", 1000))
    before = await created(wide, "t", SHARES)
    await wide.kubelet.resize(owner, PodSpec("a", (guaranteed("c", 6000),)))
    await asyncio.sleep(SOON_SECONDS)
    assert wide.cpus(owner.container_id("c")) == "1-6"
    assert {wide.cpus(before), wide.cpus(await created(wide, "u", SHARES))} == {"7-13"}


async def test_what_it_began_without_is_no_change_since_its_decision(wide: Site) -> None:
    container = await created(wide, "t", SHARES)
    record = wide.journal.records.get(wide.row(container).key)
    assert record is not None
    assert record.granted is not None
    assert (wide.cpus(container), str(record.granted.pinning.cpus)) == ("1-12", "1-15")


async def test_where_owners_find_others_it_begins_on_all_of_its_pool() -> None:
    site = await on_loop_time()
    assert site.cpus(await created(site, "t", SHARES)) == "4-7"


async def test_after_a_restart_what_has_not_run_is_sent_nothing_and_has_all_once_it_runs(site: Site) -> None:
    container = await created(site, "t", SHARES)
    updates = site.runtime.updates
    await site.open()
    await asyncio.sleep(SOON_SECONDS)
    assert (site.cpus(container), site.runtime.updates) == ("1", updates)
    await site.kubelet.start(container)
    await asyncio.sleep(SOON_SECONDS)
    assert site.cpus(container) == "1-3"
