"""What the end-to-end tests act on: a kubelet's calls through the proxy, and the kernel's answer past it."""

import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from sysfs.cpuset import CpuSet
from tests.fakes.waiting import holds
from tests.testbed.containerd import TASK_LEFT, PrivateContainerd
from tests.testbed.daemon import DaemonProcess
from tests.testbed.errors import TryoutError
from tests.testbed.inside import allowed_inside
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

SETTLE_SECONDS = 30.0
# The rule is a second; containerd answers us a little before it answers the proxy's next attempt, and a busy machine
# takes its time. What it is not: gRPC's own pauses, which grow to two minutes.
RETURN_SECONDS = 20.0
REMOVED_SECONDS = 90.0  # for a removal that is tried again
FORGOTTEN_SECONDS = 20.0  # containerd ends such a task itself within some seconds, or never


@dataclass(frozen=True, slots=True)
class TwoCpus:
    """The two CPUs that every test gets, whatever the machine has: the daemon is told that there are no others."""

    low: int
    high: int

    @property
    def both(self) -> CpuSet:
        return CpuSet.of((self.low, self.high))

    @property
    def options(self) -> tuple[str, ...]:
        return ("--available-resources", f"cpu=cpuset:{self.both}")

    @property
    def low_reserved(self) -> tuple[str, ...]:
        return (*self.options, "--reserved-resources", f"cpu=cpuset:{self.low}")


class Stage:
    """One daemon in front of one containerd. ``kubelet`` goes through the proxy, ``direct`` passes it by."""

    def __init__(self, containerd: PrivateContainerd, daemon: DaemonProcess) -> None:
        """Both run already; the connections are this object's own."""
        self.containerd = containerd
        self.daemon = daemon
        self.to_proxy = RuntimeClient(daemon.endpoint)
        self.to_runtime = RuntimeClient(containerd.endpoint)
        self.kubelet = PodKubelet(self.to_proxy, containerd.node)
        self.direct = PodKubelet(self.to_runtime, containerd.node)

    async def run(self, name: str, *containers: ContainerSpec, namespace: str = "e2e") -> RunningPod:
        return await self.kubelet.run_pod(PodSpec(name, containers, namespace=namespace))

    async def cpus(self, pod: RunningPod, container: str = "c0") -> CpuSet:
        """The CPUs that the kernel lets the container's own first process use."""
        return (await allowed_inside(self.direct, pod.container_id(container), process="1")).cpus

    async def cpusets(self, *pods: RunningPod) -> dict[str, CpuSet]:
        return {f"{pod.spec.name}/{name}": await self.cpus(pod, name) for pod in pods for name, _ in pod.containers}

    async def gets(self, pod: RunningPod, cpus: CpuSet) -> bool:
        """True once the container has these CPUs: growth follows the reply that allows it. Raises TryoutError."""

        async def has_them() -> bool:
            return await self.cpus(pod) == cpus

        return await until(f"{pod.spec.name} gets CPUs {cpus}", has_them, seconds=SETTLE_SECONDS)

    async def info(self, container_id: str) -> dict[str, Any]:
        return dict(json.loads((await self.direct.status(container_id)).info["info"]))

    async def resources(self, container_id: str) -> dict[str, Any]:
        """The resources in the container's OCI specification, as containerd recorded them last."""
        return dict((await self.info(container_id))["runtimeSpec"]["linux"]["resources"])

    async def printed(self, spec: PodSpec, *, lines: int, container: str = "c0") -> list[str]:
        """The first lines that a container printed; what comes before them is time and stream (CRI log format)."""
        folder = f"{spec.namespace}_{spec.name}_{spec.pod_uid}"
        log = Path(self.containerd.node.log_directory) / folder / container / "0.log"

        async def enough() -> list[str] | None:
            whole = log.read_text().rpartition("\n")[0] if log.exists() else ""
            texts = [line.split(" ", 3)[3] for line in whole.splitlines()]
            return texts[:lines] if len(texts) >= lines else None

        return await until(f"{log.name} has {lines} lines", enough, seconds=SETTLE_SECONDS)

    async def launch_runtime(self) -> None:
        await self.containerd.launch()
        await until("the runtime is back", self._reaches_runtime, seconds=RETURN_SECONDS)

    async def _reaches_runtime(self) -> bool:
        try:
            await self.kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
        except (CallFailed, RuntimeUnavailable):
            return False
        return True

    async def remove_pod(self, sandbox_id: str, *, seconds: float = REMOVED_SECONDS) -> None:
        """Remove a pod as the kubelet does, which tries again what failed. Raises TryoutError.

        containerd 1.6 does not delete a container as long as it has a task of a start that was given up. Mostly it ends
        that task after some seconds. Where it has forgotten it (containerd's issue 11037), this ends it as an operator
        would; a task that runs is left, and so fails the test.
        """
        failures: list[str] = []
        forgotten = time.monotonic() + FORGOTTEN_SECONDS

        async def is_gone() -> bool:
            try:
                await self.kubelet.remove_pod(sandbox_id)
            except (CallFailed, RuntimeUnavailable) as failure:
                failures.append(str(failure))
                if TASK_LEFT in str(failure) and time.monotonic() > forgotten:
                    await self.containerd.end_tasks(sandbox_id, status="CREATED")
                return False
            return True

        try:
            await until(f"sandbox {sandbox_id} is removed", is_gone, seconds=seconds)
        except TryoutError as error:
            error.problem += f" ({failures[-1]})"
            raise

    async def remove_pods(self, *, seconds: float = REMOVED_SECONDS) -> None:
        """Remove every pod. Where one cannot be, the next test finds none of it all the same. Raises TryoutError."""
        stuck: list[TryoutError] = []
        for sandbox_id in await self.kubelet.sandboxes():
            try:
                await self.remove_pod(sandbox_id, seconds=seconds)
            except TryoutError as error:
                stuck.append(error)
                await self.containerd.end_tasks(sandbox_id)
                await self.kubelet.remove_pod(sandbox_id)
        if stuck:
            raise stuck[0]

    async def tidy(self) -> None:
        """Make it as a test expects it, whatever became of the one before."""
        if self.daemon.pid == 0 or self.daemon.exit_status is not None:
            await self.daemon.restart()
        await self.remove_pods()

    async def close(self) -> None:
        await self.to_proxy.close()
        await self.to_runtime.close()


@asynccontextmanager
async def standing_still(pid: int) -> AsyncIterator[None]:
    """The process does nothing inside the block: some of its threads go on for a moment after the signal was sent."""
    os.kill(pid, signal.SIGSTOP)
    try:
        await holds(f"process {pid} stands still", lambda: thread_states(pid) == {"T"}, seconds=SETTLE_SECONDS)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def thread_states(pid: int) -> set[str]:
    """The states of a process's threads, as letters (proc_pid_stat(5)); T is stopped."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # it has ended just now
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states


async def refusal(call: Awaitable[object]) -> CallFailed:
    try:
        await call
    except CallFailed as failure:
        return failure
    raise AssertionError("the call was not refused")
