"""What kube-scheduler sends to an extender, in the shape of its own types, and what comes back over HTTP."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def container(name: str, gpus: int | str = 0, **more: object) -> Json:
    amounts = {"cpu": "500m", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {"name": name, "image": "app:1", "resources": {"limits": amounts, "requests": amounts}, **more}


def pod(*gpus: int, init: Sequence[Json] = ()) -> Json:
    """A pod with a container for each number of GPUs, as the API server has completed it."""
    spec = {
        "containers": [container(f"c{i}", count) for i, count in enumerate(gpus)],
        "initContainers": list(init),
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
    }
    metadata = {"name": "train-0", "namespace": "ml", "uid": "4f0c", "creationTimestamp": "2026-08-01T10:00:00Z"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def node(
    name: str,
    word: str = "",
    *,
    gpus: int | None = 8,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Json:
    """A node with this word as its annotation, and other annotations and labels."""
    capacity = {"cpu": "64", "memory": "527951652Ki", "pods": "110"}
    if gpus is not None:
        capacity["nvidia.com/gpu"] = str(gpus)
    own = {"cri-proxy.io/gpu-links": word} if word else {}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", **own, **(annotations or {})},
        },
        "spec": {"podCIDR": "10.244.0.0/24"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def arguments(a_pod: Json, nodes: Sequence[Json]) -> Json:
    """ExtenderArgs with whole nodes, as with ``nodeCacheCapable: false``."""
    return {"Pod": a_pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}


def named_arguments(a_pod: Json, names: Sequence[str]) -> Json:
    """ExtenderArgs with names, as with ``nodeCacheCapable: true``."""
    return {"Pod": a_pod, "Nodes": None, "NodeNames": list(names)}


async def exchanged(address: tuple[str, int], method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """The status and the body of the answer to a request over TCP."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    head = f"{method} {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    top, _, rest = answer.partition(b"\r\n\r\n")
    return int(top.split(b" ")[1]), rest


async def filtered(address: tuple[str, int], question: Json) -> Json:
    """The ExtenderFilterResult of the extender at this address."""
    status, body = await exchanged(address, "POST", "/extender/filter", json.dumps(question).encode())
    assert status == 200, body
    found: Json = json.loads(body)
    return found


async def prioritized(address: tuple[str, int], question: Json) -> list[Json]:
    """The HostPriorityList of the extender at this address."""
    status, body = await exchanged(address, "POST", "/extender/prioritize", json.dumps(question).encode())
    assert status == 200, body
    found: list[Json] = json.loads(body)
    return found
