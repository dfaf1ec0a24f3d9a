"""CRI methods of the embedded runtime: pod sandboxes, version, status and configuration of the runtime itself."""

import json
from contextlib import suppress

from google.protobuf.json_format import MessageToDict

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.status import Code
from cri_proxy.runtime.embedded.state import (
    Container,
    NodeState,
    RefusedCall,
    Sandbox,
    UnknownId,
    attributes,
    matches_labels,
)

NAME = "cri-proxy-embedded"
VERSION = "1.0"
HANDLERS = ("", "runc")
KILLED = 137  # 128 + SIGKILL, as a shell reports it


def version(node: NodeState, request: pb.VersionRequest) -> pb.VersionResponse:
    """Return name and version of this runtime."""
    return pb.VersionResponse(version="0.1.0", runtime_name=NAME, runtime_version=VERSION, runtime_api_version="v1")


def status(node: NodeState, request: pb.StatusRequest) -> pb.StatusResponse:
    """Return that everything is ready."""
    reply = pb.StatusResponse()
    for kind in ("RuntimeReady", "NetworkReady"):
        reply.status.conditions.add(type=kind, status=True)
    for handler in HANDLERS:
        reply.runtime_handlers.add(name=handler)
    if request.verbose:
        reply.info["config"] = json.dumps({"embedded": True})
    return reply


def update_runtime_config(node: NodeState, request: pb.UpdateRuntimeConfigRequest) -> pb.UpdateRuntimeConfigResponse:
    """Accept the address range of the pod network; nothing here uses it."""
    return pb.UpdateRuntimeConfigResponse()


def runtime_config(node: NodeState, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
    """Return the cgroup driver that the kubelet should use."""
    return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.SYSTEMD))


def run_pod_sandbox(node: NodeState, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
    """Create a pod; its name is made of metadata and reserved until the pod is removed, as in containerd."""
    meta = request.config.metadata
    if not request.config.HasField("metadata"):
        raise RefusedCall(Code.UNKNOWN, "sandbox config must include metadata")
    name = f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"
    holder = next((s for s in node.sandboxes.values() if s.name == name), None)
    if holder:
        reserved = f'name "{name}" is reserved for "{holder.id}"'
        raise RefusedCall(Code.UNKNOWN, f'failed to reserve sandbox name "{name}": {reserved}')
    if request.runtime_handler not in HANDLERS:
        unknown = f'no runtime for "{request.runtime_handler}" is configured'
        raise RefusedCall(Code.UNKNOWN, f"failed to get sandbox runtime: {unknown}")
    sandbox = Sandbox(node.new_id(), request.config, name, request.runtime_handler, node.now_ns())
    node.sandboxes[sandbox.id] = sandbox
    node.emit(pb.CONTAINER_CREATED_EVENT, sandbox.id, sandbox.id)
    node.emit(pb.CONTAINER_STARTED_EVENT, sandbox.id, sandbox.id)
    return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)


def _find(node: NodeState, sandbox_id: str) -> Sandbox:
    return node.sandbox(sandbox_id, f'an error occurred when try to find sandbox "{sandbox_id}"')


def stop_pod_sandbox(node: NodeState, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
    """Stop all containers of a pod; again is no error."""
    _stop(node, _find(node, request.pod_sandbox_id))
    return pb.StopPodSandboxResponse()


def _stop(node: NodeState, sandbox: Sandbox) -> None:
    for container in node.containers_of(sandbox.id):
        end(node, container, KILLED)
    if sandbox.ready:
        sandbox.state = pb.SANDBOX_NOTREADY
        node.emit(pb.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox.id)


def end(node: NodeState, container: Container, exit_code: int) -> None:
    """End the container's process, if it runs."""
    if not container.running:
        return
    container.state = pb.CONTAINER_EXITED
    container.exit_code, container.finished_at_ns, container.pid = exit_code, node.now_ns(), 0
    container.reason = "Error" if exit_code else "Completed"
    node.emit(pb.CONTAINER_STOPPED_EVENT, container.id, container.sandbox_id)


def remove_pod_sandbox(node: NodeState, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
    """Remove a pod and its containers, running or not; an unknown one is no error."""
    with suppress(UnknownId):
        sandbox = _find(node, request.pod_sandbox_id)
        _stop(node, sandbox)
        for container in node.containers_of(sandbox.id):
            del node.containers[container.id]
            node.emit(pb.CONTAINER_DELETED_EVENT, container.id, sandbox.id)
        del node.sandboxes[sandbox.id]
        node.emit(pb.CONTAINER_DELETED_EVENT, sandbox.id, sandbox.id)
    return pb.RemovePodSandboxResponse()


def pod_sandbox_status(node: NodeState, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
    """Return the state of a pod; verbose with its configuration as JSON, as containerd does."""
    sandbox = node.sandbox(request.pod_sandbox_id, "an error occurred when try to find sandbox")
    reply = pb.PodSandboxStatusResponse(status=status_of(sandbox))
    if request.verbose:
        config = MessageToDict(sandbox.config, preserving_proto_field_name=True)
        reply.info["info"] = json.dumps({"pid": 1, "config": config, "runtimeHandler": sandbox.runtime_handler})
    return reply


def status_of(sandbox: Sandbox) -> pb.PodSandboxStatus:
    """Return a pod as status and events show it."""
    namespaces = pb.Namespace(options=sandbox.config.linux.security_context.namespace_options)
    return pb.PodSandboxStatus(
        **attributes(sandbox),
        state=sandbox.state,
        created_at=sandbox.created_at_ns,
        network=pb.PodSandboxNetworkStatus(ip="10.88.0.2" if sandbox.ready else ""),
        linux=pb.LinuxPodSandboxStatus(namespaces=namespaces),
        runtime_handler=sandbox.runtime_handler,
    )


def list_pod_sandbox(node: NodeState, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
    """Return the pods that match the filter, oldest first."""
    wanted, reply = request.filter, pb.ListPodSandboxResponse()
    for sandbox in node.sandboxes.values():
        is_wanted = sandbox.id.startswith(wanted.id) and matches_labels(sandbox.config.labels, wanted.label_selector)
        if is_wanted and (not wanted.HasField("state") or wanted.state.state == sandbox.state):
            reply.items.add(
                **attributes(sandbox),
                state=sandbox.state,
                created_at=sandbox.created_at_ns,
                runtime_handler=sandbox.runtime_handler,
            )
    return reply


def port_forward(node: NodeState, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
    """Return the address of a streaming server; nothing listens there."""
    sandbox = node.sandbox(request.pod_sandbox_id, f'failed to find sandbox "{request.pod_sandbox_id}"')
    return pb.PortForwardResponse(url=f"http://127.0.0.1:0/portforward/{sandbox.id[:8]}")


def update_pod_sandbox_resources(
    node: NodeState, request: pb.UpdatePodSandboxResourcesRequest
) -> pb.UpdatePodSandboxResourcesResponse:
    """Record the pod's sums after a resize."""
    sandbox = _find(node, request.pod_sandbox_id)
    sandbox.config.linux.resources.MergeFrom(request.resources)
    sandbox.config.linux.overhead.MergeFrom(request.overhead)
    return pb.UpdatePodSandboxResourcesResponse()
