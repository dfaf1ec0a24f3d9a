"""What the other tests here stand on: a pod that containerd does not let go of harms no test but its own."""

import asyncio

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from cri_proxy.errors import CallFailed
from tests.e2e.stage import Stage
from tests.testbed.errors import TryoutError

KEPT = PodSpec("kept", (ContainerSpec("c0"),), namespace="e2e")
REFUSAL = "cannot delete running task"


@pytest.fixture
async def kept(stage: Stage) -> tuple[str, str]:
    """The ids of a sandbox and of its container, which has a task that CRI knows nothing of."""
    sandbox_id = await stage.kubelet.run_sandbox(KEPT)
    container_id = await stage.kubelet.create(KEPT, KEPT.containers[0], sandbox_id)
    stage.containerd.ctr("tasks", "start", "--detach", container_id)
    return sandbox_id, container_id


async def test_a_pod_that_cannot_be_removed_yet_is_removed_once_it_can(stage: Stage, kept: tuple[str, str]) -> None:
    sandbox_id, container_id = kept
    with pytest.raises(CallFailed, match=REFUSAL):
        await stage.kubelet.remove_pod(sandbox_id)
    removing = asyncio.get_running_loop().create_task(stage.remove_pod(sandbox_id))
    stage.containerd.ctr("tasks", "delete", "--force", container_id)
    await removing
    assert await stage.kubelet.sandboxes() == ()


async def test_a_pod_that_never_can_be_is_told_and_is_gone_all_the_same(stage: Stage, kept: tuple[str, str]) -> None:
    with pytest.raises(TryoutError, match=f"{kept[0]} is removed.*{REFUSAL}"):
        await stage.remove_pods(seconds=0)
    assert await stage.kubelet.sandboxes() == ()
    assert (await stage.daemon.admin.status()).containers == ()


async def test_a_daemon_that_a_test_left_stopped_runs_again(stage: Stage) -> None:
    await stage.daemon.stop()
    await stage.tidy()
    assert await stage.daemon.admin.decides()
