"""Runs inside the emulated machine, on nothing but the installed package: pods through the proxy, the kernel asked.

Prints a line per container for people and writes /out/placement.json for the test: what the kernel allows each
container's own process once all of them run.
"""

import asyncio
import json
import time
from pathlib import Path

from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.tryout.containerd import PrivateContainerd
from cri_proxy.tryout.daemon import DaemonProcess
from cri_proxy.tryout.kernel import Allowed, read_allowed
from cri_proxy.tryout.kubelet import Kubelet, RunningPod
from cri_proxy.tryout.pods import ContainerSpec, PodSpec, guaranteed
from sysfs.cpuset import CpuSet

OUT = Path("/out")
RESERVED = CpuSet.parse("0")
# The host bounds the whole run; here everything takes ten times as long as there, on a busy host longer still
PATIENCE_SECONDS = 300.0


def shared(name: str) -> ContainerSpec:
    """A Burstable container with half a CPU."""
    return ContainerSpec(name, cpu_request_mcpu=500)


PODS = (
    PodSpec("whole", (guaranteed("one", 1000), guaranteed("two", 2000), guaranteed("mixed", 2500))),
    PodSpec(
        "together",
        (shared("alone"), shared("front"), shared("back")),
        annotations=(("cri-proxy.io/affinity", "back: [front]"),),
    ),
    PodSpec(
        "apart",
        (shared("front"), shared("back")),
        annotations=(("cri-proxy.io/anti-affinity", "back: [front]"),),
    ),
    PodSpec("system", (shared("agent"),), namespace="kube-system"),
)
STARTED = time.monotonic()


def say(text: str) -> None:
    """A line with the time since the start."""
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


async def observed(kubelet: Kubelet, pods: list[RunningPod]) -> dict[str, dict[str, str]]:
    """What the kernel allows the first process of each container, by 'pod/container'."""
    found = {}
    for pod in pods:
        for name, container_id in pod.containers:
            allowed = allowed_to(await kubelet.pid(container_id))
            found[f"{pod.spec.name}/{name}"] = {"cpus": str(allowed.cpus), "mems": str(allowed.mems)}
            say(f"{pod.spec.name + '/' + name:<15} CPUs {allowed.cpus!s:<7} memory nodes {allowed.mems}")
    return found


def allowed_to(pid: int) -> Allowed:
    """What the kernel says of a process of this machine."""
    return read_allowed(Path(f"/proc/{pid}/status").read_text())


def write(report: dict[str, dict[str, str]]) -> None:
    """The report as JSON."""
    (OUT / "placement.json").write_text(json.dumps(report, indent=1))


async def main() -> None:
    """Start everything, play the pods, write down what the kernel says once all of them run.

    Nothing is stopped at the end: the machine is thrown away, and emulated stopping is slow.
    """
    containerd = PrivateContainerd(Path("/var/lib/tryout"))
    await containerd.start()
    say("containerd answers")
    options = ("--reserved-resources", f"cpu=cpuset:{RESERVED}")
    daemon = DaemonProcess(
        OUT / "cri-proxy", runtime_endpoint=containerd.endpoint, options=options, ready_seconds=PATIENCE_SECONDS
    )
    await daemon.start()
    say("the daemon is ready")
    kubelet = Kubelet(RuntimeClient(daemon.endpoint), containerd.node)
    pods = []
    for spec in PODS:
        pods.append(await kubelet.run_pod(spec))
        say(f"{spec.name} runs")
    write(await observed(kubelet, pods))


if __name__ == "__main__":
    asyncio.run(main())
