"""A daemon on the embedded runtime with HTTP on loopback, and pods of a kubelet: what the page is looked at with."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.runtime.client import RuntimeClient
from sysfs.descriptions.machine import describe
from tests.fakes.http import free_address
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.daemon import DaemonProcess
from tests.testbed.pod_kubelet import PodKubelet

GIB = 1 << 30
_PULL = "/runtime.v1.ImageService/PullImage"
MACHINE: Mapping[str, object] = {
    "packages": 2,
    "nodes": 2,
    "cores": 8,
    "threads": 2,
    "memory": "32Gi",
    "isolated": "14,15",
}
SMALL: Mapping[str, object] = {"packages": 1, "nodes": 2, "cores": 2, "threads": 2, "memory": "4Gi"}
INVENTORY = """\
gpu:
- {minor: 0, numa: 0}
- {minor: 1, numa: 1}
- {minor: 2, numa: 2, health: false}
- {minor: 3, numa: 3}
rdma:
- {minor: 0, numa: 0}
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A running daemon, the kubelet in front of it, and the address of its page."""

    daemon: DaemonProcess
    kubelet: PodKubelet
    url: str


@asynccontextmanager
async def served(
    directory: Path, machine: Mapping[str, object] = SMALL, options: Sequence[str] = ()
) -> AsyncIterator[Served]:
    """Run the daemon on this machine."""
    host, port = free_address()
    tree = write_tree(directory / "machine", describe(machine))
    words = ("--sysfs-root", str(tree), "--reserved-resources", "cpu=1", "--http", f"{host}:{port}", *options)
    async with DaemonProcess(directory / "daemon", runtime_endpoint="embedded", options=words) as daemon:
        channel = RuntimeClient(daemon.endpoint)
        image = pb.PullImageRequest(image=pb.ImageSpec(image=IMAGE))
        try:
            await channel.unary(_PULL, image.SerializeToString(), timeout_seconds=10)
            yield Served(daemon, PodKubelet(channel, KubeletNode(4 * GIB, log_directory="")), f"http://{host}:{port}/")
        finally:
            await channel.close()


def with_devices(directory: Path) -> tuple[str, ...]:
    """The options of a daemon that has the inventory."""
    (directory / "devices.yaml").write_text(INVENTORY)
    config = directory / "config.yaml"
    config.write_text(f"devices: {{inventory: {directory}/devices.yaml}}\n")
    return ("--config", str(config), "--node-name", "worker-3")


def replicas(name: str, count: int, *containers: ContainerSpec, namespace: str = "default") -> list[PodSpec]:
    """The pods of a Deployment."""
    digest, letters = "7d9f8b6c5", "bcdfghjklmnpqrstvwxz"
    labels = (("pod-template-hash", digest),)
    names = [f"{name}-{digest}-{letters[i // 20]}{letters[i % 20]}2x7" for i in range(count)]
    return [PodSpec(each, containers, namespace, labels=labels) for each in names]


def busy_node() -> list[PodSpec]:
    """The pods of a node that many teams use."""
    return [
        PodSpec("node-agent", (ContainerSpec("agent", 200, memory_request_bytes=GIB // 4),), "kube-system"),
        *replicas("web", 9, ContainerSpec("app", 700, 3000, GIB // 2, GIB), namespace="shop"),
        *replicas("api", 4, guaranteed("app", 3000, memory_bytes=3 * GIB), namespace="shop"),
        PodSpec(
            "orders-db-0", (guaranteed("postgres", 8000, memory_bytes=20 * GIB), guaranteed("exporter", 500)), "data"
        ),
        PodSpec("trader", (guaranteed("engine", 1000, memory_bytes=2 * GIB),), "desk"),
        PodSpec("stream", (guaranteed("kafka", 2500, memory_bytes=6 * GIB),), "data"),
        *replicas("train", 2, guaranteed("torch", 6000, memory_bytes=12 * GIB), namespace="ml"),
        PodSpec("batch", (ContainerSpec("job"),), "ml"),
    ]
