from cri_proxy.cri_client.pods import PodSpec, guaranteed
from sysfs.cpuset import CpuSet
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import OWNS_2, SHARES, background, direct, entered, holders, owned


async def test_running_containers_are_adopted_guaranteed_and_large_ones_first(site: Site) -> None:
    small = (await direct(site).run_pod(PodSpec("small", (SHARES,)))).container_id("c")
    large = (await direct(site).run_pod(PodSpec("large", (guaranteed("c", 3000),)))).container_id("c")
    await site.open()
    assert len(owned(site, large)) == 3
    assert CpuSet.parse(site.cpus(small)).isdisjoint(owned(site, large))


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
