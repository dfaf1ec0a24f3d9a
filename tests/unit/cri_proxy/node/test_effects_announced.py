"""What is on the disk when a call goes out: a kill may come before its answer."""

from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.node.effects import is_announced
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.grants import row
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import background, entered

UPDATE = "UpdateContainerResources"
SHARES = ContainerSpec("c", cpu_request_mcpu=500)


async def test_an_update_that_nobody_lived_to_see_answered_is_sent_again_by_the_next_process(site: Site) -> None:
    sharer = (await site.run("s", SHARES)).container_id("c")
    owner = await site.run("a", guaranteed("c", 2000))
    gate = site.runtime.faults.block(UPDATE)
    await site.kubelet.remove_pod(owner.sandbox_id)
    await entered(gate)
    await site.node.effects.close()  # the growth never reached the kernel
    site.runtime.faults.clear()
    assert site.cpus(sharer) == "6-7"
    await site.open()
    assert site.cpus(sharer) == "4-7"


async def test_a_shrink_is_noted_before_it_goes_out_as_well(site: Site) -> None:
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.block(UPDATE)
    start = background(site.run("a", guaranteed("c", 2000)))
    await entered(gate)
    unconfirmed = {saved.container_id: saved.unconfirmed for saved in site.store.load().rows}
    assert unconfirmed[sharer] == Pinning(CpuSet.parse("6-7"), None)
    gate.release()
    await start


def test_what_is_confirmed_or_doubted_already_needs_no_announcement() -> None:
    there = row("a", owned="1", acknowledged="1")
    assert is_announced(there, Pinning(CpuSet.parse("1"), None))
    assert not is_announced(there, Pinning(CpuSet.parse("2"), None))
    assert not is_announced(there, Pinning(None, NodeSet.parse("0")))
