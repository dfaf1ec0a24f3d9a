"""The embedded runtime's containers: life cycle and resources. Messages are containerd's."""

from collections.abc import Iterator

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.pods import KILLED, end, unknown_method
from cri_proxy.runtime.embedded.state import (
    NOT_FOUND,
    UNKNOWN,
    Container,
    Node,
    Refusal,
    matches_labels,
)
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

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


def create_container(node: Node, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
    """Make a container in a ready pod from an image that is there; its process does not run yet."""
    sandbox = node.sandbox(request.pod_sandbox_id, f'failed to find sandbox id "{request.pod_sandbox_id}"')
    if not sandbox.ready:
        gone = f"no running task found: task {sandbox.id} not found: not found"
        raise Refusal(NOT_FOUND, f"failed to get sandbox container task: {gone}")
    if not request.config.HasField("metadata"):
        raise Refusal(UNKNOWN, "container config must include metadata")
    meta = request.config.metadata
    pod_name = sandbox.name.rpartition("_")[0]  # without the attempt
    name = f"{meta.name}_{pod_name}_{meta.attempt}"
    holder = next((c for c in node.containers.values() if c.name == name), None)
    if holder:
        reserved = f'name "{name}" is reserved for "{holder.id}"'
        raise Refusal(UNKNOWN, f'failed to reserve container name "{name}": {reserved}')
    image = node.image(request.config.image.image)
    if image is None:
        raise Refusal(NOT_FOUND, f'failed to resolve image "{request.config.image.image}": not found')
    record = pb.LinuxContainerResources()
    record.CopyFrom(request.config.linux.resources)
    container = Container(node.new_id(), sandbox.id, request.config, name, image, node.now_ns(), record)
    _settle(node, container)
    node.containers[container.id] = container
    node.emit(pb.CONTAINER_CREATED_EVENT, container.id, sandbox.id)
    return pb.CreateContainerResponse(container_id=container.id)


def _kernel_refusal(node: Node, resources: pb.LinuxContainerResources) -> str:
    """What the kernel would say to these sets, as runc words it; '' when it takes them.

    A list that it cannot parse and a memory node without memory are EINVAL, a CPU beyond the possible ones is ERANGE.
    A CPU that is possible and offline is taken (cgroup v2).
    """
    cpus, mems = resources.cpuset_cpus, resources.cpuset_mems
    try:
        if not CpuSet.parse(cpus) <= node.machine.online | node.machine.offline:
            return f'failed to write "{cpus}": write {CGROUP}/cpuset.cpus: numerical result out of range'
    except CpuSetError:
        return f'failed to write "{cpus}": write {CGROUP}/cpuset.cpus: invalid argument'
    try:
        if NodeSet.parse(mems) <= node.machine.memory_nodes:
            return ""
    except CpuSetError:
        pass
    return f'failed to write "{mems}": write {CGROUP}/cpuset.mems: invalid argument'


def _settle(node: Node, container: Container) -> None:
    """The kernel gets what is on record, if it would take it; before the start that is only what it would get."""
    if not _kernel_refusal(node, container.record):
        container.kernel_cpus, container.kernel_mems = container.record.cpuset_cpus, container.record.cpuset_mems


def _find(node: Node, container_id: str) -> Container:
    return node.container(container_id, f'an error occurred when try to find container "{container_id}"')


def begin_start(node: Node, container_id: str) -> Container:
    """The first half of a start: what the kernel gets is fixed here. Raises Refusal."""
    container = _find(node, container_id)
    if container.state != pb.CONTAINER_CREATED:
        wrong = f"container is in {container.state_name} state"
        raise Refusal(UNKNOWN, f'failed to set starting state for container "{container.id}": {wrong}')
    if container.starting:
        already = "container is already in starting state"
        raise Refusal(UNKNOWN, f'failed to set starting state for container "{container.id}": {already}')
    if not node.sandboxes[container.sandbox_id].ready:
        raise Refusal(UNKNOWN, f'sandbox container "{container.sandbox_id}" is not running')
    refusal = _kernel_refusal(node, container.record)
    if refusal:
        container.message = _START_FAILED + refusal + ": unknown"
        container.state, container.reason = pb.CONTAINER_EXITED, "StartError"
        container.exit_code, container.finished_at_ns = START_FAILED_STATUS, node.now_ns()
        raise Refusal(UNKNOWN, container.message)
    _settle(node, container)
    container.starting = True
    return container


def finish_start(node: Node, container: Container) -> pb.StartContainerResponse:
    """The second half: the process runs, in the set that was fixed before. Raises Refusal when it is gone."""
    container.starting = False
    if container.id not in node.containers:
        raise Refusal(NOT_FOUND, f'an error occurred when try to find container "{container.id}": not found')
    container.state, container.pid = pb.CONTAINER_RUNNING, node.new_pid()
    container.started_at_ns = node.now_ns()
    node.emit(pb.CONTAINER_STARTED_EVENT, container.id, container.sandbox_id)
    return pb.StartContainerResponse()


def start_container(node: Node, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
    """Both halves at once."""
    return finish_start(node, begin_start(node, request.container_id))


def stop_container(node: Node, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
    """End the process; one that has ended is no error, an unknown container is."""
    end(node, _find(node, request.container_id), KILLED)
    return pb.StopContainerResponse()


def remove_container(node: Node, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
    """Remove a container, ending its process first; an unknown one is no error."""
    try:
        container = _find(node, request.container_id)
    except Refusal as refusal:
        if refusal.code == UNKNOWN:
            raise
        return pb.RemoveContainerResponse()
    end(node, container, KILLED)
    del node.containers[container.id]
    node.emit(pb.CONTAINER_DELETED_EVENT, container.id, container.sandbox_id)
    return pb.RemoveContainerResponse()


def update_container_resources(
    node: Node, request: pb.UpdateContainerResourcesRequest
) -> pb.UpdateContainerResourcesResponse:
    """Change the record field by field: zero and "" mean no change. The kernel follows unless a start is in flight.

    The sets of a running container are tried first, so that the record stays when the kernel refuses them. Before the
    start and after the end there is nothing to enforce, and containerd records whatever it is given.
    """
    container = node.container(request.container_id, "failed to find container")
    changed = pb.LinuxContainerResources()
    changed.CopyFrom(container.record)
    for name in _UPDATABLE:
        value = getattr(request.linux, name)
        if value:
            setattr(changed, name, value)
    for key, value in request.linux.unified.items():
        changed.unified[key] = value
    refusal = _kernel_refusal(node, changed) if container.running else ""
    if refusal:
        raise Refusal(UNKNOWN, _UPDATE_FAILED + refusal + "\n: unknown")
    container.record = changed
    if container.state != pb.CONTAINER_EXITED and not container.starting:
        _settle(node, container)
    return pb.UpdateContainerResourcesResponse()


def _listed(node: Node, wanted: pb.ContainerFilter) -> Iterator[pb.Container]:
    for container in node.containers.values():
        if not container.id.startswith(wanted.id) or not container.sandbox_id.startswith(wanted.pod_sandbox_id):
            continue
        if wanted.HasField("state") and wanted.state.state != container.state:
            continue
        if matches_labels(container.config.labels, wanted.label_selector):
            yield pb.Container(
                id=container.id,
                pod_sandbox_id=container.sandbox_id,
                metadata=container.config.metadata,
                image=container.config.image,
                image_ref=container.image.id,
                state=container.state,
                created_at=container.created_at_ns,
                labels=container.config.labels,
                annotations=container.config.annotations,
                image_id=container.image.id if node.modern else "",
            )


def list_containers(node: Node, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
    """The containers that the filter lets through, oldest first."""
    return pb.ListContainersResponse(containers=_listed(node, request.filter))


def stream_containers(node: Node, request: pb.StreamContainersRequest) -> Iterator[pb.StreamContainersResponse]:
    """The same list, a container in each message."""
    for container in _listed(node, request.filter):
        yield pb.StreamContainersResponse(containers=[container])


def reopen_container_log(node: Node, request: pb.ReopenContainerLogRequest) -> pb.ReopenContainerLogResponse:
    """No log is written; only a running container has one to reopen."""
    if not _find(node, request.container_id).running:
        raise Refusal(UNKNOWN, "container is not running")
    return pb.ReopenContainerLogResponse()


def checkpoint_container(node: Node, request: pb.CheckpointContainerRequest) -> pb.CheckpointContainerResponse:
    """Nothing is written; a container that does not run has nothing to write."""
    if not node.modern:
        raise unknown_method("CheckpointContainer")
    container = _find(node, request.container_id)
    if not container.running:
        raise Refusal(
            UNKNOWN,
            f"container {container.id} is in {container.state_name} state. only running containers can be checkpointed",
        )
    return pb.CheckpointContainerResponse()
