"""The embedded runtime in a process of its own, and if wanted a kubelet that lists pods with a device each.

Run by the benchmarks as ``python -m benchmarks.embedded_runtime SOCKET [KUBELET_SOCKET PODS]``.
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.kubelet.lister.socket import UnaryServer
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.runtime.embedded.server import RuntimeServer
from sysfs.descriptions.machine import describe

MACHINE: dict[str, object] = {"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"}
_ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 60.0


def start_runtime(socket: Path, kubelet: Path | None = None, *, pods: int = 0) -> "subprocess.Popen[bytes]":
    """Start the process, with so many pods at the kubelet's socket; return it once the runtime listens."""
    words = [str(socket)] if kubelet is None else [str(socket), str(kubelet), str(pods)]
    command = [sys.executable, "-m", "benchmarks.embedded_runtime", *words]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    end = time.monotonic() + _START_SECONDS
    while not socket.exists():
        if time.monotonic() > end or process.poll() is not None:
            process.kill()
            raise SystemExit(f"the runtime does not listen at {socket}")
        time.sleep(0.005)
    return process


def listed(pods: int) -> bytes:
    """Return the kubelet's list of the pods ``pod-0`` to ``pod-N``."""
    answer = pb.ListPodResourcesResponse()
    for number in range(pods):
        container = answer.pod_resources.add(name=f"pod-{number}", namespace="default").containers.add(name="c")
        container.devices.add(resource_name="example.com/nic", device_ids=[f"eth{number}"])
    return answer.SerializeToString()


async def serve(socket: str, kubelet: Path | None, pods: int) -> None:
    """Serve until the process is ended."""
    answer = listed(pods)

    async def answered(method: str, message: bytes) -> bytes:
        return answer if method.endswith("/List") else b""

    runtime = RuntimeServer(EmbeddedRuntime(describe(MACHINE), image_names=(IMAGE,)), socket)
    server = UnaryServer(answered, lambda error: None)
    if kubelet is not None:
        await server.start(kubelet, kubelet)
    await runtime.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    where = sys.argv[1:]
    asyncio.run(serve(where[0], Path(where[1]) if where[1:] else None, int(where[2]) if where[1:] else 0))
