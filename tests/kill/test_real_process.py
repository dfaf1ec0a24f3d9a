"""The daemon as a process of its own is killed with SIGKILL while a runtime that lives on has a call in hand.

The runtime is the embedded one, in this process, behind a socket; the relay is the splice, the store a file. What the
kill interrupts is told by a seed: the n-th call of a random kind, before or after the runtime has acted, or a moment
some milliseconds later, which may fall into a save.
"""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.state.store import Store
from sysfs.cpuset import CpuSet
from tests.kill.scene import Scene, clashes

pytestmark = pytest.mark.timeout(300)

SEEDS = range(24)
AT_ONCE = 4
ACT_SECONDS = 120.0  # so that a call that hangs is seen
BYSTANDERS = (PodSpec("alone", (guaranteed("c", 2000),)), PodSpec("sharing", (ContainerSpec("c", 500),)))


async def live_through(scene: Scene) -> None:
    await scene.server.start()
    await scene.daemon.start()
    bystanders = [await scene.kubelet.run_pod(spec) for spec in BYSTANDERS]
    alone = scene.records(bystanders[0])
    words = f"seed {scene.seed}: {scene.plan()}"
    try:
        async with asyncio.timeout(ACT_SECONDS):
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
            # A create that was on its way when the daemon died may come later: into the place that it was given.
            given = scene.runtime.node.containers[view.container_id].config.linux.resources.cpuset_cpus
            assert view.cpus == before.get(view.container_id, CpuSet.parse(given)), words
        assert (await scene.daemon.admin.explain(view.pod_uid)).decisions, words
    await scene.kubelet.run_pod(PodSpec("last", (guaranteed("c", 1000),)))
    assert clashes(await scene.settled(), scene.runtime) == [], words
    for sandbox_id in list(scene.runtime.node.sandboxes):
        await scene.kubelet.remove_pod(sandbox_id)
    assert (await scene.settled()).containers == ()
    await scene.daemon.stop()


async def one_life(seed: int) -> None:
    """A scene of its own, from its beginning to an empty store."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-kill-", dir="/tmp"))  # a socket's path has at most 107 bytes
    scene = Scene(directory, seed)
    try:
        try:
            await live_through(scene)
        finally:
            await scene.close()
        store = Store.open(directory / "state" / "state.db")
        assert (store.recovered, store.load().rows, store.load().sandboxes) == (None, (), ())
        await store.close()
    finally:
        shutil.rmtree(directory)


async def all_lives(seeds: Sequence[int]) -> None:
    """At the same time: most of a life is waiting for a daemon's start."""
    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(one_life(seed), name=f"seed {seed}")


@pytest.mark.parametrize("first", SEEDS[::AT_ONCE])
async def test_killed_daemons_lose_nothing(first: int) -> None:
    await all_lives(range(first, first + AT_ONCE))
