"""What CreateContainer costs through the whole daemon with the policy on. Run: python benchmarks/create.py.

``cri-proxy run`` as a child, once with each relay, each in front of an embedded runtime of its own; "direct" is a
third such runtime without a daemon. All see the same: 100 containers stand on shared CPUs, pods come, get containers
and go. A shared container is the common case; one with CPUs of its own takes them from the others, whose updates are in
its figure. The CPU is the daemon's, all threads: relay, decision, saved state, updates, log. The variants take turns,
each round begins with another, and medians over all rounds are compared.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.daemon import MACHINE, RUNTIME
from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.runtime.client import RuntimeClient
from sysfs.descriptions.machine import describe
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.daemon import DaemonProcess

RELAYS: Final = ("splice", "grpc")
ROUNDS: Final = 6
STANDING_PODS: Final = 25  # of four containers
KINDS: Final = {"shared": 20, "exclusive": 6}
"""How many containers are created in one pod of this kind in each round."""
ROOT: Final = Path(__file__).resolve().parent.parent
_START_SECONDS: Final = 60.0
SPLICE_BAR: Final = 1.0
"""CPU of the daemon with the splice to that with the other relay: what both do is most of it."""


@dataclass(slots=True)
class Variant:
    """A runtime with or without a daemon in front of it, and what was measured there."""

    name: str
    kubelet: Kubelet
    daemon: DaemonProcess | None
    cpu_us: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})


def pod(name: str, count: int, kind: str = "shared") -> PodSpec:
    """A pod of so many small containers, on shared CPUs or with one CPU each."""
    is_exclusive = kind == "exclusive"
    made = [guaranteed(f"c{i}", 1000) if is_exclusive else ContainerSpec(f"c{i}", 50) for i in range(count)]
    return PodSpec(name, tuple(made))


def cpu_us(daemon: DaemonProcess | None) -> float:
    """CPU time so far of all threads (proc(5): schedstat, nanoseconds); 0 where there is no daemon."""
    if daemon is None:
        return 0.0
    tasks = Path("/proc", str(daemon.pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def start_runtime(stack: AsyncExitStack, directory: Path) -> Path:
    """An embedded runtime in a process of its own, once its socket is there; gives that."""
    directory.mkdir()
    socket = directory / "runtime.sock"
    command = [sys.executable, "-c", RUNTIME.format(machine=MACHINE), str(socket)]
    runtime = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    stack.callback(runtime.wait)
    stack.callback(runtime.terminate)
    end = time.monotonic() + _START_SECONDS
    while not socket.exists():
        if time.monotonic() > end:
            raise SystemExit(f"the runtime does not listen at {socket}")
        time.sleep(0.01)
    return socket


async def variant(stack: AsyncExitStack, directory: Path, name: str) -> Variant:
    """A runtime, a daemon unless it is 'direct', and the pods that stand there all the time."""
    socket = start_runtime(stack, directory)
    endpoint, daemon = f"unix://{socket}", None
    if name != "direct":
        root = write_tree(directory / "machine", describe(MACHINE))
        options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=2", "--relay", name)
        daemon = DaemonProcess(directory, runtime_endpoint=endpoint, options=options)
        await stack.enter_async_context(daemon)
        endpoint = daemon.endpoint
    channel = RuntimeClient(endpoint)
    stack.push_async_callback(channel.close)
    made = Variant(name, Kubelet(channel, KubeletNode(64 << 30, log_directory="")), daemon)
    for number in range(STANDING_PODS):
        await made.kubelet.run_pod(pod(f"standing-{number}", 4))
    return made


async def create(measured: Variant, kind: str, number: int) -> None:
    """One round: a pod's sandbox, its containers, which are measured, and its end."""
    spec = pod(f"{kind}-{number}", KINDS[kind], kind)
    sandbox_id = await measured.kubelet.run_sandbox(spec)
    before = cpu_us(measured.daemon)
    for container in spec.containers:
        begun = time.perf_counter()
        await measured.kubelet.create(spec, container, sandbox_id)
        measured.seconds[kind].append(time.perf_counter() - begun)
    measured.cpu_us[kind].append((cpu_us(measured.daemon) - before) / KINDS[kind])
    await measured.kubelet.remove_pod(sandbox_id)


async def compare() -> int:
    """Measure and print. 1 where the bar is missed."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cri-proxy-create-")))
        variants = [await variant(stack, directory / name, name) for name in ("direct", *RELAYS)]
        for number in range(ROUNDS + 1):
            first = number % len(variants)
            for kind in KINDS:
                for each in (*variants[first:], *variants[:first]):
                    await create(each, kind, number)
                    if not number:  # for caches to fill
                        each.cpu_us[kind].clear()
                        each.seconds[kind].clear()
    return report({each.name: each for each in variants})


def report(variants: dict[str, Variant]) -> int:
    """The table. 1 where a bar is missed."""
    print(f"{'container':12}{'relay':8}{'CPU us':>10}{'x grpc':>9}{'p50 us':>10}{'x direct':>10}")
    missed = []
    for kind in KINDS:
        direct, grpc = median(variants["direct"].seconds[kind]), median(variants["grpc"].cpu_us[kind])
        for each in variants.values():
            cpu, p50 = median(each.cpu_us[kind]), median(each.seconds[kind])
            used = f"{cpu:10.0f}{cpu / grpc:9.2f}" if each.daemon is not None else f"{'-':>10}{'-':>9}"
            print(f"{kind:12}{each.name:8}{used}{p50 * 1e6:10.0f}{p50 / direct:10.2f}")
        share = median(variants["splice"].cpu_us[kind]) / grpc
        missed += [kind] if share > SPLICE_BAR else []
        print(f"{'MISS' if kind in missed else 'met '} {kind}: CPU with splice / grpc: {share:.2f} (bar {SPLICE_BAR})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(compare()))
