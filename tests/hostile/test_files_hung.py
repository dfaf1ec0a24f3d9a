"""Volumes and disks that hang for real, FUSE servers that are silent and a frozen ext4: no signal ends the wait."""

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from cri_proxy.daemon.app import STOP_SECONDS
from cri_proxy.daemon.engine import HOST_WORKERS
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.intercept.locality import POD_WORKERS
from tests.fakes.hung_files import freezable_disk, hung_mount
from tests.hostile.bystander import ANSWER_SECONDS
from tests.hostile.node import CONFIGURATION, AttackedNode, Place
from tests.testbed.wait import until

RETRIES = 6
# Beyond the bound of a stop: who hangs does so for ever, and on a busy machine an end is seen late.
SEEN_SECONDS = 30.0


async def create(node: AttackedNode, name: str, *volumes: str) -> str:
    """Create a container with these writable mounts in a pod of its own."""
    pod = PodSpec(name, (ContainerSpec("c"),))
    sandbox_id = await node.kubelet.run_sandbox(pod)
    request = create_request(pod, pod.containers[0], sandbox_id, node=node.kubelet.node)
    for volume in volumes:
        request.config.mounts.add(host_path=volume, container_path=volume)
    async with asyncio.timeout(ANSWER_SECONDS):
        return (await node.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)).container_id


async def history(node: AttackedNode, pod: str) -> list[str]:
    (decision,) = (await node.daemon.admin.explain(pod)).decisions
    return [entry.text for entry in decision.decision.history if entry.what == "hint-missing"]


async def warnings(node: AttackedNode) -> list[str]:
    return [w for w in (await node.daemon.admin.status()).warnings if w.startswith("files of")]


async def ended_by_itself(node: AttackedNode) -> int:
    """The status that the daemon ends with in time after SIGTERM."""
    node.daemon.send(signal.SIGTERM)

    async def ended() -> tuple[int] | None:
        return None if node.daemon.exit_status is None else (node.daemon.exit_status,)

    return (await until("it has ended", ended, seconds=STOP_SECONDS + SEEN_SECONDS))[0]


def helpers(node: AttackedNode) -> int:
    """The daemon's processes for files: those that its launcher forked, which is their parent."""
    children = Path(f"/proc/{node.daemon.pid}/task/{node.daemon.pid}/children").read_text().split()
    return sum(len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) for pid in children)


async def test_a_pod_with_a_volume_whose_server_is_silent(node: AttackedNode) -> None:
    """A volume's server is dead and the kubelet retries: the file is asked once, its pods start, all else goes on."""
    with hung_mount(node.directory / "machine/hung") as server:
        async with node.under_attack():
            for number in range(RETRIES):
                await create(node, f"retry-{number}", f"/hung/volume-{number}")
            node.config.write_text("log: {level: debug, format: json}\n")
            node.daemon.send(signal.SIGHUP)
            await until("the reload is applied", lambda: is_debugging(node), seconds=ANSWER_SECONDS)
            assert server.asked == 1
            assert all([await history(node, f"retry-{number}") for number in range(RETRIES)])
            assert len(await warnings(node)) == 1
            node.config.write_text("log: {level: info, format: json}\n")
            node.daemon.send(signal.SIGHUP)
        assert await ended_by_itself(node) == 0


async def is_debugging(node: AttackedNode) -> bool:
    reloads = (await node.daemon.admin.status()).configuration
    return reloads is not None and reloads.applied > 0


async def test_pods_with_more_dead_volumes_than_there_are_workers(node: AttackedNode) -> None:
    """Each of many volumes is dead by itself: no more than a few processes wait for them, and every pod starts."""
    with ExitStack() as mounts:
        servers = [
            mounts.enter_context(hung_mount(node.directory / f"machine/hung-{number}"))
            for number in range(POD_WORKERS + 2)
        ]
        async with node.under_attack():
            await asyncio.gather(*(create(node, f"pod-{n}", f"/hung-{n}/v") for n in range(len(servers))))
            assert sum(server.asked for server in servers) <= POD_WORKERS
            assert helpers(node) <= POD_WORKERS + HOST_WORKERS + 1  # which is that of the store
            assert all([await history(node, f"pod-{number}") for number in range(len(servers))])
        assert await ended_by_itself(node) == 0


async def test_a_volume_that_answers_again_is_asked_again(node: AttackedNode) -> None:
    """A volume hangs and comes back: pods get its hints again, without a restart."""
    async with node.under_attack():
        with hung_mount(node.directory / "machine/hung"):
            await create(node, "before", "/hung/v")
            assert await warnings(node)

        async def is_forgotten() -> bool:
            return not await warnings(node)

        await until("it is not said to hang any more", is_forgotten, seconds=ANSWER_SECONDS)
        await create(node, "after", "/hung/v")
        assert await history(node, "after") == []


async def test_a_kubelet_directory_that_hangs(place: Place, tmp_path: Path) -> None:
    """The kubelet's directory hangs from the start: pods start without its devices, and SIGTERM ends the daemon."""
    with hung_mount(tmp_path / "kubelet") as server:
        configuration = f"{CONFIGURATION}kubeletRoot: {server.directory}\n"
        async with place.node(configuration=configuration) as node:
            async with node.under_attack():
                await create(node, "pod")
                await until("it is said to hang", lambda: warnings(node), seconds=ANSWER_SECONDS)
                assert server.asked == 1
            assert await ended_by_itself(node) == 0


async def test_a_directory_of_cost_files_that_hangs(place: Place, tmp_path: Path) -> None:
    """The directory of the cost files hangs from the start: pods start, it is told, and SIGTERM ends the daemon."""
    with hung_mount(tmp_path / "costs.d") as server:
        configuration = f"{CONFIGURATION}costs: {{dir: {server.directory}}}\n"
        async with place.node(configuration=configuration) as node:
            async with node.under_attack():
                await create(node, "pod")
                node.daemon.send(signal.SIGHUP)
                await until("it is said to hang", lambda: warnings(node), seconds=ANSWER_SECONDS)
                costs = (await node.daemon.admin.status()).costs
                assert costs is not None
                assert costs.report.problem == "does not answer: does it lie on a mount that hangs?"
                assert server.asked == 1
            assert await ended_by_itself(node) == 0


async def test_a_link_to_a_silent_volume_among_cost_files(place: Place, tmp_path: Path) -> None:
    """A link among cost files leads to a silent volume: it is refused without a look, and the other file counts."""
    (tmp_path / "costs.d").mkdir(mode=0o755)
    (tmp_path / "costs.d" / "a.yaml").write_text("example.com/gpu/gpu0:\n")
    with hung_mount(tmp_path / "hung") as server:
        (tmp_path / "costs.d" / "link.yaml").symlink_to(server.directory / "b.yaml")
        configuration = f"{CONFIGURATION}costs: {{dir: {tmp_path}/costs.d}}\n"
        async with place.node(configuration=configuration) as node, node.under_attack():
            costs = (await node.daemon.admin.status()).costs
            assert costs is not None
            assert (costs.report.problem, costs.device_count) == ("", 1)
            assert [bool(file.problem) for file in costs.report.files] == [False, True]
            assert server.asked == 0


async def test_a_frozen_state_disk(place: Place, tmp_path: Path) -> None:
    """The state directory's disk freezes: calls go on, the node says so, and SIGTERM ends the daemon in time."""
    with freezable_disk(tmp_path / "disk") as disk:
        options = ("--state-dir", str(disk.directory / "state"))
        async with place.node(options=options) as node:
            async with node.under_attack():
                disk.freeze()
                await create(node, "during")
                assert not await is_ready(node)
                disk.thaw()
            disk.freeze()
            await node.kubelet.run_pod(PodSpec("exclusive", (guaranteed("c", 1000),)))
            status, answered = await asyncio.gather(ended_by_itself(node), served_until_the_end(node))
            assert (status, answered > 0) == (0, True)
            await node.daemon.stop()
            starting = [await started_on_frozen_disk(node)]
            # This one has nothing to save: it may end before it answers another call.
            assert await node.daemon.stop() == 0
            starting.append(await started_on_frozen_disk(node))
            disk.thaw()
            await asyncio.gather(*starting)
            pods = {view.pod for view in (await node.daemon.admin.status()).containers}
            assert pods == {"bystander", "exclusive"}


async def started_on_frozen_disk(node: AttackedNode) -> asyncio.Task[None]:
    """Start the daemon, return as soon as it serves what needs no decision; the task ends when it makes decisions."""
    starting = asyncio.get_running_loop().create_task(node.daemon.start())
    await until("it serves what needs no decision", lambda: serves(node), seconds=ANSWER_SECONDS)
    return starting


async def is_ready(node: AttackedNode) -> bool:
    return not any("the store fails" in warning for warning in (await node.daemon.admin.status()).warnings)


async def serves(node: AttackedNode) -> bool:
    try:
        await node.kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
    except (CallFailed, RuntimeUnavailable):
        return False
    return True


async def served_until_the_end(node: AttackedNode) -> int:
    """How many calls that need no decision were answered until the daemon was gone."""
    answered = 0
    while node.daemon.exit_status is None:
        try:
            await node.kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
        except (CallFailed, RuntimeUnavailable):
            break
        answered += 1
        await asyncio.sleep(0.05)
    return answered
