"""The embedded runtime's pods, and what concerns the runtime as a whole. Messages are containerd's."""

import json
from collections.abc import Iterator

from google.protobuf.json_format import MessageToDict

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.state import (
    UNIMPLEMENTED,
    UNKNOWN,
    Container,
    Node,
    Refusal,
    Sandbox,
    matches_labels,
)

NAME = "cri-proxy-embedded"
VERSION = "1.0"
HANDLERS = ("", "runc")
KILLED = 137  # 128 + SIGKILL, as a shell reports it


def version(node: Node, request: pb.VersionRequest) -> pb.VersionResponse:
    """Which runtime this is."""
    return pb.VersionResponse(version="0.1.0", runtime_name=NAME, runtime_version=VERSION, runtime_api_version="v1")


def status(node: Node, request: pb.StatusRequest) -> pb.StatusResponse:
    """Always ready."""
    reply = pb.StatusResponse()
    for kind in ("RuntimeReady", "NetworkReady"):
        reply.status.conditions.add(type=kind, status=True)
    if node.modern:
        for handler in HANDLERS:
            reply.runtime_handlers.add(name=handler)
    if request.verbose:
        reply.info["config"] = json.dumps({"embedded": True})
    return reply


def update_runtime_config(node: Node, request: pb.UpdateRuntimeConfigRequest) -> pb.UpdateRuntimeConfigResponse:
    """The pod network's address range: nothing here uses it."""
    return pb.UpdateRuntimeConfigResponse()


def runtime_config(node: Node, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
    """Which cgroup driver the kubelet should use."""
    if not node.modern:
        raise unknown_method("RuntimeConfig")
    return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.SYSTEMD))


def unknown_method(name: str) -> Refusal:
    """What gRPC for Go answers when a service lacks the method."""
    return Refusal(UNIMPLEMENTED, f"unknown method {name} for service runtime.v1.RuntimeService")


def run_pod_sandbox(node: Node, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
    """Make a pod. Its name is made of metadata, as containerd does, and reserved until it is removed."""
    meta = request.config.metadata
    if not request.config.HasField("metadata"):
        raise Refusal(UNKNOWN, "sandbox config must include metadata")
    name = f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"
    holder = next((s for s in node.sandboxes.values() if s.name == name), None)
    if holder:
        reserved = f'name "{name}" is reserved for "{holder.id}"'
        raise Refusal(UNKNOWN, f'failed to reserve sandbox name "{name}": {reserved}')
    if request.runtime_handler not in HANDLERS:
        unknown = f'no runtime for "{request.runtime_handler}" is configured'
        raise Refusal(UNKNOWN, f"failed to get sandbox runtime: {unknown}")
    sandbox = Sandbox(node.new_id(), request.config, name, request.runtime_handler, node.now_ns())
    node.sandboxes[sandbox.id] = sandbox
    node.emit(pb.CONTAINER_CREATED_EVENT, sandbox.id, sandbox.id)
    node.emit(pb.CONTAINER_STARTED_EVENT, sandbox.id, sandbox.id)
    return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)


def _find(node: Node, sandbox_id: str) -> Sandbox:
    return node.sandbox(sandbox_id, f'an error occurred when try to find sandbox "{sandbox_id}"')


def stop_pod_sandbox(node: Node, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
    """End all that runs in a pod; again is no error."""
    _stop(node, _find(node, request.pod_sandbox_id))
    return pb.StopPodSandboxResponse()


def _stop(node: Node, sandbox: Sandbox) -> None:
    for container in node.containers_of(sandbox.id):
        end(node, container, KILLED)
    if sandbox.ready:
        sandbox.state = pb.SANDBOX_NOTREADY
        node.emit(pb.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox.id)


def end(node: Node, container: Container, exit_code: int) -> None:
    """The container's process ends; nothing happens to one that does not run."""
    if not container.running:
        return
    container.state = pb.CONTAINER_EXITED
    container.exit_code, container.finished_at_ns, container.pid = exit_code, node.now_ns(), 0
    container.reason = "Error" if exit_code else "Completed"
    node.emit(pb.CONTAINER_STOPPED_EVENT, container.id, container.sandbox_id)


def remove_pod_sandbox(node: Node, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
    """Remove a pod with all in it, running or not; an unknown one is no error."""
    try:
        sandbox = _find(node, request.pod_sandbox_id)
    except Refusal as refusal:
        if refusal.code == UNKNOWN:
            raise
        return pb.RemovePodSandboxResponse()
    _stop(node, sandbox)
    for container in node.containers_of(sandbox.id):
        del node.containers[container.id]
        node.emit(pb.CONTAINER_DELETED_EVENT, container.id, sandbox.id)
    del node.sandboxes[sandbox.id]
    node.emit(pb.CONTAINER_DELETED_EVENT, sandbox.id, sandbox.id)
    return pb.RemovePodSandboxResponse()


def pod_sandbox_status(node: Node, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
    """The state of a pod; verbose with its configuration as JSON, as containerd has it."""
    sandbox = node.sandbox(request.pod_sandbox_id, "an error occurred when try to find sandbox")
    reply = pb.PodSandboxStatusResponse(status=status_of(sandbox))
    if request.verbose:
        config = MessageToDict(sandbox.config, preserving_proto_field_name=True)
        reply.info["info"] = json.dumps({"pid": 1, "config": config, "runtimeHandler": sandbox.runtime_handler})
    return reply


def status_of(sandbox: Sandbox) -> pb.PodSandboxStatus:
    """A pod as status and events show it."""
    config = sandbox.config
    return pb.PodSandboxStatus(
        id=sandbox.id,
        metadata=config.metadata,
        state=sandbox.state,
        created_at=sandbox.created_at_ns,
        network=pb.PodSandboxNetworkStatus(ip="10.88.0.2" if sandbox.ready else ""),
        linux=pb.LinuxPodSandboxStatus(
            namespaces=pb.Namespace(options=config.linux.security_context.namespace_options)
        ),
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )


def _listed(node: Node, wanted: pb.PodSandboxFilter) -> Iterator[pb.PodSandbox]:
    for sandbox in node.sandboxes.values():
        config = sandbox.config
        if not sandbox.id.startswith(wanted.id) or not matches_labels(config.labels, wanted.label_selector):
            continue
        if wanted.HasField("state") and wanted.state.state != sandbox.state:
            continue
        yield pb.PodSandbox(
            id=sandbox.id,
            metadata=config.metadata,
            state=sandbox.state,
            created_at=sandbox.created_at_ns,
            labels=config.labels,
            annotations=config.annotations,
            runtime_handler=sandbox.runtime_handler,
        )


def list_pod_sandbox(node: Node, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
    """The pods that the filter lets through, oldest first."""
    return pb.ListPodSandboxResponse(items=_listed(node, request.filter))


def stream_pod_sandboxes(node: Node, request: pb.StreamPodSandboxesRequest) -> Iterator[pb.StreamPodSandboxesResponse]:
    """The same list, a pod in each message."""
    for item in _listed(node, request.filter):
        yield pb.StreamPodSandboxesResponse(pod_sandboxes=[item])


def port_forward(node: Node, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
    """Where a streaming server would be; nothing listens there."""
    sandbox = node.sandbox(request.pod_sandbox_id, f'failed to find sandbox "{request.pod_sandbox_id}"')
    return pb.PortForwardResponse(url=f"http://127.0.0.1:0/portforward/{sandbox.id[:8]}")


def update_pod_sandbox_resources(
    node: Node, request: pb.UpdatePodSandboxResourcesRequest
) -> pb.UpdatePodSandboxResourcesResponse:
    """The pod's sums after a resize: remembered in its configuration."""
    if not node.modern:
        raise unknown_method("UpdatePodSandboxResources")
    sandbox = _find(node, request.pod_sandbox_id)
    sandbox.config.linux.resources.MergeFrom(request.resources)
    sandbox.config.linux.overhead.MergeFrom(request.overhead)
    return pb.UpdatePodSandboxResourcesResponse()
