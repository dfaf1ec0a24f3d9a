"""A container that was created and never started: its kubelet makes another attempt, and the runtime keeps it."""

from collections.abc import Awaitable, Callable

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.sync.reconcile import START_WITHIN_SECONDS
from cri_proxy.state.memory_store import MemoryStore
from tests.fakes.device_checks import DeviceCheck
from tests.fakes.device_policy import policy_with_devices
from tests.fakes.embedded_calls import Calls
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import OWNS_2, START, background, direct, entered, holders, of, owned

LIST = RUNTIME + "ListContainers"
GPUS = ("example.com/gpu/0", "example.com/gpu/1")
BOTH = {"device-request.cri-proxy.io/container.c": "example.com/gpu=2"}
AMOUNTS = pods.PodAmounts(3000, 3000, 64 << 20, 64 << 20)
OWNER = PodSpec("job", (OWNS_2,))
WITH_DEVICES = PodSpec("job", (OWNS_2,), annotations=tuple(BOTH.items()))
SHARES_ITS_PODS = PodSpec("job", (ContainerSpec("c"),), amounts=AMOUNTS)
EVERYTHING = PodSpec("all", (guaranteed("c", 7000),))

KINDS = pytest.mark.parametrize(
    "spec", [OWNER, WITH_DEVICES, SHARES_ITS_PODS], ids=["owner", "with devices", "shares its pod's CPUs"]
)


async def check(site: Site) -> None:
    await site.node.resync.check_all("slow check")
    await site.node.settle()


async def restart(site: Site) -> None:
    await site.open()


async def restart_without_the_store(site: Site) -> None:
    site.store = MemoryStore()
    await site.open()


async def restart_of_the_runtime(site: Site) -> None:
    site.runtime.restart()
    await check(site)


MOMENTS = pytest.mark.parametrize("moment", [check, restart, restart_without_the_store, restart_of_the_runtime])


async def created(site: Site, spec: PodSpec = OWNER, sandbox_id: str = "", *, attempt: int = 0) -> str:
    sandbox_id = sandbox_id or await site.kubelet.run_sandbox(spec)
    return await site.kubelet.create(spec, spec.containers[0], sandbox_id, attempt=attempt)


async def succeeded(site: Site, first: str, spec: PodSpec = OWNER) -> str:
    """The next attempt, which runs."""
    second = await created(site, spec, site.runtime.node.containers[first].sandbox_id, attempt=1)
    await site.kubelet.start(second)
    return second


@MOMENTS
@KINDS
async def test_it_holds_nothing_once_its_successor_has_ended(
    moment: Callable[[Site], Awaitable[None]], spec: PodSpec
) -> None:
    async with opened(Site(policy_with_devices(*GPUS))) as site:
        site.runtime.exit(await succeeded(site, await created(site, spec), spec))
        await moment(site)
        await check(site)
        assert holders(site) == set()
        await site.run_spec(EVERYTHING)
        DeviceCheck(site.runtime).look_settled(site.node.context.ledger)


@MOMENTS
@KINDS
async def test_it_holds_nothing_once_no_kubelet_waits_for_it(
    moment: Callable[[Site], Awaitable[None]], spec: PodSpec
) -> None:
    async with opened(Site(policy_with_devices(*GPUS))) as site:
        first = await created(site, spec)
        await site.clock.sleep(START_WITHIN_SECONDS - 1)
        await moment(site)
        assert holders(site) == {first}
        await site.clock.sleep(2)
        await moment(site)
        assert holders(site) == set()
        await site.kubelet.create(EVERYTHING, EVERYTHING.containers[0], await site.kubelet.run_sandbox(EVERYTHING))
        DeviceCheck(site.runtime).look_settled(site.node.context.ledger)


@pytest.mark.parametrize("moment", [check, restart, restart_of_the_runtime])
async def test_its_devices_stay_its_pods(moment: Callable[[Site], Awaitable[None]]) -> None:
    async with opened(Site(policy_with_devices(*GPUS))) as site:
        first = await created(site, WITH_DEVICES)
        await site.clock.sleep(START_WITHIN_SECONDS + 1)
        await moment(site)
        assert holders(site) == set()
        with pytest.raises(CallFailed, match="held: 2 by default/job/c"):
            await site.run("other", OWNS_2, **BOTH)
        again = await succeeded(site, first, WITH_DEVICES)
        assert len(site.row(again).grant.devices) == 2


@pytest.mark.parametrize("moment", [check, restart])
async def test_it_holds_nothing_once_its_successor_is_gone(
    moment: Callable[[Site], Awaitable[None]], site: Site
) -> None:
    """The runtime lists the older attempt alone."""
    second = await succeeded(site, await created(site))
    await site.kubelet.stop(second)
    await site.kubelet.remove(second)
    await site.node.settle()
    await moment(site)
    assert holders(site) == set()


async def test_while_its_successor_runs_that_one_keeps_all_it_has(site: Site) -> None:
    first = await created(site)
    second = await succeeded(site, first)
    for moment in (check, restart, restart_without_the_store):
        await moment(site)
        assert (holders(site), len(owned(site, second))) == ({second}, 2)


async def test_room_that_it_held_is_found_before_another_container_is_refused(site: Site) -> None:
    """No slow check comes between."""
    await created(site)
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    assert len(owned(site, (await site.run("all", guaranteed("c", 7000))).container_id("c"))) == 7


async def test_a_clock_that_is_set_back_does_not_make_it_hold_longer(site: Site) -> None:
    first = await created(site)
    site.runtime.node.containers[first].created_at_ns += int(3600e9)
    await check(site)
    assert holders(site) == set()


async def test_one_of_unknown_age_keeps_what_it_has(site: Site) -> None:
    first = await created(site)
    site.runtime.node.containers[first].created_at_ns = 0
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    await check(site)
    assert holders(site) == {first}


async def test_a_start_that_the_runtime_does_not_answer_keeps_what_it_has(site: Site) -> None:
    first = await created(site)
    gate = site.runtime.faults.hang(START, of(first))
    start = background(site.kubelet.start(first))
    await entered(gate)
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    await check(site)
    assert holders(site) == {first}
    gate.release()
    await start


async def test_a_list_from_before_its_start_releases_nothing(site: Site) -> None:
    first = await created(site)
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    listed = await site.runtime.call(LIST, b"")
    await site.kubelet.start(first)
    site.runtime.faults.rewrite("ListContainers", lambda _, reply: listed)
    await check(site)
    assert holders(site) == {first}


async def test_one_that_is_left_alone_withholds_nothing_once_its_successor_has_ended() -> None:
    async with opened(Site(rules=Config(adopt="leave"))) as site:
        sandbox_id = await direct(site).run_sandbox(OWNER)
        first = await direct(site).create(OWNER, OWNS_2, sandbox_id)
        await Calls(site.runtime).update(first, cpuset_cpus="4-7")
        await check(site)
        assert str(site.node.context.ledger.allocations.withheld) == "4-7"
        site.runtime.exit(await succeeded(site, first))
        await check(site)
        assert not site.node.context.ledger.allocations.withheld
