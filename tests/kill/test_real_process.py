"""The daemon as a process of its own is killed with SIGKILL while a runtime that lives on has a call in hand.

The runtime is the embedded one, in this process, behind a socket; the relay is the splice, the store a file. What the
kill interrupts is told by a seed: the n-th call of a random kind, before or after the runtime has acted, or a moment
some milliseconds later, which may fall into a save.
"""

import asyncio
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.state.store import Store
from cri_proxy.tryout.pods import ContainerSpec, PodSpec, guaranteed
from sysfs.cpuset import CpuSet
from tests.kill.scene import Scene, clashes

SEEDS = range(24)
BYSTANDERS = (PodSpec("alone", (guaranteed("c", 2000),)), PodSpec("sharing", (ContainerSpec("c", 500),)))


async def live_through(scene: Scene) -> None:
    await scene.server.start()
    await scene.daemon.start()
    bystanders = [await scene.kubelet.run_pod(spec) for spec in BYSTANDERS]
    alone = scene.records(bystanders[0])
    words = scene.plan()
    try:
        async with asyncio.timeout(30):
            await scene.act()
    except (CallFailed, RuntimeUnavailable):
        pass  # the kubelet's calls end with the daemon
    scene.runtime.plan = None
    await scene.daemon.stop(signal.SIGKILL)
    before = {c.id: CpuSet.parse(c.record.cpuset_cpus) for c in scene.live()}
    await scene.daemon.start()
    status = await scene.settled()
    assert clashes(status, scene.runtime) == [], words
    assert scene.records(bystanders[0]) == alone, words
    for view in status.containers:
        if view.kind in ("exclusive", "isolated") and view.pod != "first":
            assert view.cpus == before[view.container_id], words
        assert (await scene.daemon.admin.explain(view.pod_uid)).decisions, words
    await scene.kubelet.run_pod(PodSpec("last", (guaranteed("c", 1000),)))
    assert clashes(await scene.settled(), scene.runtime) == [], words
    for sandbox_id in list(scene.runtime.node.sandboxes):
        await scene.kubelet.remove_pod(sandbox_id)
    assert (await scene.settled()).containers == ()
    await scene.daemon.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_daemon_loses_nothing(seed: int) -> None:
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-kill-", dir="/tmp"))  # a socket's path has at most 107 bytes

    async def run() -> None:
        scene = Scene(directory, seed)
        try:
            await live_through(scene)
        finally:
            await scene.close()

    try:
        asyncio.run(run())
        store = Store.open(directory / "state" / "state.db")
        assert (store.recovered, store.load().rows, store.load().sandboxes) == (None, (), ())
        asyncio.run(store.close())
    finally:
        shutil.rmtree(directory)
