"""An update of a container while its own start is in flight is accepted by runc, and the kernel never sees it.

The embedded runtime does so too (``Container.record`` and ``kernel_cpus`` differ then). The proxy sends nothing until
the start's answer; and where nobody hears the answer it waits until the container runs, or sends again.
"""

import asyncio

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from sysfs.cpuset import CpuSet
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import BUSY, background, direct, entered

SHARES = ContainerSpec("c", cpu_request_mcpu=500)
OWNS_2 = guaranteed("c", 2000)


async def created(site: Site, name: str, container: ContainerSpec) -> str:
    spec = PodSpec(name, (container,))
    return await site.kubelet.create(spec, container, await site.kubelet.run_sandbox(spec))


async def test_the_runtime_accepts_an_update_during_a_start_and_loses_it(site: Site) -> None:
    container = await created(site, "s", SHARES)
    gate = site.runtime.faults.block("StartContainer")
    start = background(direct(site).start(container))
    await entered(gate)
    linux = site.runtime.record(container)
    linux.cpuset_cpus = "7"
    await direct(site).update(container, linux)
    gate.release()
    await start
    assert (site.recorded()[container][0], site.cpus(container)) == ("7", "4-7")


async def test_a_start_that_the_kubelet_gave_up_keeps_others_waiting_until_the_container_runs(site: Site) -> None:
    sharer = await created(site, "s", SHARES)
    site.runtime.starts_outlive_callers = True
    gate = site.runtime.faults.block("StartContainer")
    given_up = background(site.kubelet.start(sharer))
    await entered(gate)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    second = background(site.kubelet.start(owner := await created(site, "a", OWNS_2)))
    assert site.runtime.updates == ()
    gate.release()
    await second
    assert CpuSet.parse(site.cpus(sharer)).isdisjoint(CpuSet.parse(site.cpus(owner)))


async def updated_while_another_client_starts_it(site: Site) -> str:
    await site.run("busy", BUSY)
    sharer = await created(site, "s", SHARES)
    gate = site.runtime.faults.block("StartContainer")
    unseen = background(direct(site).start(sharer))
    await entered(gate)
    await created(site, "a", OWNS_2)
    await site.node.settle()
    assert site.recorded()[sharer][0] == "3"
    gate.release()
    await unseen
    return sharer


async def test_what_was_sent_during_a_start_that_nobody_saw_is_sent_again(site: Site) -> None:
    sharer = await updated_while_another_client_starts_it(site)
    assert site.cpus(sharer) == "1-3", "the runtime has lost it"
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    assert site.cpus(sharer) == "3"


async def test_a_start_that_nobody_saw_is_made_up_for_by_the_next_process_too(site: Site) -> None:
    sharer = await updated_while_another_client_starts_it(site)
    await site.open()
    assert site.cpus(sharer) == "3"
