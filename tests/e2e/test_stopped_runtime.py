"""containerd is stopped in the middle of calls and goes on later: calls keep their deadlines, and nothing is lost.

Whatever became of the call that was given up, afterwards the daemon holds what containerd has and nothing else, and
the kernel has everybody where the daemon says. One CPU is reserved, so that there is a bystander that never moves.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from sysfs.cpuset import CpuSet
from tests.e2e.stage import RETURN_SECONDS, Stage, TwoCpus, standing_still
from tests.fakes.waiting import holds
from tests.testbed.kernel import read_allowed
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

# Who waits several times for the slow check waits longer than other tests.
pytestmark = pytest.mark.timeout(600)

DEADLINE_SECONDS, SLACK_SECONDS = 1.0, 20.0
SETTLED_SECONDS = 90.0  # a container that came after it was asked for is found by the slow check, every 30 s
RUNNING, LIVE = pb.CONTAINER_RUNNING, (pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING)
VICTIM = PodSpec("victim", (guaranteed("c0", 1000),), namespace="e2e")
# How long containerd has the call before it is stopped; None: it is stopped before the call comes
HEAD_STARTS = pytest.mark.parametrize("head_start", [None, 0.02], ids=["before", "amidst"])


@pytest.fixture(scope="module")
def options(two: TwoCpus) -> tuple[str, ...]:
    return two.low_reserved


@dataclass(frozen=True, slots=True)
class Bystanders:
    """Containers that nothing is done to: one on the reserved CPU, one that takes what others leave."""

    system: int  # the first process of each, as the host numbers it
    idle: int
    before: tuple[CpuSet, CpuSet]

    def now(self) -> tuple[CpuSet, CpuSet]:
        return on(self.system), on(self.idle)


class Impatient(PodKubelet):
    """Gives each call a short deadline."""

    call_seconds = DEADLINE_SECONDS

    async def create_as(self, request: pb.CreateContainerRequest) -> str:
        """Create without a look at the image: the create is the call that a stopped containerd is to have."""
        return (await self.call("CreateContainer", request, pb.CreateContainerResponse)).container_id


def on(pid: int) -> CpuSet:
    return read_allowed(Path(f"/proc/{pid}/status").read_text()).cpus


async def bystanders(stage: Stage) -> Bystanders:
    system = await stage.run("system", ContainerSpec("c0", cpu_request_mcpu=100), namespace="kube-system")
    idle = await stage.run("idle", ContainerSpec("c0"))
    pids = [await stage.direct.pid(pod.container_id("c0")) for pod in (system, idle)]
    return Bystanders(pids[0], pids[1], (on(pids[0]), on(pids[1])))


async def given_up(
    stage: Stage, call: Callable[[PodKubelet], Coroutine[object, object, None]], head_start: float | None
) -> None:
    """This call, with containerd stopped in it: over by its deadline; soon after the stop all is well again."""
    kubelet = Impatient(stage.to_proxy, stage.containerd.node)
    task = None if head_start is None else asyncio.get_running_loop().create_task(call(kubelet))
    await asyncio.sleep(head_start or 0)
    async with standing_still(stage.containerd.pid):
        async with asyncio.timeout(DEADLINE_SECONDS + SLACK_SECONDS):
            if task is not None:
                with suppress(CallFailed, RuntimeUnavailable):  # it may have been faster than the signal
                    await task
            else:
                with pytest.raises((CallFailed, RuntimeUnavailable)):
                    await call(kubelet)
        async with asyncio.timeout(DEADLINE_SECONDS + SLACK_SECONDS):
            with pytest.raises((CallFailed, RuntimeUnavailable)):
                await kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
    async with asyncio.timeout(RETURN_SECONDS):
        await stage.kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)


async def agreed(stage: Stage, pod: RunningPod | None = None) -> dict[str, CpuSet]:
    """The CPUs of what lives, by container id: the same for containerd, the kernel and the daemon.

    Of ``pod`` nothing older than its containers is left: what comes of a call that was given up may come late.
    """

    async def same() -> dict[str, CpuSet] | None:
        if pod is not None:
            await remove_older(stage, pod)
        reply = await stage.direct.call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
        live = {c.id: c.state for c in reply.containers if c.state in LIVE}
        views = {view.container_id: view for view in (await stage.daemon.admin.status()).containers}
        if views.keys() != live.keys():
            return None
        pids = {i: await stage.direct.pid(i) for i, state in live.items() if state == RUNNING}
        found = {container_id: on(pid) for container_id, pid in pids.items()}
        return found if all(views[i].cpus == cpus for i, cpus in found.items()) else None

    return await until("daemon, kernel and containerd agree", same, seconds=SETTLED_SECONDS)


async def made_run(stage: Stage, sandbox_id: str, container_id: str = "") -> RunningPod:
    """As the kubelet does it: started, or where that fails another one made in its place."""
    for attempt in range(1, 6):
        if container_id and await starts(stage, container_id):
            break
        container_id = await stage.kubelet.create(VICTIM, VICTIM.containers[0], sandbox_id, attempt=attempt)
    return RunningPod(VICTIM, sandbox_id, (("c0", container_id),))


async def remove_older(stage: Stage, pod: RunningPod) -> None:
    """Remove what else the pod has, as the kubelet's collector does; what cannot be removed yet is left for now."""
    request = pb.ListContainersRequest(filter=pb.ContainerFilter(pod_sandbox_id=pod.sandbox_id))
    reply = await stage.direct.call("ListContainers", request, pb.ListContainersResponse)
    for older in (c.id for c in reply.containers if c.id != pod.container_id("c0")):
        with suppress(CallFailed):  # a start that was given up and has not ended
            await stage.kubelet.stop(older)
            await stage.kubelet.remove(older)


async def starts(stage: Stage, container_id: str) -> bool:
    with suppress(CallFailed):  # it runs already, or containerd has ended it with the start that was given up
        await stage.kubelet.start(container_id)
    return (await stage.kubelet.status(container_id)).status.state == RUNNING


async def settled(stage: Stage) -> bool:
    """No outcome is unknown any more."""

    async def known() -> bool:
        return all(view.container_id for view in (await stage.daemon.admin.status()).containers)

    return await until("no creation is pending", known, seconds=SETTLED_SECONDS)


async def goes_on(stage: Stage, around: Bystanders, two: TwoCpus, pod: RunningPod) -> None:
    """The victim has its CPU and nobody else is there; when it has gone, all is as it was."""
    found = await agreed(stage, pod)
    victim = found.pop(pod.container_id("c0"))
    assert victim == CpuSet.of((two.high,))
    assert all(cpus.isdisjoint(victim) for cpus in found.values())
    await stage.remove_pod(pod.sandbox_id)
    assert len(await agreed(stage)) == 2
    await holds("bystanders are where they were", lambda: around.now() == around.before, seconds=SETTLED_SECONDS)


@HEAD_STARTS
async def test_a_create_is_held_until_asked_for_and_then_has_its_place_or_none(
    stage: Stage, two: TwoCpus, head_start: float | None
) -> None:
    around = await bystanders(stage)
    sandbox_id = await stage.kubelet.run_sandbox(VICTIM)

    async def create(kubelet: PodKubelet) -> None:
        await kubelet.create(VICTIM, VICTIM.containers[0], sandbox_id)

    await given_up(stage, create, head_start)
    await settled(stage)
    assert around.now()[0] == around.before[0]
    await goes_on(stage, around, two, await made_run(stage, sandbox_id))


async def test_a_place_is_held_while_nobody_can_be_asked(stage: Stage, two: TwoCpus) -> None:
    around = await bystanders(stage)
    sandbox_id = await stage.kubelet.run_sandbox(VICTIM)
    async with standing_still(stage.containerd.pid):
        with pytest.raises((CallFailed, RuntimeUnavailable)):
            await Impatient(stage.to_proxy, stage.containerd.node).create(VICTIM, VICTIM.containers[0], sandbox_id)

        async def pending() -> CpuSet | None:
            views = (await stage.daemon.admin.status()).containers
            return next((view.exclusive for view in views if view.state == "pending"), None)

        assert await until("it is pending", pending, seconds=SETTLED_SECONDS) == CpuSet.of((two.high,))
        assert around.now()[0] == around.before[0]
    await settled(stage)
    await goes_on(stage, around, two, await made_run(stage, sandbox_id))


@HEAD_STARTS
async def test_a_start_that_was_given_up_can_be_made_again(
    stage: Stage, two: TwoCpus, head_start: float | None
) -> None:
    around = await bystanders(stage)
    sandbox_id = await stage.kubelet.run_sandbox(VICTIM)
    container_id = await stage.kubelet.create(VICTIM, VICTIM.containers[0], sandbox_id)
    await given_up(stage, lambda kubelet: kubelet.start(container_id), head_start)
    assert around.now()[0] == around.before[0]
    await goes_on(stage, around, two, await made_run(stage, sandbox_id, container_id))


@HEAD_STARTS
async def test_an_update_that_was_given_up_is_held_as_the_kubelet_says_it_last(
    stage: Stage, two: TwoCpus, head_start: float | None
) -> None:
    around = await bystanders(stage)
    pod = await stage.kubelet.run_pod(VICTIM)
    smaller, same = (pods.resources(VICTIM, guaranteed("c0", m), stage.containerd.node) for m in (500, 1000))
    await given_up(stage, lambda kubelet: kubelet.update(pod.container_id("c0"), smaller), head_start)
    assert around.now()[0] == around.before[0]
    await agreed(stage)
    await stage.kubelet.update(pod.container_id("c0"), smaller)
    await stage.kubelet.update(pod.container_id("c0"), same)
    await goes_on(stage, around, two, pod)
