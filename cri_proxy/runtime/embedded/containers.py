"""CRI container methods of the embedded runtime: lifecycle, updates, status, events, the kernel's refusals."""

import json
from contextlib import suppress

from google.protobuf.json_format import MessageToDict

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.status import Code
from cri_proxy.runtime.embedded.pods import KILLED, end
from cri_proxy.runtime.embedded.pods import status_of as pod_status_of
from cri_proxy.runtime.embedded.state import (
    Container,
    NodeState,
    RefusedCall,
    UnknownId,
    attributes,
    cpu_list,
    node_list,
)
from sysfs.cpuset import CpuSetError

CGROUP = "/sys/fs/cgroup"  # the container sees its own cgroup there
START_FAILED_STATUS = 128
_UPDATE_FAILED = (
    "failed to update resources: failed to update resources: runc did not terminate successfully: exit status 1: "
)
_START_FAILED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: unable to apply cgroup configuration: "
)
# Fields of LinuxContainerResources that an update changes when they are not zero; the rest is set at creation.
_UPDATABLE = (
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "memory_limit_in_bytes",
    "cpuset_cpus",
    "cpuset_mems",
    "memory_swap_limit_in_bytes",
)


def create_container(node: NodeState, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
    """Create a container in a ready pod from an image that is there; its process does not run yet."""
    sandbox = node.sandbox(request.pod_sandbox_id, f'failed to find sandbox id "{request.pod_sandbox_id}"')
    if not sandbox.ready:
        gone = f"no running task found: task {sandbox.id} not found: not found"
        raise RefusedCall(Code.NOT_FOUND, f"failed to get sandbox container task: {gone}")
    if not request.config.HasField("metadata"):
        raise RefusedCall(Code.UNKNOWN, "container config must include metadata")
    meta = request.config.metadata
    pod_name = sandbox.name.rpartition("_")[0]  # without the attempt
    name = f"{meta.name}_{pod_name}_{meta.attempt}"
    holder = next((c for c in node.containers.values() if c.name == name), None)
    if holder:
        reserved = f'name "{name}" is reserved for "{holder.id}"'
        raise RefusedCall(Code.UNKNOWN, f'failed to reserve container name "{name}": {reserved}')
    image = node.image(request.config.image.image)
    if image is None:
        raise RefusedCall(Code.NOT_FOUND, f'failed to resolve image "{request.config.image.image}": not found')
    record = pb.LinuxContainerResources()
    record.CopyFrom(request.config.linux.resources)
    container = Container(node.new_id(), sandbox.id, request.config, name, image, node.now_ns(), record)
    _settle(node, container)
    node.containers[container.id] = container
    node.emit(pb.CONTAINER_CREATED_EVENT, container.id, sandbox.id)
    return pb.CreateContainerResponse(container_id=container.id)


def _kernel_refusal(node: NodeState, resources: pb.LinuxContainerResources) -> str:
    """Return the kernel's error for these sets, as runc words it; '' when it accepts them.

    A list that does not parse and a memory node without memory are EINVAL, a CPU beyond the possible ones is ERANGE.
    A CPU that is possible and offline is accepted (cgroup v2).
    """
    cpus, mems = resources.cpuset_cpus, resources.cpuset_mems
    try:
        if not cpu_list(cpus) <= node.machine.online | node.machine.offline:
            return f'failed to write "{cpus}": write {CGROUP}/cpuset.cpus: numerical result out of range'
    except CpuSetError:
        return f'failed to write "{cpus}": write {CGROUP}/cpuset.cpus: invalid argument'
    try:
        if node_list(mems) <= node.machine.memory_nodes:
            return ""
    except CpuSetError:
        pass
    return f'failed to write "{mems}": write {CGROUP}/cpuset.mems: invalid argument'


def _settle(node: NodeState, container: Container) -> None:
    """Apply the record to the emulated kernel, if that accepts it."""
    if not _kernel_refusal(node, container.record):
        container.kernel_cpus, container.kernel_mems = container.record.cpuset_cpus, container.record.cpuset_mems


def _find(node: NodeState, container_id: str) -> Container:
    return node.container(container_id, f'an error occurred when try to find container "{container_id}"')


def begin_start(node: NodeState, container_id: str) -> Container:
    """Begin a start: this fixes the sets that the kernel will get. Raises RefusedCall."""
    container = _find(node, container_id)
    problem = "container is already in starting state" if container.starting else ""
    if container.state != pb.CONTAINER_CREATED:
        problem = f"container is in {container.state_name} state"
    if problem:
        raise RefusedCall(Code.UNKNOWN, f'failed to set starting state for container "{container.id}": {problem}')
    if not node.sandboxes[container.sandbox_id].ready:
        raise RefusedCall(Code.UNKNOWN, f'sandbox container "{container.sandbox_id}" is not running')
    refusal = _kernel_refusal(node, container.record)
    if refusal:
        container.message = _START_FAILED + refusal + ": unknown"
        container.state, container.reason = pb.CONTAINER_EXITED, "StartError"
        container.exit_code, container.finished_at_ns = START_FAILED_STATUS, node.now_ns()
        raise RefusedCall(Code.UNKNOWN, container.message)
    _settle(node, container)
    container.starting = True
    return container


def finish_start(node: NodeState, container: Container) -> pb.StartContainerResponse:
    """Run the process in the set that was fixed before. Raises UnknownId when the container is gone."""
    container.starting = False
    if container.id not in node.containers:
        raise UnknownId(Code.NOT_FOUND, f'an error occurred when try to find container "{container.id}": not found')
    container.state, container.pid = pb.CONTAINER_RUNNING, node.new_pid()
    container.started_at_ns = node.now_ns()
    node.emit(pb.CONTAINER_STARTED_EVENT, container.id, container.sandbox_id)
    return pb.StartContainerResponse()


def start_container(node: NodeState, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
    """Start a container; tests stretch the moment between the two steps."""
    return finish_start(node, begin_start(node, request.container_id))


def stop_container(node: NodeState, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
    """End the process; one that has ended is no error, an unknown container is one."""
    end(node, _find(node, request.container_id), KILLED)
    return pb.StopContainerResponse()


def remove_container(node: NodeState, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
    """Remove a container, ending its process first; an unknown one is no error."""
    with suppress(UnknownId):
        container = _find(node, request.container_id)
        end(node, container, KILLED)
        del node.containers[container.id]
        node.emit(pb.CONTAINER_DELETED_EVENT, container.id, container.sandbox_id)
    return pb.RemoveContainerResponse()


def update_container_resources(
    node: NodeState, request: pb.UpdateContainerResourcesRequest
) -> pb.UpdateContainerResourcesResponse:
    """Change the record field by field: zero and "" mean no change. The kernel follows unless a start is in flight.

    The record of a running container stays when the kernel refuses the sets. Before the start and after the end
    containerd records whatever it is given.
    """
    container = node.container(request.container_id, "failed to find container")
    changed = pb.LinuxContainerResources()
    changed.CopyFrom(container.record)
    for name in _UPDATABLE:
        value = getattr(request.linux, name)
        if value:
            setattr(changed, name, value)
    changed.unified.update(request.linux.unified)
    refusal = _kernel_refusal(node, changed) if container.running else ""
    if refusal:
        raise RefusedCall(Code.UNKNOWN, _UPDATE_FAILED + refusal + "\n: unknown")
    container.record = changed
    # runc accepts an update during a start, and the process then runs in the set that was fixed before.
    if container.state != pb.CONTAINER_EXITED and not container.starting:
        _settle(node, container)
    return pb.UpdateContainerResourcesResponse()


def list_containers(node: NodeState, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
    """Return the containers that match the filter, oldest first."""
    wanted, reply = request.filter, pb.ListContainersResponse()
    for container in node.filtered(wanted):
        if not wanted.HasField("state") or wanted.state.state == container.state:
            reply.containers.add(
                **attributes(container),
                pod_sandbox_id=container.sandbox_id,
                image=container.config.image,
                image_ref=container.image.id,
                state=container.state,
                created_at=container.created_at_ns,
                image_id=container.image.id,
            )
    return reply


def reopen_container_log(node: NodeState, request: pb.ReopenContainerLogRequest) -> pb.ReopenContainerLogResponse:
    """Reopen nothing: no log is written. Refused unless the container runs."""
    if not _find(node, request.container_id).running:
        raise RefusedCall(Code.UNKNOWN, "container is not running")
    return pb.ReopenContainerLogResponse()


def checkpoint_container(node: NodeState, request: pb.CheckpointContainerRequest) -> pb.CheckpointContainerResponse:
    """Write nothing. Refused unless the container runs."""
    container = _find(node, request.container_id)
    if not container.running:
        state = f"container {container.id} is in {container.state_name} state"
        raise RefusedCall(Code.UNKNOWN, f"{state}. only running containers can be checkpointed")
    return pb.CheckpointContainerResponse()


def container_status(node: NodeState, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
    """Return the state of a container; verbose with containerd's JSON."""
    container = _find(node, request.container_id)
    reply = pb.ContainerStatusResponse(status=status_of(node, container))
    if request.verbose:
        reply.info["info"] = json.dumps(_info(node, container))
    return reply


def status_of(node: NodeState, container: Container) -> pb.ContainerStatus:
    """Return a container as status and events show it; an older runtime reports no resources."""
    status = pb.ContainerStatus(
        **attributes(container),
        state=container.state,
        created_at=container.created_at_ns,
        started_at=container.started_at_ns,
        finished_at=container.finished_at_ns,
        exit_code=container.exit_code,
        image=pb.ImageSpec(image=container.image.reference),
        image_ref=container.image.repo_digest,
        image_id=container.image.id,
        reason=container.reason,
        message=container.message,
        mounts=container.config.mounts,
        log_path=container.config.log_path,
    )
    status.resources.linux.CopyFrom(container.record)
    return status


def _info(node: NodeState, container: Container) -> dict[str, object]:
    """Return the verbose part, as far as this proxy or a person would read it."""
    return {
        "sandboxID": container.sandbox_id,
        "pid": container.pid,
        "removing": False,
        "runtimeType": "io.containerd.runc.v2",
        "config": MessageToDict(container.config, preserving_proto_field_name=True),
        "runtimeSpec": _oci_spec(node, container),
    }


def _oci_spec(node: NodeState, container: Container) -> dict[str, object]:
    record = container.record
    cpu = {name: getattr(record, f"cpu_{name}") for name in ("shares", "quota", "period")}
    cpu |= {"cpus": record.cpuset_cpus, "mems": record.cpuset_mems}
    memory = {"limit": record.memory_limit_in_bytes}
    config, sandbox = container.config, node.sandboxes[container.sandbox_id]
    env = [f"{each.key}={each.value.decode(errors='replace')}" for each in config.envs]
    return {
        "ociVersion": "1.0.2",
        "process": {"args": [*config.command, *config.args], "env": env, "oomScoreAdj": record.oom_score_adj},
        "annotations": {"io.kubernetes.cri.container-name": config.metadata.name},
        "linux": {
            "resources": {"cpu": {k: v for k, v in cpu.items() if v}, "memory": {k: v for k, v in memory.items() if v}},
            "cgroupsPath": cgroups_path(sandbox.config.linux.cgroup_parent, container.id),
        },
    }


def cgroups_path(parent: str, container_id: str) -> str:
    """Return the OCI spec's cgroupsPath: SLICE:PREFIX:NAME for the systemd driver, a path for cgroupfs."""
    last = parent.rpartition("/")[2]
    if last.endswith(".slice"):
        return f"{last}:cri-containerd:{container_id}"
    return f"{parent.rstrip('/')}/{container_id}"


def event(
    node: NodeState, kind: pb.ContainerEventType, container_id: str, sandbox_id: str
) -> pb.ContainerEventResponse:
    """Return the event of a change, with the state of the whole pod after it (GetContainerEvents)."""
    sandbox = node.sandboxes.get(sandbox_id)
    return pb.ContainerEventResponse(
        container_id=container_id,
        container_event_type=kind,
        created_at=node.now_ns(),
        pod_sandbox_status=pod_status_of(sandbox) if sandbox else None,
        containers_statuses=[status_of(node, c) for c in node.containers_of(sandbox_id)],
    )
