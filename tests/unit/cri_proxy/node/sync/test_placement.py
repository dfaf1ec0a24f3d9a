import asyncio
from dataclasses import replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.sync.reconcile import START_WITHIN_SECONDS
from cri_proxy.node.sync.runtime_state import STATUS_CONCURRENCY
from cri_proxy.state.memory_store import MemoryStore
from policies.device_grants import device_words
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import policy_with_devices, two_pairs
from tests.fakes.grants import small_policy
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import (
    BUSY,
    OWNS_2,
    SHARES,
    START,
    background,
    created,
    direct,
    entered,
    holders,
    is_alone,
    of,
    owned,
    soon,
)

SPEC = PodSpec("a", (OWNS_2,))
UNKNOWN = 2
REFUSED = r"default/a/c: .*; remove this container, and another attempt is placed"


async def test_running_containers_are_adopted_guaranteed_and_large_ones_first(site: Site) -> None:
    small = (await direct(site).run_pod(PodSpec("small", (SHARES,)))).container_id("c")
    large = (await direct(site).run_pod(PodSpec("large", (guaranteed("c", 3000),)))).container_id("c")
    await site.open()
    assert len(owned(site, large)) == 3
    assert CpuSet.parse(site.cpus(small)).isdisjoint(owned(site, large))


async def test_one_without_a_cpuset_gets_one_also_where_it_should_be_on_all_cpus() -> None:
    """It would run on each CPU that comes online, whoever owns it."""
    async with opened(Site(small_policy(""))) as site:
        found = (
            await direct(site).run_pod(PodSpec("a", (ContainerSpec("c", cpu_request_mcpu=100, cpu_limit_mcpu=8000),)))
        ).container_id("c")
        await site.node.resync.check_all("slow check")
        await site.node.settle()
        assert site.runtime.record(found).cpuset_cpus == "0-7"
        assert site.row(found).unconfirmed is None


async def test_a_start_asks_for_few_statuses_at_a_time_and_decides_once_it_has_them(site: Site) -> None:
    """What is unknown may be on any CPU."""
    direct_pods = [await direct(site).run_pod(PodSpec(f"p{n}", (SHARES,))) for n in range(2 * STATUS_CONCURRENCY)]
    gate = site.runtime.faults.block("ContainerStatus")
    opening = background(site.open())
    await soon(lambda: gate.waiting == STATUS_CONCURRENCY)
    for _ in range(100):
        await asyncio.sleep(0)
    assert gate.waiting == STATUS_CONCURRENCY
    assert not site.node.coordinator.is_ready
    gate.release()
    await opening
    assert holders(site) == {pod.container_id("c") for pod in direct_pods}


async def test_of_two_live_containers_of_one_name_the_newer_is_the_container(site: Site) -> None:
    spec = PodSpec("web", (SHARES,))
    pod = await direct(site).run_pod(spec)
    twin = site.runtime.node.containers[await direct(site).create(spec, SHARES, pod.sandbox_id, attempt=1)]
    twin.created_at_ns += 1_000_000_000
    await site.open()
    assert holders(site) == {twin.id}


async def test_an_adoption_does_not_replace_what_was_decided_meanwhile(site: Site) -> None:
    spec = PodSpec("web", (SHARES,))
    pod = await direct(site).run_pod(spec)
    gate = site.runtime.faults.block("ContainerStatus")
    check = background(site.node.resync.check_all("test"))
    await entered(gate)
    new = await site.kubelet.create(spec, SHARES, pod.sandbox_id, attempt=1)
    gate.release()
    await check
    assert holders(site) == {new}


async def test_an_adopted_container_does_not_take_cpus_from_their_holder(site: Site) -> None:
    """A stop of a created container frees its CPUs; it can still be started, and finds them taken."""
    spec = PodSpec("a", (OWNS_2,))
    late = await site.kubelet.create(spec, OWNS_2, await site.kubelet.run_sandbox(spec))
    await site.kubelet.stop(late)
    b = await site.run("b", OWNS_2)
    before = owned(site, b.container_id("c"))
    await site.kubelet.start(late)
    assert owned(site, b.container_id("c")) == before
    assert CpuSet.parse(site.cpus(late)).isdisjoint(before)
    assert len(owned(site, late)) == 2


async def abandoned(site: Site, container: ContainerSpec = OWNS_2, **annotations: str) -> str:
    """A container that was created, not started for too long, and has lost its place."""
    spec = PodSpec("a", (container,), annotations=tuple(annotations.items()))
    container_id = await site.kubelet.create(spec, container, await site.kubelet.run_sandbox(spec))
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    assert holders(site) == set()
    return container_id


async def another_attempt(site: Site, first: str, attempt: int = 1) -> str:
    sandbox_id = site.runtime.node.containers[first].sandbox_id
    return await site.kubelet.create(SPEC, OWNS_2, sandbox_id, attempt=attempt)


async def test_one_that_starts_after_all_gets_its_cpus_again_if_they_are_free(site: Site) -> None:
    late = await abandoned(site)
    before = site.runtime.record(late).cpuset_cpus
    await site.kubelet.start(late)
    assert (str(owned(site, late)), site.cpus(late)) == (before, before)


@pytest.mark.parametrize("container", [OWNS_2, SHARES], ids=["owner", "sharer"])
@pytest.mark.parametrize("others_mcpu", [2000, 5000, 7000], ids=["room for it", "just room", "no room"])
async def test_one_that_starts_after_all_is_on_no_cpu_that_others_own_by_then(
    container: ContainerSpec, others_mcpu: int, site: Site
) -> None:
    late = await abandoned(site, container)
    other = (await site.run("b", guaranteed("c", others_mcpu))).container_id("c")
    await site.kubelet.start(late[:12])
    assert is_alone(site, other)
    await site.node.settle()
    assert (is_alone(site, other), holders(site)) == (True, {late, other})
    assert len(owned(site, late)) == (2 if container is OWNS_2 and others_mcpu < 7000 else 0)


async def test_one_that_starts_after_all_keeps_its_place_while_its_start_waits(site: Site) -> None:
    """A check in between finds it created, long ago, with a newer attempt that has ended."""
    await site.run("busy", BUSY)
    late = await created(site, "a", OWNS_2)
    second = await another_attempt(site, late)
    await site.kubelet.start(second)
    site.runtime.exit(second)
    await site.node.resync.check_all("slow check")
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.hang("UpdateContainerResources", of(sharer))
    start = background(site.kubelet.start(late))
    await entered(gate)
    await site.node.resync.check_all("slow check")
    assert late in holders(site)
    gate.release()
    await start
    assert is_alone(site, late)
    assert len(owned(site, late)) == 2


async def test_one_whose_late_start_fails_holds_nothing_again(site: Site) -> None:
    late = await abandoned(site)
    site.runtime.faults.fail_next(START, UNKNOWN, "no such thing today")
    with pytest.raises(CallFailed, match="no such thing today"):
        await site.kubelet.start(late)
    await site.node.resync.check_all("slow check")
    assert holders(site) == set()


@pytest.mark.parametrize("runs", [True, False])
async def test_an_older_attempt_does_not_start_beside_the_one_that_has_its_place(runs: bool, site: Site) -> None:
    """Its own CPUs may be others', and a container has one place."""
    first = await created(site, "a", OWNS_2)
    second = await another_attempt(site, first)
    if runs:
        await site.kubelet.start(second)
    with pytest.raises(CallFailed, match=REFUSED):
        await site.kubelet.start(first)
    assert (holders(site), site.runtime.calls[START]) == ({second}, int(runs))


async def test_of_two_attempts_that_were_never_started_the_older_one_starts_on_no_cpu_of_others(site: Site) -> None:
    first = await created(site, "a", OWNS_2)
    await another_attempt(site, first)
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    await site.node.resync.check_all("slow check")
    other = (await site.run("b", guaranteed("c", 7000))).container_id("c")
    await site.kubelet.start(first)
    assert (is_alone(site, other), holders(site)) == (True, {first, other})


async def test_an_older_attempt_does_not_start_beside_a_new_one_that_was_stopped(site: Site) -> None:
    """It has no place, and the runtime may start it all the same."""
    first = await created(site, "a", OWNS_2)
    second = await another_attempt(site, first)
    await site.kubelet.stop(second)
    with pytest.raises(CallFailed, match="a newer attempt is there"):
        await site.kubelet.start(first)
    assert holders(site) == set()


async def test_an_older_attempt_does_not_start_while_another_one_is_created(site: Site) -> None:
    first = await created(site, "a", OWNS_2)
    gate = site.runtime.faults.block("CreateContainer")
    creating = background(another_attempt(site, first))
    await entered(gate)
    with pytest.raises(CallFailed, match=REFUSED):
        await site.kubelet.start(first)
    gate.release()
    second = await creating
    assert holders(site) == {second}


@pytest.mark.parametrize("method", ["ListContainers", "ContainerStatus"])
async def test_one_that_has_lost_its_place_does_not_start_while_it_cannot_be_placed(method: str, site: Site) -> None:
    late = await abandoned(site)
    site.runtime.faults.fail_next(method, UNKNOWN, "not now")
    with pytest.raises(CallFailed, match=REFUSED):
        await site.kubelet.start(late)
    assert not site.runtime.node.containers[late].running


async def test_one_that_has_ended_is_refused_in_the_runtimes_own_words(site: Site) -> None:
    ended = (await site.run("a", OWNS_2)).container_id("c")
    site.runtime.exit(ended)
    await site.node.resync.check_all("slow check")
    with pytest.raises(CallFailed, match="container is in CONTAINER_EXITED state"):
        await site.kubelet.start(ended)


@pytest.mark.parametrize(
    ("asks", "devices"),
    [
        ({"cri-proxy.io/device-request": "example.com/gpu=1"}, "example.com/gpu/0"),
        ({"cri-proxy.io/device-resources": "nvidia.com/gpu=2"}, "gpu/0, gpu/1"),
    ],
    ids=["of cost files", "of the inventory"],
)
async def test_one_whose_devices_others_have_by_now_does_not_start(asks: dict[str, str], devices: str) -> None:
    """It was told of them when it was created. Another container of its pod may have got them since."""
    async with opened(Site(policy_with_devices("example.com/gpu/0", devices=two_pairs()))) as site:
        late = await abandoned(site, OWNS_2, **asks)
        spec = PodSpec("a", (replace(OWNS_2, name="d"),), annotations=tuple(asks.items()))
        sandbox_id = site.runtime.node.containers[late].sandbox_id
        other = await site.kubelet.create(spec, spec.containers[0], sandbox_id)
        await site.kubelet.start(other)
        with pytest.raises(CallFailed, match=rf"others have its devices by now \({devices}\)"):
            await site.kubelet.start(late)
        assert holders(site) == {other}
        await site.kubelet.stop(other)
        await site.kubelet.start(late)
        assert holders(site) == {late}
        assert device_words(site.row(late).grant.devices) == tuple(devices.split(", "))


async def test_one_whose_devices_are_kept_for_another_pod_does_not_start() -> None:
    """The store was lost, and with it that they were kept for its own."""
    asks = {"cri-proxy.io/device-request": "example.com/gpu=1"}
    async with opened(Site(policy_with_devices("example.com/gpu/0"))) as site:
        late = await abandoned(site, OWNS_2, **asks)
        site.store = MemoryStore()
        await site.open()
        other = (await site.run("b", OWNS_2, **asks)).container_id("c")
        site.runtime.exit(other)
        await site.node.resync.check_all("slow check")
        with pytest.raises(CallFailed, match=r"others have its devices by now \(example.com/gpu/0\)"):
            await site.kubelet.start(late)
        assert holders(site) == set()


async def test_one_starts_after_all_beside_another_that_has_other_parts_of_its_device() -> None:
    half = {"cri-proxy.io/device-resources": "koordinator.sh/gpu-core=50,koordinator.sh/gpu-memory-ratio=50"}
    async with opened(Site(policy_with_devices(devices=two_pairs()))) as site:
        late = await abandoned(site, OWNS_2, **half)
        others = [(await site.run(name, OWNS_2, **half)).container_id("c") for name in "bde"]
        await site.kubelet.start(late)
        assert holders(site) == {late, *others}


async def test_one_that_starts_after_all_shares_the_cpus_of_its_pod_as_these_are_by_then(site: Site) -> None:
    amounts = pods.PodAmounts(3000, 3000, 64 << 20, 64 << 20)
    spec = PodSpec("a", (ContainerSpec("c"), ContainerSpec("d")), amounts=amounts)
    sandbox_id = await site.kubelet.run_sandbox(spec)
    late = await site.kubelet.create(spec, spec.containers[0], sandbox_id)
    runs = await site.kubelet.create(spec, spec.containers[1], sandbox_id)
    await site.kubelet.start(runs)
    await site.clock.sleep(START_WITHIN_SECONDS + 1)
    await site.node.resync.check_all("slow check")
    assert (holders(site), len(owned(site, runs))) == ({runs}, 3)
    await site.kubelet.start(late)
    assert owned(site, late) == owned(site, runs)
    assert site.cpus(late) == site.cpus(runs)


async def test_one_that_is_left_alone_starts_where_it_is() -> None:
    async with opened(Site(rules=Config(adopt="leave"))) as site:
        foreign = await direct(site).create(SPEC, OWNS_2, await direct(site).run_sandbox(SPEC))
        await site.node.resync.check_all("slow check")
        await site.kubelet.start(foreign[:12])
        assert (holders(site), site.cpus(foreign)) == (set(), "0-7")
