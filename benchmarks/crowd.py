"""Twenty pods that start at once, and lists meanwhile, through the daemon and without. Run: python benchmarks/crowd.py.

A real containerd of our own where that can run (root, containerd, runc), and the embedded runtime in a process of its
own; one daemon in front of each. Twenty clients each run a pod of one container as a kubelet does, while another one
lists pods and containers over and over. Through the daemon and without take turns. Clients, runtime, runc and daemon
share the machine: where it has few CPUs, the daemon's time is in what twenty pods take. A list waits for what is before
it in the queues of runtime and daemon; so lists of the same pods at rest stand beside those under load.

A machine that others share becomes half as fast and fast again within a minute. So the two ways take turns crowd by
crowd, one right after the other, and each begins every other turn. A round is several of them, and what counts is the
median over the rounds of what a round takes through the daemon to what it takes without.

The bar holds in front of containerd. The embedded runtime has no processes to start: twenty pods take it some 25 ms, of
which 5 % are less than the fsyncs of what the daemon decides. What the daemon adds to a pod is seen best there.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.create import Variant, runtime_in
from benchmarks.embedded_runtime import MACHINE
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec
from cri_proxy.node.persistence import GATHER_SECONDS
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.tasks import Tasks
from sysfs.descriptions.machine import describe
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.containerd import PrivateContainerd, missing_programs
from tests.testbed.daemon import DaemonProcess
from tests.testbed.image import BUSYBOX
from tests.testbed.pod_kubelet import PodKubelet

PODS: Final = 20
ROUNDS: Final = 5
CROWDS: Final = 8  # of a round, each way; an even number
BAR: Final = 1.05
"""What twenty pods take through the daemon to what they take without."""
IDLE_LISTS: Final = 30
_LIST_PAUSE_SECONDS: Final = 0.02
_REST_SECONDS: Final = GATHER_SECONDS + 0.2  # after each crowd: what is put off is no part of the next one


@dataclass(slots=True)
class Crowd(Variant):
    """One way to the runtime, and how long pods and lists took there."""

    seconds: list[float] = field(default_factory=list)
    lists_ms: list[float] = field(default_factory=list)
    idle_lists_ms: list[float] = field(default_factory=list)
    busy_ms: list[float] = field(default_factory=list)
    pods: list[RunningPod] = field(default_factory=list)
    tasks: Tasks = field(default_factory=Tasks)


async def list_once(kubelet: PodKubelet) -> float:
    """List pods and containers; the milliseconds for one of the two."""
    begun = time.perf_counter()
    await kubelet.call("ListPodSandbox", pb.ListPodSandboxRequest(), pb.ListPodSandboxResponse)
    await kubelet.call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
    return (time.perf_counter() - begun) * 500


async def start(crowd: Crowd, name: str) -> float:
    """All pods at once, with lists meanwhile, and a rest; the seconds that the pods take."""
    specs = [PodSpec(f"{crowd.name}-{name}-{i}", (ContainerSpec("c", 20),)) for i in range(PODS)]

    async def keep_listing() -> None:
        while True:
            crowd.lists_ms.append(await list_once(crowd.kubelet))
            await asyncio.sleep(_LIST_PAUSE_SECONDS)

    before, begun = crowd.cpu_ms(), time.perf_counter()
    listing = crowd.tasks.start(keep_listing())
    pods = await asyncio.gather(*(crowd.kubelet.run_pod(spec) for spec in specs))
    seconds = time.perf_counter() - begun
    listing.cancel()
    await asyncio.sleep(_REST_SECONDS)
    crowd.busy_ms.append((crowd.cpu_ms() - before) / PODS)
    crowd.pods += pods
    return seconds


async def play(ways: Sequence[Crowd], name: str) -> list[float]:
    """A crowd each way, one right after the other; then lists alone, then the end of all pods. The seconds of each."""
    seconds = [await start(crowd, name) for crowd in ways]
    for crowd in ways:
        crowd.idle_lists_ms += [await list_once(crowd.kubelet) for _ in range(IDLE_LISTS)]
    for crowd in ways:
        await asyncio.gather(*(crowd.kubelet.remove_pod(pod.sandbox_id) for pod in crowd.pods))
        crowd.pods = []
    await asyncio.sleep(_REST_SECONDS)
    return seconds


async def play_round(ways: Sequence[Crowd], number: int) -> None:
    """So many crowds each way, in turns; each way begins every other turn."""
    played: list[tuple[Crowd, float]] = []
    for turn in range(CROWDS):
        ordered = ways if turn % 2 else ways[::-1]
        played += zip(ordered, await play(ordered, f"{number}-{turn}"), strict=True)
    for crowd in ways:
        crowd.seconds.append(mean(seconds for each, seconds in played if each is crowd))


async def crowds(
    stack: AsyncExitStack, directory: Path, endpoint: str, node: KubeletNode, machine: Path
) -> list[Crowd]:
    """The two ways to this runtime: straight, and through a daemon."""
    reserved = ("--reserved-resources", "cpu=500m" if machine == Path("/") else "cpu=2")
    daemon = DaemonProcess(directory, runtime_endpoint=endpoint, options=("--sysfs-root", str(machine), *reserved))
    await stack.enter_async_context(daemon)
    made = []
    for name, through, at in (("direct", None, endpoint), ("splice", daemon, daemon.endpoint)):
        channel = RuntimeClient(at)
        stack.push_async_callback(channel.close)
        made.append(Crowd(name, PodKubelet(channel, node), through))
    return made


async def compare(runtime: str) -> bool:
    """Measure in front of this runtime and print. True where the bar is missed."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cri-proxy-crowd-")))
        if runtime == "containerd":
            real = await stack.enter_async_context(PrivateContainerd(directory / "containerd"))
            ways = await crowds(stack, directory / "daemon", real.endpoint, real.node, Path("/"))
        else:
            socket = runtime_in(stack, directory / "runtime")
            tree = write_tree(directory / "machine", describe(MACHINE))
            ways = await crowds(
                stack, directory / "daemon", f"unix://{socket}", KubeletNode(64 << 30, log_directory=""), tree
            )
        await play(ways, "first")  # for caches to fill
        for each in ways:
            each.lists_ms, each.idle_lists_ms, each.busy_ms = [], [], []
        for number in range(ROUNDS):
            await play_round(ways, number)
    return report(runtime, *ways)


def report(runtime: str, direct: Crowd, through: Crowd) -> bool:
    """The table. True where the bar is missed."""
    print(f"{runtime}: {PODS} pods at once, {ROUNDS} rounds of {CROWDS} each way")
    print(f"{'':8}{'pods s':>10}{'list ms':>10}{'p90':>8}{'idle':>8}{'CPU ms/pod':>12}")
    for each in (direct, through):
        p90 = sorted(each.lists_ms)[len(each.lists_ms) * 9 // 10]
        lists = f"{median(each.lists_ms):10.2f}{p90:8.2f}{median(each.idle_lists_ms):8.2f}"
        print(f"{each.name:8}{median(each.seconds):10.3f}{lists}{median(each.busy_ms):12.2f}")
    shares = [ours / plain for ours, plain in zip(through.seconds, direct.seconds, strict=True)]
    share, added = median(shares), (median(shares) - 1) * median(direct.seconds)
    print(f"through the daemon, round by round: x {', '.join(f'{each:.3f}' for each in shares)}")
    is_missed = runtime == "containerd" and share > BAR
    bar = f" (bar {BAR}, {'missed' if is_missed else 'kept'})" if runtime == "containerd" else ""
    print(f"{PODS} at once through the daemon: x {share:.3f}{bar}, {added / PODS * 1000:.2f} ms more for each pod")
    return is_missed


def main() -> int:
    """Measure in front of the runtimes that can run here. 1 where a bar is missed."""
    can_run = os.geteuid() == 0 and not missing_programs() and BUSYBOX.exists()
    runtimes = sys.argv[1:] or (["containerd"] if can_run else []) + ["embedded"]
    return min(1, sum([asyncio.run(compare(runtime)) for runtime in runtimes]))


if __name__ == "__main__":
    sys.exit(main())
