"""A runtime that does not say what became of a start."""

import asyncio

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.barrier import CLEAR_SECONDS
from tests.fakes.scripted_runtime import Gate
from tests.hostile.bystander import ANSWER_SECONDS
from tests.hostile.hostile_runtime import of
from tests.hostile.node import MACHINE, AttackedNode, Place
from tests.testbed.wait import until
from tests.unit.cri_proxy.node.stage import background

START = "StartContainer"
ONE_POOL = ("--available-resources", f"cpu=cpuset:{MACHINE.packages[0].cpus}")
SHARES = ContainerSpec("c", cpu_request_mcpu=100)


async def created(node: AttackedNode, name: str, container: ContainerSpec) -> str:
    spec = PodSpec(name, (container,))
    return await node.kubelet.create(spec, container, await node.kubelet.run_sandbox(spec))


async def notes(node: AttackedNode, container_id: str) -> tuple[str, ...]:
    views = (await node.daemon.admin.status()).containers
    return next(view.notes for view in views if view.container_id == container_id)


async def test_a_start_that_hangs_keeps_no_other_start_waiting(node: AttackedNode) -> None:
    """The runtime never answers the start of containers that share: who needs their CPUs goes elsewhere, or is told."""
    async with node.under_attack():
        hanging = [await created(node, name, SHARES) for name in ("s", "t")]
        for container_id in hanging:
            node.runtime.never_answer(START, of(container_id))
        starts = [background(node.kubelet.start(container_id)) for container_id in hanging]
        refusals = []
        for number in range(3):
            owner = await created(node, f"a{number}", guaranteed("c", 1000))
            try:
                async with asyncio.timeout(4 * CLEAR_SECONDS):
                    await node.kubelet.start(owner)
            except CallFailed as refused:
                refusals.append(refused.message)
        assert all("has not answered its StartContainer" in refusal for refusal in refusals), refusals
        status = await node.daemon.admin.status()
        assert not status.violations
        said = [note for container_id in hanging for note in await notes(node, container_id)]
        assert sum("has not answered its StartContainer" in note for note in said) == len(hanging)
        node.runtime.behave()
        await asyncio.gather(*starts)


async def hanging(node: AttackedNode, name: str) -> tuple[str, Gate, asyncio.Task[None]]:
    """A container that shares, whose start the runtime has and does not answer."""
    container_id = await created(node, name, SHARES)
    gate = node.runtime.faults.hang(START, of(container_id))
    start = background(node.kubelet.start(container_id))
    await gate.entered()
    return container_id, gate, start


async def test_starts_that_hang_one_after_another_leave_room_for_owners(place: Place) -> None:
    """Containers that share hang at their start, three of them created meanwhile: when one start ends, owners fit."""
    async with place.node(options=ONE_POOL) as node, node.under_attack():
        first, gate, start = await hanging(node, "s")

        async def is_known() -> bool:
            return any("has not answered" in note for note in await notes(node, first))

        await until("it is known that the start hangs", is_known, seconds=ANSWER_SECONDS)
        starts = [(await hanging(node, name))[2] for name in ("t", "u", "v")]
        gate.release()
        await start
        owner = await created(node, "a", guaranteed("c", 2000))
        async with asyncio.timeout(2 * CLEAR_SECONDS):
            await node.kubelet.start(owner)
        status = await node.daemon.admin.status()
        assert not status.violations
        assert all(view.cpus for view in status.containers)
        node.runtime.behave()
        await asyncio.gather(*starts)


async def test_an_owner_starts_beside_the_first_start_that_hangs(place: Place) -> None:
    """A start hangs on a machine of one pool and three sharers come after it: an owner of 2 CPUs does not wait."""
    async with place.node(options=ONE_POOL) as node, node.under_attack():
        _, _, start = await hanging(node, "s")
        for name in ("t", "u", "v"):
            await node.kubelet.start(await created(node, name, SHARES))
        owner = await created(node, "a", guaranteed("c", 2000))
        async with asyncio.timeout(2 * CLEAR_SECONDS):
            await node.kubelet.start(owner)
        status = await node.daemon.admin.status()
        assert not status.violations
        assert all(view.cpus for view in status.containers)
        node.runtime.behave()
        await start
