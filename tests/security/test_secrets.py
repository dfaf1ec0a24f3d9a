"""What is secret in a container's or an image's request is in nothing that we write, show or keep, at any log level.

Every text of these messages that is not a name, a label or a path says a secret; a real daemon with its real log, store
and HTTP table carries them to the runtime. They have to arrive there, so that to find none elsewhere means something.
"""

import asyncio
import base64
import io
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from cri_proxy.config.load import parse_config
from cri_proxy.config.settings import settings_for
from cri_proxy.cri.methods import IMAGE as IMAGE_SERVICE
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, create_request, guaranteed, sandbox_config
from cri_proxy.daemon.app import Daemon
from cri_proxy.errors import CallFailed
from cri_proxy.http.client import ask
from cri_proxy.logs import configure_logging
from cri_proxy.relay.event_loop import RelayLoop
from cri_proxy.runtime.client import RuntimeClient
from tests.fakes.machines import small_machine
from tests.fakes.waiting import holds
from tests.testbed.pod_kubelet import PodKubelet

SECRET = "s3cr3t"
DEEPEST = 5
NODE = KubeletNode(4 << 30, log_directory="", image="localhost/app:1")
CONFIG = """
reservedResources: {cpu: "cpuset:0"}
http: "off"
listen: unix://DIR/proxy.sock
runtimeEndpoint: embedded
stateDir: DIR/state
resourceFiles: always
onShortage: refuse
log: {level: debug, format: json}
"""
# Who and where a container is, and what it may use: names, labels, paths and sets are no secrets and have to be right.
PUBLIC = {
    "metadata",
    "labels",
    "host_path",
    "container_path",
    "cpuset_cpus",
    "cpuset_mems",
    "cgroup_parent",
    "CDI_devices",
}


def fill(message: Message, *, depth: int = 0) -> None:
    """Say a secret in every text that says nothing yet, and in messages inside."""
    for field in message.DESCRIPTOR.fields:
        if field.name not in PUBLIC and depth <= DEEPEST:
            fill_field(message, field, depth=depth)


def fill_field(message: Message, field: Any, *, depth: int) -> None:  # noqa: ANN401 - differs by protobuf core
    value, secret = getattr(message, field.name), f"{SECRET}-{field.full_name}"
    text = secret.encode() if field.type == FieldDescriptor.TYPE_BYTES else secret
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.message_type.GetOptions().map_entry:
            value[f"{secret}-key"] = secret
        elif field.is_repeated:
            fill(value.add(), depth=depth + 1)
        else:
            fill(value, depth=depth + 1)
    elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        if field.is_repeated:
            value.append(text)
        elif not value:
            setattr(message, field.name, text)


POD = PodSpec(
    "web",
    (guaranteed("c", 2000), guaranteed("much", 64000), ContainerSpec("odd")),
    annotations=(
        ("kubectl.kubernetes.io/last-applied-configuration", f'{{"env": "{SECRET}-applied"}}'),
        ("cri-proxy.io/cpu.preserve", "perhaps"),
    ),
)


async def live_through(client: RuntimeClient) -> pb.ContainerStatusResponse:
    """A pod with secrets everywhere: created, refused, misunderstood, updated, looked at."""
    kubelet = PodKubelet(client, NODE)
    await pull(client)
    sandbox = pb.RunPodSandboxRequest(config=sandbox_config(POD, NODE))
    fill(sandbox.config)
    sandbox_id = (await kubelet.call("RunPodSandbox", sandbox, pb.RunPodSandboxResponse)).pod_sandbox_id
    created = [await create(kubelet, container, sandbox_id) for container in POD.containers]
    await create(kubelet, POD.containers[0], "unknown")
    placed = created[0]
    await kubelet.start(placed)
    update = pb.UpdateContainerResourcesRequest(container_id=placed, annotations={"x": f"{SECRET}-update"})
    await kubelet.call("UpdateContainerResources", update, pb.UpdateContainerResourcesResponse)
    seen = pb.ContainerStatusRequest(container_id=placed, verbose=True)
    return await kubelet.call("ContainerStatus", seen, pb.ContainerStatusResponse)


async def pull(client: RuntimeClient) -> None:
    pulling = pb.PullImageRequest()
    fill(pulling)
    await client.unary(IMAGE_SERVICE + "PullImage", pulling.SerializeToString(), timeout_seconds=10)


async def create(kubelet: PodKubelet, container: ContainerSpec, sandbox_id: str) -> str:
    """The id of a container with secrets in all its fields; '' when it is refused."""
    request = create_request(POD, container, sandbox_id, node=NODE)
    fill(request.config)
    try:
        return (await kubelet.call("CreateContainer", request, pb.CreateContainerResponse)).container_id
    except CallFailed:
        return ""


def shown(admin: Path) -> Iterator[str]:
    """All that is told over HTTP."""
    for target in ("/api/v1/status", "/api/v1/topology", "/api/v1/config"):
        yield json.dumps(ask(admin, target))
    for container in POD.containers:
        yield json.dumps(ask(admin, "/api/v1/explain", {"pod": POD.name, "container": container.name}))
    for target in ("/metrics", "/healthz?verbose", "/readyz?verbose"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(admin))
            client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = client.makefile("rb").read().decode()
            assert answer.startswith(("HTTP/1.1 200 ", "HTTP/1.1 503 ")), answer
            yield answer


@dataclass(frozen=True, slots=True)
class Traces:
    """What is left and shown of a pod's life, by where; ``status`` is what the runtime knows of its container."""

    status: str
    log: str
    http: str
    files: tuple[tuple[str, bytes], ...]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Of a daemon that logs everything."""
    directory, stream = tmp_path_factory.mktemp("secrets"), io.StringIO()
    settings = settings_for(parse_config(CONFIG.replace("DIR", str(directory))))

    async def run() -> tuple[str, str, tuple[tuple[str, bytes], ...]]:
        daemon = Daemon(settings, log=configure_logging("debug", "json", stream), machine=small_machine())
        client = RuntimeClient(settings.config.listen)
        try:
            await daemon.start()
            await holds("it decides", lambda: daemon.node is not None and daemon.node.coordinator.is_ready, seconds=30)
            status = await live_through(client)
            http = "\n".join(await asyncio.to_thread(lambda: list(shown(settings.admin_socket))))
            assert daemon.node is not None
            await daemon.node.settle()  # a file that is being replaced may be gone when its turn comes
            return str(status), http, await asyncio.to_thread(files_in, directory)
        finally:
            await client.close()
            await daemon.stop()

    with asyncio.Runner(loop_factory=RelayLoop) as runner:
        status, http, files = runner.run(run())
    return Traces(status, stream.getvalue(), http, (*files, *files_in(directory)))


def files_in(directory: Path) -> tuple[tuple[str, bytes], ...]:
    """Every file's name and bytes, what is deleted in a database included."""
    return tuple((str(path), path.read_bytes()) for path in directory.rglob("*") if path.is_file())


# Bytes are base64 in the runtime's verbose word.
ENV = base64.b64encode(f"{SECRET}-runtime.v1.KeyValue.value".encode()).decode()


@pytest.mark.parametrize(
    "text", [ENV, "ContainerConfig.command", "ContainerConfig.args", "ContainerConfig.annotations"]
)
def test_secrets_arrive_at_the_runtime(traces: Traces, text: str) -> None:
    assert text in traces.status


def test_the_log_has_none(traces: Traces) -> None:
    said = {json.loads(line)["event"] for line in traces.log.splitlines()}
    assert {"placed", "refused"} <= said
    assert [line for line in traces.log.splitlines() if SECRET in line] == []


def test_what_is_shown_has_none(traces: Traces) -> None:
    assert traces.http.count('"web"') > 1
    assert SECRET not in traces.http


def test_what_is_kept_has_none(traces: Traces) -> None:
    assert any(b"web" in content for _, content in traces.files)
    assert [name for name, content in traces.files if SECRET.encode() in content] == []
