"""What the start of a pod costs through the daemon: CPU of each call and of the work after it, latency, a fsync.

Run: python benchmarks/create.py [--standing 25 250] [--relays splice grpc] [--rounds 3]; on a machine that has other
work behind chrt -f 10, which keeps waits for a CPU out of the figures.

``cri-proxy run`` as a child with each relay, each in front of an embedded runtime of its own; "direct" is a runtime
without a daemon. All see the same: so many containers stand, most of them on shared CPUs, every tenth with a CPU of its
own. Pods of one container come one at a time, all of them by RunPodSandbox, then by CreateContainer, then by
StartContainer, and go. Between two of these steps the daemon has time for what no call waits for; its CPU then, less
that of a daemon at rest, counts as "after". The CPU is that of the daemon and its helpers, all threads. A fsync is one
of an appended page beside the state, in the same run.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.embedded_runtime import MACHINE, start_runtime
from benchmarks.memory import cpu_seconds, family
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, create_request, guaranteed
from cri_proxy.runtime.client import RuntimeClient
from sysfs.descriptions.machine import describe
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.daemon import DaemonProcess
from tests.testbed.pod_kubelet import PodKubelet

RELAYS: Final = ("splice", "grpc")
KINDS: Final = ("shared", "exclusive")
STEPS: Final = ("sandbox", "create", "start", "remove")
BARS_MS: Final = {25: 4.0, 250: 6.0}
"""CPU of a create with so many containers standing: the call and what is done after it, helpers too."""
ADDED_BAR_MS: Final = 3.0
"""What a create takes longer than at the runtime, beside one fsync, at the median."""
PODS: Final = 12  # of each kind in each round
REST_SECONDS: Final = 2.0
"""Until the daemon has done what no call waits for: looks at new containers come within 1.2 seconds."""


@dataclass(slots=True)
class Variant:
    """A runtime with or without a daemon in front of it, and what was measured there, by kind and step."""

    name: str
    kubelet: PodKubelet
    daemon: DaemonProcess | None
    idle_share: float = 0.0
    during_ms: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    after_ms: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    took_ms: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def cpu_ms(self) -> float:
        """CPU time so far of the daemon and its helpers; 0 where there is no daemon."""
        return cpu_seconds(*family(self.daemon.pid)) * 1000 if self.daemon is not None else 0.0

    async def rest(self) -> float:
        """Wait for the work that no call waits for; its CPU in milliseconds."""
        before = self.cpu_ms()
        await asyncio.sleep(REST_SECONDS if self.daemon is not None else 0)
        return self.cpu_ms() - before - self.idle_share * REST_SECONDS * 1000


def pod(name: str, kind: str) -> PodSpec:
    """A pod of one small container, on shared CPUs or with one CPU of its own."""
    return PodSpec(name, (guaranteed("c", 1000) if kind == "exclusive" else ContainerSpec("c", 50),))


def runtime_in(stack: AsyncExitStack, directory: Path) -> Path:
    """An embedded runtime in a process of its own, until the stack ends; gives its socket."""
    directory.mkdir()
    socket = directory / "runtime.sock"
    runtime = start_runtime(socket)
    stack.callback(runtime.wait)
    stack.callback(runtime.terminate)
    return socket


async def variant(stack: AsyncExitStack, directory: Path, name: str, standing: int) -> Variant:
    """A runtime, a daemon unless it is 'direct', and the pods that stand there all the time."""
    socket = runtime_in(stack, directory)
    endpoint, daemon = f"unix://{socket}", None
    if name != "direct":
        root = write_tree(directory / "machine", describe(MACHINE))
        options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=2", "--relay", name)
        daemon = DaemonProcess(directory, runtime_endpoint=endpoint, options=options)
        await stack.enter_async_context(daemon)
        endpoint = daemon.endpoint
    channel = RuntimeClient(endpoint)
    stack.push_async_callback(channel.close)
    made = Variant(name, PodKubelet(channel, KubeletNode(64 << 30, log_directory="")), daemon)
    for number in range(standing):
        await made.kubelet.run_pod(pod(f"standing-{number}", KINDS[number % 10 == 9]))
    await made.rest()
    made.idle_share = await made.rest() / (REST_SECONDS * 1000)
    return made


async def play(measured: Variant, kind: str, number: int) -> None:
    """One round: pods of this kind, step by step, and their end."""
    kubelet, specs = measured.kubelet, [pod(f"{kind}-{number}-{i}", kind) for i in range(PODS)]
    sandboxes: list[str] = []
    containers: list[str] = []

    async def sandbox(i: int) -> None:
        sandboxes.append(await kubelet.run_sandbox(specs[i]))

    async def create(i: int) -> None:  # without the ImageStatus before it, which passes
        request = create_request(specs[i], specs[i].containers[0], sandboxes[i], node=kubelet.node)
        containers.append((await kubelet.call("CreateContainer", request, pb.CreateContainerResponse)).container_id)

    calls: tuple[Callable[[int], Awaitable[None]], ...] = (
        *(sandbox, create),
        lambda i: kubelet.start(containers[i]),
        lambda i: kubelet.remove_pod(sandboxes[i]),
    )
    for step, call in zip(STEPS, calls, strict=True):
        before, seconds = measured.cpu_ms(), []
        for i in range(PODS):
            begun = time.perf_counter()
            await call(i)
            seconds.append(time.perf_counter() - begun)
        during = measured.cpu_ms() - before
        after = await measured.rest()
        if number:  # the first round is for caches to fill
            measured.took_ms.setdefault((kind, step), []).extend(each * 1000 for each in seconds)
            measured.during_ms.setdefault((kind, step), []).append(during / PODS)
            measured.after_ms.setdefault((kind, step), []).append(after / PODS)


def fsync_ms(directory: Path, count: int = 50) -> list[float]:
    """What it takes to append a page and have it on the disk."""
    taken = []
    with (directory / "page").open("ab", buffering=0) as file:
        for _ in range(count):
            file.write(bytes(4096))
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return taken


async def compare(standing: int, relays: Sequence[str], rounds: int) -> int:
    """Measure with so many containers and print. The number of bars missed."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cri-proxy-create-")))
        variants = [await variant(stack, directory / name, name, standing) for name in ("direct", *relays)]
        fsyncs: list[float] = []
        for number in range(rounds + 1):
            first = number % len(variants)
            fsyncs += fsync_ms(directory)
            for kind in KINDS:
                for each in (*variants[first:], *variants[:first]):
                    await play(each, kind, number)
    return report(standing, variants, median(fsyncs))


def report(standing: int, variants: Sequence[Variant], fsync: float) -> int:
    """The table. The number of bars missed."""
    missed = 0
    direct = variants[0]
    print(f"{standing} containers; one fsync: {fsync:.2f} ms")
    print(
        f"{'pod':10}{'relay':8}{'step':9}{'CPU ms':>8}{'during':>8}{'after':>8}{'p50 ms':>8}{'direct':>8}{'added':>8}"
    )
    for kind in KINDS:
        for each in variants[1:]:
            for step in STEPS:
                during, after = median(each.during_ms[kind, step]), median(each.after_ms[kind, step])
                took, without = median(each.took_ms[kind, step]), median(direct.took_ms[kind, step])
                figures = (during + after, during, after, took, without, took - without)
                print(f"{kind:10}{each.name:8}{step:9}" + "".join(f"{figure:8.2f}" for figure in figures))
                if (kind, step) == ("shared", "create"):
                    missed += judge(f"CPU of a create, {each.name}", during + after, BARS_MS.get(standing))
                    missed += judge(f"added to a create, {each.name}", took - without, ADDED_BAR_MS + fsync)
    return missed


def judge(what: str, figure_ms: float, bar_ms: float | None) -> bool:
    """Print whether a bar is met; True where it is missed."""
    is_missed = bar_ms is not None and figure_ms > bar_ms
    if bar_ms is not None:
        print(f"{'MISS' if is_missed else 'met '} {what}: {figure_ms:.2f} ms (bar {bar_ms:.2f})")
    return is_missed


def main() -> int:
    """Measure. 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description="What the start of a pod costs.")
    parser.add_argument("--standing", type=int, nargs="+", default=list(BARS_MS))
    parser.add_argument("--relays", nargs="+", default=RELAYS)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    return min(1, sum([asyncio.run(compare(count, asked.relays, asked.rounds)) for count in asked.standing]))


if __name__ == "__main__":
    sys.exit(main())
