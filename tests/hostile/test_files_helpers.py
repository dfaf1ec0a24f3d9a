"""The launcher of the daemon's helper processes ends, alone or with all helpers: the out-of-memory killer took it."""

import os
import resource
import signal
from pathlib import Path

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from tests.hostile.node import CONFIGURATION, AttackedNode, Place
from tests.testbed.wait import until

SEEN_SECONDS = 60.0  # for an end or a new interpreter on a busy machine; a fault would never end


def children(pid: int) -> list[int]:
    """Those of all threads: the one that starts a launcher anew is another than the first."""
    texts = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for text in texts for child in text.split()]


def launcher(node: AttackedNode) -> int:
    """The daemon's only child."""
    (pid,) = children(node.daemon.pid)
    return pid


async def has_another_launcher(node: AttackedNode, old: int) -> bool:
    return "helpers_back" in node.daemon.log.read_text() and launcher(node) != old


async def test_a_launcher_that_is_killed_with_all_helpers(place: Place, tmp_path: Path) -> None:
    """Launcher and helpers are killed: they are replaced, files are read and decisions saved as before."""
    (tmp_path / "costs.d").mkdir(mode=0o755)
    async with place.node(configuration=f"{CONFIGURATION}costs: {{dir: {tmp_path}/costs.d}}\n") as node:
        async with node.under_attack():
            old = launcher(node)
            for pid in (old, *children(old)):
                os.kill(pid, signal.SIGKILL)
            await until("it is replaced", lambda: has_another_launcher(node, old), seconds=SEEN_SECONDS)
            (tmp_path / "costs.d" / "a.yaml").write_text("example.com/gpu/gpu0:\n")
            await until("files are read", lambda: reads_costs(node), seconds=SEEN_SECONDS)
            await node.kubelet.run_pod(PodSpec("owner", (guaranteed("c", 1000),)))
            assert (await node.daemon.admin.status()).is_ready
            assert not Path(f"/proc/{old}").exists()
        before = await pinned(node)
        await node.daemon.restart()
        assert await pinned(node) == before


async def test_a_launcher_that_cannot_be_replaced(place: Place) -> None:
    """The launcher is killed and the daemon may open nothing: it ends with a status, so that systemd starts another."""
    async with place.node() as node:
        before = await pinned(node)
        most = resource.prlimit(node.daemon.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(node.daemon.pid, resource.RLIMIT_NOFILE, (0, most))
        os.kill(launcher(node), signal.SIGKILL)

        async def has_ended() -> bool:
            return node.daemon.exit_status is not None

        await until("it has ended", has_ended, seconds=SEEN_SECONDS)
        assert node.daemon.exit_status == 1
        assert "helpers_lost" in node.daemon.log.read_text()
        await node.daemon.start()
        assert await pinned(node) == before


async def reads_costs(node: AttackedNode) -> bool:
    costs = (await node.daemon.admin.status()).costs
    return costs is not None and costs.device_count == 1


async def pinned(node: AttackedNode) -> dict[str, str]:
    status = await node.daemon.admin.status()
    return {view.pod: str(view.cpus) for view in status.containers}
