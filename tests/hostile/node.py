"""A node under attack: a daemon that measures itself, a runtime, an innocent bystander, and what must hold."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import write_tree
from tests.hostile.bounds import Bounds, Cost
from tests.hostile.bystander import ANSWER_SECONDS, Bystander
from tests.hostile.hostile_runtime import HostileRuntime
from tests.hostile.watched_daemon import REPORT, REPORT_FILE, Report
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.daemon import DaemonProcess
from tests.testbed.kernel import own_allowed
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

ROOT = Path(__file__).resolve().parent.parent.parent
MACHINE = small_machine(cores=4)
CONFIGURATION = "log: {level: info, format: json}\n"
LOG_BYTES_A_LIFE = 2048  # of each container that the bystander makes, from its placing to its release


class AttackedNode:
    """``kubelet`` is the attacker's way to the daemon; ``runtime`` is None on real containerd."""

    def __init__(
        self, directory: Path, daemon: DaemonProcess, runtime: HostileRuntime | None, node: KubeletNode
    ) -> None:
        self.directory = directory
        self.daemon = daemon
        self.config = directory / "cri-proxy.yaml"
        self.socket = directory / "cri-proxy.sock"
        self._runtime = runtime
        self._client = RuntimeClient(daemon.endpoint)
        self.kubelet = PodKubelet(self._client, node)
        # On real containerd there are two CPUs and one is reserved: the other is left to the attacker.
        spec = guaranteed("c", 1000) if runtime else ContainerSpec("c", cpu_request_mcpu=50)
        self.bystander = Bystander(daemon.endpoint, node, PodSpec("bystander", (spec,), namespace="innocent"))

    @property
    def runtime(self) -> HostileRuntime:
        """The runtime of stories that script it."""
        assert self._runtime is not None, "a story that scripts the runtime does not run on containerd"
        return self._runtime

    @asynccontextmanager
    async def under_attack(self, bounds: Bounds | None = None, *, makes_containers: bool = True) -> AsyncIterator[None]:
        """The attack takes place inside the block; at its end all is asserted that must hold (README.md).

        ``makes_containers``: whether the bystander does, which a runtime that answers no creation rules out.
        """
        self.bystander.makes_containers = makes_containers
        place = await self._cpus_of_bystander()
        before, files = await self._report(), self._file_bytes()
        async with self.bystander.calling():
            await self.bystander.goes_on()
            yield
            await self.bystander.goes_on()
            during = await self._report()
        if self._runtime is not None:
            self._runtime.behave()
        await self.remove_pods()
        assert not self.bystander.failures, self.bystander.failures
        assert await self._cpus_of_bystander() == place, "the bystander's CPUs have changed"
        after = await self._report()
        log_bytes, state_bytes = (now - then for now, then in zip(self._file_bytes(), files, strict=True))
        log_bytes -= self.bystander.lives * LOG_BYTES_A_LIFE
        cost = replace(cost_of(before, during, after), log_bytes=log_bytes, state_bytes=state_bytes)
        print(cost)
        beyond = cost.beyond(bounds or Bounds())
        assert not beyond, beyond

    async def remove_pods(self) -> None:
        """Remove every pod but the bystander's; then nothing may be left in the ledger."""
        assert self.bystander.pod is not None
        for sandbox_id in await self.kubelet.sandboxes():
            if sandbox_id != self.bystander.pod.sandbox_id:
                await self.kubelet.remove_pod(sandbox_id)

        async def only_the_bystander() -> bool:
            views = (await self.daemon.admin.status()).containers
            return {view.container_id for view in views} == {self.bystander.container_id}

        await until("the ledger has the bystander alone", only_the_bystander, seconds=ANSWER_SECONDS)

    async def printed(self, *words: str) -> str:
        """What a command of ``cri-proxy`` prints that asks this daemon."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cri_proxy.cli.main", *words, "--admin", f"unix://{self.daemon.admin.path}"),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return output.decode()

    async def _cpus_of_bystander(self) -> CpuSet | None:
        views = (await self.daemon.admin.status()).containers
        return next(view.cpus for view in views if view.container_id == self.bystander.container_id)

    async def _report(self) -> Report:
        """What the daemon did since the last one."""
        file = self.directory / "report"
        file.unlink(missing_ok=True)
        os.kill(self.daemon.pid, REPORT)

        async def written() -> bool:
            return file.exists()

        await until("the daemon reports", written, seconds=ANSWER_SECONDS)
        return Report(**json.loads(file.read_text()))

    def _file_bytes(self) -> tuple[int, int]:
        """Of the log, and of what is kept. What the daemon removes meanwhile does not count."""
        state = 0
        for folder, _, names in os.walk(self.directory / "state"):  # skips folders that are gone
            for name in names:
                with suppress(FileNotFoundError):
                    state += Path(folder, name).lstat().st_size
        return self.daemon.log.stat().st_size, state

    async def start(self) -> None:
        await self.daemon.start()
        await self.bystander.start()

    async def close(self) -> None:
        await self.daemon.stop()
        await self.bystander.close()
        await self._client.close()


def cost_of(before: Report, during: Report, after: Report) -> Cost:
    """What the daemon's own reports tell. One that was started again since has nothing to be compared with."""
    reference = max(before.reference_seconds, during.reference_seconds, after.reference_seconds)
    is_same = before.number < during.number < after.number
    return Cost(
        turn_references=during.turn_seconds / reference,
        stall_references=during.stall_seconds / reference,
        peak_bytes=during.peak_bytes - before.resident_bytes if is_same else 0,
        kept_bytes=after.resident_bytes - before.resident_bytes if is_same else 0,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a story is played: behind which relay, in front of a runtime in this process or of this containerd."""

    relay: str
    containerd: PrivateContainerd | None = None

    @asynccontextmanager
    async def node(
        self, *, options: Sequence[str] = (), configuration: str = CONFIGURATION
    ) -> AsyncIterator[AttackedNode]:
        """A node with its bystander running. The daemon's log is shown with a story that fails."""
        directory = Path(tempfile.mkdtemp(prefix="cri-proxy-hostile-", dir="/tmp"))  # a socket's path is short
        endpoint, machine_options, kubelet_node = self._below(directory)
        runtime = None if self.containerd else HostileRuntime(MACHINE, image_names=(IMAGE,))
        server = RuntimeServer(runtime, endpoint) if runtime else None
        config = directory / "cri-proxy.yaml"
        config.write_text(configuration)
        daemon = DaemonProcess(
            directory,
            runtime_endpoint=endpoint,
            options=("--config", str(config), "--relay", self.relay, *machine_options, *options),
            environment={
                "PYTHONPATH": str(ROOT),
                REPORT_FILE: str(directory / "report"),
            },
            command=(sys.executable, "-m", "tests.hostile.watched_daemon"),
        )
        node = AttackedNode(directory, daemon, runtime, kubelet_node)
        try:
            if server:
                await server.start()
            await node.start()
            yield node
            if self.containerd:
                await node.kubelet.remove_pod(node.bystander.pod.sandbox_id if node.bystander.pod else "")
        finally:
            await node.close()
            if server:
                await server.stop()
            if daemon.log.exists():
                print(daemon.log.read_text(errors="replace")[-8000:])
            shutil.rmtree(directory, ignore_errors=True)

    def _below(self, directory: Path) -> tuple[str, tuple[str, ...], KubeletNode]:
        """The runtime's endpoint, the daemon's options for its machine, and what the kubelet knows of the node."""
        if self.containerd is None:
            root = write_tree(directory / "machine", MACHINE)
            options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=cpuset:0")
            return f"unix://{directory}/runtime.sock", options, KubeletNode(4 << 30, log_directory="")
        low, high, *_ = own_allowed().cpus
        options = ("--available-resources", f"cpu=cpuset:{low},{high}", "--reserved-resources", f"cpu=cpuset:{low}")
        return self.containerd.endpoint, options, self.containerd.node


async def ends(reader: asyncio.StreamReader) -> None:
    """Read until the daemon hangs up; one that does so with our bytes unread resets the connection."""
    try:
        while await reader.read(1 << 16):
            continue
    except ConnectionResetError:
        return
