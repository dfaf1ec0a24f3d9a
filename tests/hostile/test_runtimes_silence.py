"""A runtime that does not say what became of a start."""

import asyncio

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.barrier import CLEAR_SECONDS
from tests.hostile.hostile_runtime import of
from tests.hostile.node import AttackedNode
from tests.unit.cri_proxy.node.stage import background

START = "StartContainer"
SHARES = ContainerSpec("c", cpu_request_mcpu=100)


async def created(node: AttackedNode, name: str, container: ContainerSpec) -> str:
    spec = PodSpec(name, (container,))
    return await node.kubelet.create(spec, container, await node.kubelet.run_sandbox(spec))


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
        notes = [note for view in status.containers if view.container_id in hanging for note in view.notes]
        assert sum("has not answered its StartContainer" in note for note in notes) == len(hanging)
        node.runtime.behave()
        await asyncio.gather(*starts)
