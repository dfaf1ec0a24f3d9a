"""A CPU comes back on every way that a container can end, and the last CPU is usable. The lower CPU is reserved."""

import signal
from collections.abc import Awaitable, Callable

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import SETTLE_SECONDS, Stage, TwoCpus, refusal
from tests.testbed.inside import allowed_inside
from tests.testbed.wait import until

ONE_CPU = guaranteed("c0", 1000)


@pytest.fixture(scope="module")
def options(two: TwoCpus) -> tuple[str, ...]:
    return two.low_reserved


async def stop_container(stage: Stage, pod: RunningPod) -> None:
    await stage.kubelet.stop(pod.container_id("c0"))


async def remove_container(stage: Stage, pod: RunningPod) -> None:
    await stage.kubelet.stop(pod.container_id("c0"))
    await stage.kubelet.remove(pod.container_id("c0"))


async def remove_pod(stage: Stage, pod: RunningPod) -> None:
    await stage.kubelet.remove_pod(pod.sandbox_id)


async def exit_by_itself(stage: Stage, pod: RunningPod) -> None:
    """The runtime alone sees the end: nobody calls the proxy."""
    await stage.direct.stop(pod.container_id("c0"))


@pytest.mark.parametrize("end", [stop_container, remove_container, remove_pod, exit_by_itself])
async def test_the_last_cpu_is_given_again_after(
    stage: Stage, two: TwoCpus, end: Callable[[Stage, RunningPod], Awaitable[None]]
) -> None:
    first = await stage.run("first", ONE_CPU)
    assert await stage.cpus(first) == CpuSet.of([two.high])
    await end(stage, first)
    assert await stage.cpus(await stage.run("second", ONE_CPU)) == CpuSet.of([two.high])


async def test_a_create_that_the_runtime_refuses_gives_its_cpu_back(stage: Stage, two: TwoCpus) -> None:
    spec = PodSpec("refused", (ONE_CPU,), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    request = create_request(spec, ONE_CPU, sandbox_id, node=stage.kubelet.node)
    request.config.image.image = "cri-proxy.local/none:1"
    call = ("CreateContainer", request, pb.CreateContainerResponse)
    direct, proxied = await refusal(stage.direct.call(*call)), await refusal(stage.kubelet.call(*call))
    assert (proxied.code, proxied.message) == (direct.code, direct.message)
    assert await stage.cpus(await stage.run("next", ONE_CPU)) == CpuSet.of([two.high])


async def test_a_full_machine_refuses_in_one_sentence_with_what_was_wanted_and_what_is_free(stage: Stage) -> None:
    await stage.run("first", ONE_CPU)
    refused = await refusal(stage.run("second", ONE_CPU))
    assert len(refused.message.splitlines()) == 1
    assert "wanted 1 exclusive CPU; free in root:" in refused.message


async def test_system_pods_run_on_the_reserved_cpu(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("agent", ContainerSpec("c0", cpu_request_mcpu=100), namespace="kube-system")
    assert await stage.cpus(pod) == CpuSet.of([two.low])


async def test_containers_that_ask_for_nothing_make_way_for_the_last_cpu(stage: Stage, two: TwoCpus) -> None:
    nothing = await stage.run("nothing", ContainerSpec("c0"))
    assert await stage.cpus(nothing) == CpuSet.of([two.high])
    alone = await stage.run("alone", ONE_CPU)
    assert await stage.cpus(alone) == CpuSet.of([two.high])
    assert await stage.cpus(nothing) == CpuSet.of([two.low])


async def test_a_container_that_ends_and_is_made_again_gets_its_cpu_back(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("again", ONE_CPU)
    await exit_by_itself(stage, pod)
    await stage.kubelet.remove(pod.container_id("c0"))
    made = await stage.kubelet.create(pod.spec, ONE_CPU, pod.sandbox_id, attempt=1)
    await stage.kubelet.start(made)

    async def allowed() -> bool:
        return (await allowed_inside(stage.direct, made, process="1")).cpus == CpuSet.of([two.high])

    assert await until("the second attempt has the CPU", allowed, seconds=SETTLE_SECONDS)


async def nothing(stage: Stage) -> None:
    """The next slow check finds it, or one before a refusal."""


async def proxy_restarts(stage: Stage) -> None:
    await stage.daemon.restart(signal.SIGKILL)


async def runtime_restarts(stage: Stage) -> None:
    await stage.containerd.halt(signal.SIGKILL)
    await stage.launch_runtime()


async def left_created(stage: Stage, between: Callable[[Stage], Awaitable[None]] = nothing) -> str:
    """An attempt that is never started; the next one has run and ended."""
    spec = PodSpec("job", (ONE_CPU,), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    first = await stage.kubelet.create(spec, ONE_CPU, sandbox_id)
    await between(stage)
    second = await stage.kubelet.create(spec, ONE_CPU, sandbox_id, attempt=1)
    await stage.kubelet.start(second)
    await stage.direct.stop(second)
    return first


@pytest.mark.parametrize("then", [nothing, proxy_restarts, runtime_restarts])
async def test_an_attempt_that_was_never_started_holds_no_cpu_once_the_next_one_has_ended(
    stage: Stage, two: TwoCpus, then: Callable[[Stage], Awaitable[None]]
) -> None:
    first = await left_created(stage)
    await then(stage)
    assert (await stage.direct.status(first)).status.state == pb.CONTAINER_CREATED
    assert await stage.cpus(await stage.run("next", ONE_CPU)) == CpuSet.of([two.high])
    await stage.kubelet.start(first)
    assert (await allowed_inside(stage.direct, first, process="1")).cpus == CpuSet.of([two.low])


async def test_an_attempt_whose_start_failed_with_the_proxy_holds_no_cpu_once_the_next_one_has_ended(
    stage: Stage, two: TwoCpus
) -> None:
    """Another container gets its CPU; it starts when that start is known not to come."""
    await left_created(stage, proxy_restarts)
    spec = PodSpec("next", (ONE_CPU,), namespace="e2e")
    await stage.kubelet.create(spec, ONE_CPU, await stage.kubelet.run_sandbox(spec))
    shown = {c.pod: c.exclusive for c in (await stage.daemon.admin.status()).containers}
    assert shown == {"next": CpuSet.of([two.high])}
