"""Calls out of order, twice, and about things that nobody knows; and a clock that is set while the node runs."""

from contextlib import suppress

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.node import POLL_SECONDS
from tests.fakes.site import InstantClock
from tests.faults.sweep import SPEC, Scene, going_on

NOBODY = "f" * 64


class WallClock(InstantClock):
    """One whose time of day can be set, while time goes on as before."""

    set_by_seconds = 0.0

    def now_seconds(self) -> float:
        return super().now_seconds() + self.set_by_seconds


async def test_what_nobody_knows_is_the_runtimes_to_refuse(scene: Scene) -> None:
    await scene.kubelet.remove(NOBODY)
    await scene.kubelet.remove_pod(NOBODY)
    for refused in (scene.kubelet.start(NOBODY), scene.kubelet.stop(NOBODY)):
        with pytest.raises(CallFailed):
            await refused
    with pytest.raises(CallFailed):
        await scene.kubelet.update(NOBODY, pb.LinuxContainerResources(cpu_shares=512))


async def test_every_ending_may_come_twice(scene: Scene) -> None:
    pod = await scene.kubelet.run_pod(SPEC)
    for _ in range(2):
        for _, container_id in pod.containers:
            with suppress(CallFailed):
                await scene.kubelet.stop(container_id)
    for _ in range(2):
        await scene.kubelet.remove(pod.container_id("c"))
    for _ in range(2):
        await scene.kubelet.remove_pod(pod.sandbox_id)


async def test_a_second_create_of_one_name_is_refused_and_the_first_keeps_what_it_has(scene: Scene) -> None:
    pod = await scene.kubelet.run_pod(SPEC)
    before = scene.recorded()
    with pytest.raises(CallFailed, match="reserved"):
        await scene.kubelet.create(SPEC, SPEC.containers[0], pod.sandbox_id)
    await scene.node.settle()
    assert scene.recorded() == before


async def test_a_second_start_is_refused_and_changes_nothing(scene: Scene) -> None:
    pod = await scene.kubelet.run_pod(SPEC)
    before = scene.recorded()
    with pytest.raises(CallFailed):
        await scene.kubelet.start(pod.container_id("c"))
    assert scene.recorded() == before


async def test_an_update_of_one_that_has_exited_takes_nothing(scene: Scene) -> None:
    pod = await scene.kubelet.run_pod(SPEC)
    scene.runtime.exit(pod.container_id("c"))
    grown = pods.resources(SPEC, guaranteed("c", 3000), scene.kubelet.node)
    with suppress(CallFailed):
        await scene.kubelet.update(pod.container_id("c"), grown)


async def test_a_sandbox_may_be_made_anew_for_the_same_pod(scene: Scene) -> None:
    first = await scene.kubelet.run_pod(SPEC)
    await scene.kubelet.remove_pod(first.sandbox_id)
    second = await scene.kubelet.run_pod(SPEC)
    assert scene.cpus(second.container_id("c")) not in ("", scene.cpus(scene.alone))
    await scene.kubelet.remove_pod(first.sandbox_id)  # the old one, once more
    await scene.node.settle()
    assert scene.node.context.ledger.holder(second.container_id("c")) is not None


@pytest.mark.parametrize("seconds", [-86_400.0 * 365, -POLL_SECONDS, POLL_SECONDS, 86_400.0 * 365])
async def test_the_wall_clock_may_be_set(seconds: float) -> None:
    scene = Scene()
    clock = scene.clock = WallClock()
    async with going_on(scene):
        pod = await scene.kubelet.run_pod(SPEC)
        clock.set_by_seconds = seconds
        await scene.node.slow_check()
        await scene.open(scene.look)
        assert scene.runtime.node.containers[pod.container_id("c")].running
