"""The kubelet's calls, on the embedded runtime."""

import asyncio
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.testbed.errors import TryoutError
from tests.testbed.inside import allowed_inside, output_of
from tests.testbed.pod_kubelet import PodKubelet

WEB = PodSpec("web", (guaranteed("c0", 1000), ContainerSpec("c1")), labels=(("app", "web"),))


class Told(ScriptedRuntime):
    """Keeps the methods that it was called by, in order, and the grace period of each stop."""

    def __init__(self) -> None:
        super().__init__(small_machine())
        self.methods: list[str] = []
        self.grace_seconds: list[int] = []

    async def call(self, method: str, message: bytes) -> bytes:
        self.methods.append(method.rpartition("/")[2])
        if method.endswith("/StopContainer"):
            self.grace_seconds.append(pb.StopContainerRequest.FromString(message).timeout)
        return await super().call(method, message)


@pytest.fixture
def runtime() -> Told:
    return Told()


@pytest.fixture
def kubelet(runtime: Told, tmp_path: Path) -> PodKubelet:
    return PodKubelet(runtime, KubeletNode(1 << 30, log_directory=str(tmp_path), image=DEFAULT_IMAGE))


async def test_a_pod_runs_with_its_containers_in_order(kubelet: PodKubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    assert [name for name, _ in pod.containers] == ["c0", "c1"]
    status = await kubelet.status(pod.container_id("c1"))
    assert status.status.state == pb.CONTAINER_RUNNING


async def test_the_sandbox_is_looked_at_and_the_image_before_each_container(runtime: Told, kubelet: PodKubelet) -> None:
    await kubelet.run_pod(WEB)
    container = ["ImageStatus", "CreateContainer", "StartContainer"]
    assert runtime.methods == ["RunPodSandbox", "PodSandboxStatus", *container, *container]


async def test_a_pods_containers_are_stopped_at_once_before_its_sandbox(runtime: Told, kubelet: PodKubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    runtime.methods.clear()
    gate = runtime.faults.block("StopContainer")
    killing = asyncio.get_running_loop().create_task(kubelet.kill_pod(pod.sandbox_id, grace_seconds=30))
    await gate.entered()
    await asyncio.sleep(0)
    assert (gate.waiting, runtime.methods) == (2, ["ListContainers", "StopContainer", "StopContainer"])
    gate.release()
    await killing
    assert runtime.methods[3:] == ["StopPodSandbox"]
    assert runtime.grace_seconds == [30, 30]
    runtime.methods.clear()
    await kubelet.collect_pod(pod.sandbox_id)
    removed = ["RemoveContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"]
    assert runtime.methods == ["ListContainers", *removed]


async def test_a_container_that_was_never_started_goes_with_its_sandbox(runtime: Told, kubelet: PodKubelet) -> None:
    sandbox_id = await kubelet.run_sandbox(WEB)
    await kubelet.create(WEB, WEB.containers[0], sandbox_id)
    runtime.methods.clear()
    await kubelet.kill_pod(sandbox_id)
    assert runtime.methods == ["ListContainers", "StopPodSandbox"]


async def test_a_container_that_cannot_be_stopped_keeps_no_sandbox(runtime: Told, kubelet: PodKubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    runtime.faults.fail_next("StopContainer", 4, "deadline exceeded")
    with pytest.raises(CallFailed, match="deadline exceeded"):
        await kubelet.remove_pod(pod.sandbox_id)
    assert runtime.methods[-1] == "StopPodSandbox"


async def test_an_update_is_seen_from_inside(kubelet: PodKubelet) -> None:
    container_id = (await kubelet.run_pod(WEB)).container_id("c0")
    await kubelet.update(container_id, pb.LinuxContainerResources(cpuset_cpus="1"))
    assert (await allowed_inside(kubelet, container_id)).cpus == CpuSet.of([1])


async def test_a_container_has_a_process(kubelet: PodKubelet) -> None:
    assert await kubelet.pid((await kubelet.run_pod(WEB)).container_id("c0")) > 0


async def test_a_removed_pod_is_gone_and_may_be_removed_again(kubelet: PodKubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    assert await kubelet.sandboxes({"app": "web"}) == (pod.sandbox_id,)
    await kubelet.remove_pod(pod.sandbox_id)
    await kubelet.remove_pod(pod.sandbox_id)
    assert await kubelet.sandboxes() == ()


async def test_a_container_can_be_stopped_removed_and_made_again(kubelet: PodKubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    await kubelet.stop(pod.container_id("c0"))
    await kubelet.remove(pod.container_id("c0"))
    again = await kubelet.create(WEB, WEB.containers[0], pod.sandbox_id, attempt=1)
    await kubelet.start(again)
    assert (await kubelet.status(again)).status.metadata.attempt == 1


async def test_a_command_that_fails_inside_is_an_error_with_its_words(kubelet: PodKubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    with pytest.raises(TryoutError, match="exit status"):
        await output_of(kubelet, pod.container_id("c0"), "/bin/nothing")


async def test_a_refusal_of_the_runtime_reaches_the_caller(kubelet: PodKubelet) -> None:
    with pytest.raises(CallFailed):
        await kubelet.start("none")
