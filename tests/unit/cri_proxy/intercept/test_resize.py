import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cri_proxy.cri.cdi.variables import Variables
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.errors import CallFailed, StoreError
from sysfs.cpuset import CpuSet
from tests.fakes.scripted_cdi import ScriptedCdi
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import BUSY_AFTER, REJECT, SHARES, background, entered, owned

UPDATE = "UpdateContainerResources"


def resources(site: Site, pod: RunningPod, mcpu: int) -> pb.LinuxContainerResources:
    return pods.resources(pod.spec, guaranteed("c", mcpu), site.kubelet.node)


async def resize(site: Site, pod: RunningPod, mcpu: int) -> None:
    await site.kubelet.update(pod.container_id("c"), resources(site, pod, mcpu))


async def pair(site: Site) -> tuple[RunningPod, str]:
    sharer = (await site.run("s", SHARES)).container_id("c")
    await site.run("busy", BUSY_AFTER)
    return await site.run("a", guaranteed("c", 2000)), sharer


async def test_the_kubelets_cpuset_never_passes_and_everything_else_does(site: Site) -> None:
    a, _ = await pair(site)
    linux = pb.LinuxContainerResources(cpuset_cpus="0-7", cpuset_mems="0-1", memory_limit_in_bytes=1 << 20)
    await site.kubelet.update(a.container_id("c"), linux)
    record = site.runtime.record(a.container_id("c"))
    assert (record.cpuset_cpus, record.cpuset_mems, record.memory_limit_in_bytes) == ("4-5", "1", 1 << 20)


async def test_growth_keeps_what_it_has_and_waits_until_others_have_left_the_rest(site: Site) -> None:
    a, sharer = await pair(site)
    gate = site.runtime.faults.block(UPDATE)
    growing = background(resize(site, a, 3000))
    await entered(gate)
    assert (gate.waiting, site.cpus(a.container_id("c"))) == (1, "4-5")
    gate.release()
    await growing
    assert (site.cpus(a.container_id("c")), site.cpus(sharer)) == ("4-6", "7")


async def test_shrinking_gives_cpus_back_to_the_others(site: Site) -> None:
    a, sharer = await pair(site)
    await resize(site, a, 1000)
    await site.node.settle()
    assert (site.cpus(a.container_id("c")), site.cpus(sharer)) == ("4", "5-7")


async def test_a_resize_that_the_runtime_refuses_changes_nothing(site: Site) -> None:
    a, _ = await pair(site)
    before = site.recorded()
    site.runtime.faults.fail_next(
        UPDATE, 2, "no", matches=lambda m: bool(pb.UpdateContainerResourcesRequest.FromString(m).linux.cpu_shares)
    )
    with pytest.raises(CallFailed):
        await resize(site, a, 3000)
    await site.node.settle()
    assert (site.recorded(), str(owned(site, a.container_id("c")))) == (before, "4-5")


async def test_a_resize_that_does_not_fit_is_refused(site: Site) -> None:
    a, _ = await pair(site)
    with pytest.raises(CallFailed, match="wanted 9 exclusive CPUs") as refused:
        await resize(site, a, 9000)
    assert (refused.value.code, str(owned(site, a.container_id("c")))) == (8, "4-5")


async def test_before_a_resize_is_refused_the_runtime_is_asked_who_has_ended() -> None:
    """A runtime without events tells of an exit in its lists only."""
    async with opened(Site(modern=False)) as site:
        ended, grows = await site.run("a", guaranteed("c", 3000)), await site.run("b", guaranteed("c", 3000))
        site.runtime.exit(ended.container_id("c"))
        await resize(site, grows, 6000)
        assert site.cpus(grows.container_id("c")) == "1-6"


async def test_after_a_resize_without_an_answer_the_pinning_is_sent_again(site: Site) -> None:
    a, _ = await pair(site)
    site.runtime.faults.fail_next(
        UPDATE,
        4,
        "deadline exceeded",
        after=True,
        matches=lambda m: bool(pb.UpdateContainerResourcesRequest.FromString(m).linux.cpu_shares),
    )
    with pytest.raises(CallFailed):
        await resize(site, a, 3000)
    await site.node.settle()
    last = site.runtime.updates[-1]
    assert (last.container_id, last.cpus) == (a.container_id("c"), "4-6")


async def test_the_new_size_is_saved_before_the_runtime_hears_of_it(site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2000))
    gate = site.runtime.faults.block(UPDATE)
    growing = background(resize(site, a, 3000))
    await entered(gate)
    (row,) = site.store.load().rows
    assert (str(row.grant.owned), str(row.acknowledged and row.acknowledged.cpus)) == ("4-6", "4-6")
    gate.release()
    await growing


async def test_a_new_size_that_cannot_be_saved_is_refused_where_the_operator_says_so() -> None:
    async with opened(Site(rules=REJECT)) as site:
        a = await site.run("a", guaranteed("c", 2000))
        site.store.failure = StoreError("state.db", "disk full")
        with pytest.raises(CallFailed, match="disk full"):
            await resize(site, a, 3000)
        assert str(owned(site, a.container_id("c"))) == "4-5"
        await resize(site, a, 2000)  # the lock is free, and this changes nothing that must be saved


async def test_a_resize_that_is_called_off_while_others_are_in_the_way_is_undone(site: Site) -> None:
    a, _ = await pair(site)
    gate = site.runtime.faults.block(UPDATE)
    growing = background(resize(site, a, 3000))
    await entered(gate)
    growing.cancel()
    await asyncio.wait([growing])
    gate.release()
    await site.node.settle()
    assert str(owned(site, a.container_id("c"))) == "4-5"
    await resize(site, a, 3000)


async def test_two_resizes_that_need_each_others_cpus_do_not_wait_in_a_circle(site: Site) -> None:
    mixed = [await site.run(name, guaranteed("c", 1500)) for name in ("a", "b")]
    async with asyncio.timeout(20):
        await asyncio.gather(*(resize(site, pod, 2500) for pod in mixed))
    first, second = (owned(site, pod.container_id("c")) for pod in mixed)
    assert first.isdisjoint(second)


async def test_an_update_of_a_container_that_is_not_ours_passes_as_it_is(site: Site) -> None:
    request = pb.UpdateContainerResourcesRequest(container_id="unknown")
    assert await site.interceptor._updates.plan(site.interceptor._reader, request) is None


def pod_of(mcpu: int, limit_mcpu: int) -> pods.PodSpec:
    """A pod with resources of its own and two containers without any."""
    amounts = pods.PodAmounts(mcpu, limit_mcpu, 64 << 20, 64 << 20)
    return pods.PodSpec("p", (ContainerSpec("c"), ContainerSpec("d")), amounts=amounts)


async def update_sandbox(site: Site, pod: RunningPod, spec: pods.PodSpec) -> None:
    resources = pods.sandbox_config(spec, site.kubelet.node).linux.resources
    request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod.sandbox_id, resources=resources)
    await site.kubelet.call("UpdatePodSandboxResources", request, pb.UpdatePodSandboxResourcesResponse)


async def update_containers(site: Site, pod: RunningPod, spec: pods.PodSpec) -> None:
    for container in spec.containers:
        linux = pods.resources(spec, container, site.kubelet.node)
        await site.kubelet.update(pod.container_id(container.name), linux)
    await site.node.settle()


def cpus_of(site: Site, pod: RunningPod) -> CpuSet:
    """The CPUs of its containers, which are the same."""
    (text,) = {site.cpus(container_id) for _, container_id in pod.containers}
    return CpuSet.parse(text)


async def test_a_pod_with_resources_of_its_own_grows_and_shrinks_as_one_owner(site: Site) -> None:
    pod = await site.run_spec(pod_of(2000, 2000))
    two = cpus_of(site, pod)
    await update_sandbox(site, pod, pod_of(3000, 3000))  # what grows comes to the pod first
    await update_containers(site, pod, pod_of(3000, 3000))
    three = cpus_of(site, pod)
    await update_containers(site, pod, pod_of(1000, 1000))  # what shrinks comes to the containers first
    await update_sandbox(site, pod, pod_of(1000, 1000))
    one = cpus_of(site, pod)
    assert ([len(cpus) for cpus in (one, two, three)], one <= two <= three) == ([1, 2, 3], True)
    assert {row.grant.owned for row in site.node.context.ledger.active()} == {one}


async def test_growth_of_a_pod_that_does_not_fit_is_refused(site: Site) -> None:
    pod = await site.run_spec(pod_of(2000, 2000))
    before = cpus_of(site, pod)
    await update_sandbox(site, pod, pod_of(9000, 9000))
    with pytest.raises(CallFailed, match="wanted 9 exclusive CPUs"):
        await update_containers(site, pod, pod_of(9000, 9000))
    assert cpus_of(site, pod) == before


async def test_a_new_request_of_a_pod_alone_is_booked_when_the_sandbox_is_told(site: Site) -> None:
    pod = await site.run_spec(pod_of(1000, 4000))
    booked = {row.grant.shared_mcpu for row in site.node.context.ledger.active()}
    await update_sandbox(site, pod, pod_of(3000, 4000))
    await site.node.settle()
    assert (booked, {row.grant.shared_mcpu for row in site.node.context.ledger.active()}) == ({1000}, {3000})


async def claimed_cpus(names: Sequence[str]) -> Variables:
    return (("DRA_CPUSET_x", "5-6"),)


async def test_a_new_request_of_a_pod_is_for_those_that_have_no_claim(site: Site) -> None:
    site.interceptor.use_reader(replace(site.interceptor._reader, cdi=ScriptedCdi(variables=claimed_cpus)))
    amounts = pods.PodAmounts(3000, 6000, 64 << 20, 64 << 20)
    spec = pods.PodSpec("p", tuple(map(ContainerSpec, "abcd")), amounts=amounts)
    sandbox_id = await site.kubelet.run_sandbox(spec)
    for container in spec.containers:
        asked = pods.create_request(spec, container, sandbox_id, node=site.kubelet.node)
        if container.name in "ab":
            asked.config.CDI_devices.add(name="dra.k8s.io/cpu=x")
        await site.kubelet.create_as(asked)
    before = {row.key.name: row.grant.booked_for_mcpu for row in site.node.context.ledger.active()}
    larger = replace(spec, amounts=replace(amounts, cpu_request_mcpu=5000))
    await update_sandbox(site, RunningPod(spec, sandbox_id, ()), larger)
    after = {row.key.name: row.grant.booked_for_mcpu for row in site.node.context.ledger.active()}
    assert (before, after) == (
        {"a": 2000, "b": 2000, "c": 1000, "d": 1000},
        {"a": 2000, "b": 2000, "c": 3000, "d": 3000},
    )
