"""The kubelet's calls, on the embedded runtime."""

from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.errors import TryoutError
from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime

WEB = PodSpec("web", (guaranteed("c0", 1000), ContainerSpec("c1")), labels=(("app", "web"),))


@pytest.fixture
def kubelet(tmp_path: Path) -> Kubelet:
    node = KubeletNode(1 << 30, log_directory=str(tmp_path), image=DEFAULT_IMAGE)
    return Kubelet(ScriptedRuntime(small_machine()), node)


async def test_a_pod_runs_with_its_containers_in_order(kubelet: Kubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    assert [name for name, _ in pod.containers] == ["c0", "c1"]
    status = await kubelet.status(pod.container_id("c1"))
    assert status.status.state == pb.CONTAINER_RUNNING


async def test_an_update_is_seen_from_inside(kubelet: Kubelet) -> None:
    container_id = (await kubelet.run_pod(WEB)).container_id("c0")
    await kubelet.update(container_id, pb.LinuxContainerResources(cpuset_cpus="1"))
    assert (await kubelet.allowed(container_id)).cpus == CpuSet.of([1])


async def test_a_container_has_a_process(kubelet: Kubelet) -> None:
    assert await kubelet.pid((await kubelet.run_pod(WEB)).container_id("c0")) > 0


async def test_a_removed_pod_is_gone_and_may_be_removed_again(kubelet: Kubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    assert await kubelet.sandboxes({"app": "web"}) == (pod.sandbox_id,)
    await kubelet.remove_pod(pod.sandbox_id)
    await kubelet.remove_pod(pod.sandbox_id)
    assert await kubelet.sandboxes() == ()


async def test_a_container_can_be_stopped_removed_and_made_again(kubelet: Kubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    await kubelet.stop(pod.container_id("c0"))
    await kubelet.remove(pod.container_id("c0"))
    again = await kubelet.create(WEB, WEB.containers[0], pod.sandbox_id, attempt=1)
    await kubelet.start(again)
    assert (await kubelet.status(again)).status.metadata.attempt == 1


async def test_a_command_that_fails_inside_is_an_error_with_its_words(kubelet: Kubelet) -> None:
    pod = await kubelet.run_pod(WEB)
    with pytest.raises(TryoutError, match="exit status"):
        await kubelet.execute(pod.container_id("c0"), "/bin/nothing")


async def test_a_refusal_of_the_runtime_reaches_the_caller(kubelet: Kubelet) -> None:
    with pytest.raises(CallFailed):
        await kubelet.start("none")
