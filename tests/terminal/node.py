"""The node that docs/questions.md asks about: the daemon on the embedded runtime, with pods of configs/questions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from cri_proxy.cri_client.pods import KubeletNode
from cri_proxy.errors import CallFailed
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from cri_proxy.simulate.plan.pods import PlannedPod, arrivals_of, read_workloads
from sysfs.descriptions.machine import describe
from tests.testbed.pod_kubelet import PodKubelet
from tests.tryout.embedded import EmbeddedDaemon
from tests.unit.cri_proxy.simulate.test_capture import captured

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FILES: Final = ROOT / "configs" / "questions"
MACHINE: Final[dict[str, object]] = {"packages": 2, "nodes": 2, "cores": 4, "threads": 2, "memory": "8Gi"}
GONE: Final = "web-3"
"""A pod that has been removed again."""
CAPTURED: Final = "captured"
"""The directory beside the sockets with archives of three such nodes."""
_TAKEN: Final = {"node-1": 6, "node-2": 3, "node-3": 0}
"""How many containers stand on each, with 4 CPUs of their own."""


@asynccontextmanager
async def busy_node(directory: Path) -> AsyncIterator[EmbeddedDaemon]:
    """Yield a daemon with sockets in this directory, once the pods are placed, one is refused and one removed."""
    await _capture_nodes(directory / CAPTURED)  # packing them would hold up the daemon's loop
    options = ("--config", str(FILES / "node.yaml"), "--node-name", "worker-1")
    async with EmbeddedDaemon(directory, machine=describe(MACHINE), options=options) as daemon:
        client = RuntimeClient(daemon.endpoint)
        try:
            await run_pods(PodKubelet(client, KubeletNode(32 << 30, log_directory="", image=DEFAULT_IMAGE)))
        finally:
            await client.close()
        yield daemon


async def run_pods(kubelet: PodKubelet) -> None:
    """Run the pods of the node; one is refused, and one removed again."""
    for pod in pods_of("shop"):
        running = await kubelet.run_pod(pod.pod)
        if pod.pod.name == GONE:
            await kubelet.remove_pod(running.sandbox_id)
    with suppress(CallFailed):
        for pod in pods_of("report"):
            await kubelet.run_pod(pod.pod)


def pods_of(name: str) -> tuple[PlannedPod, ...]:
    """The pods of a file of configs/questions, as they arrive."""
    file = FILES / f"{name}.yaml"
    return arrivals_of(read_workloads(file.read_text(), str(file), "default"), 1)


async def _capture_nodes(directory: Path) -> None:
    directory.mkdir()
    machine, config = json.dumps(MACHINE), (FILES / "node.yaml").read_text().splitlines()[-1]
    for name, count in _TAKEN.items():
        container = '{name: c, cpu: "4", memory: 256Mi}'
        create = f"- create: {{pod: batch, qos: guaranteed, count: {count}, containers: [{container}]}}"
        story = f"machine: {machine}\nconfig: {{{config}}}\nsteps:\n{create if count else '- advance: 1'}\n"
        await captured(directory / f"{name}.tar.xz", story)
