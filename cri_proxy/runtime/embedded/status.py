"""CRI status and events of the embedded runtime's containers; the verbose status has containerd's JSON."""

import json

from google.protobuf.json_format import MessageToDict

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.pods import status_of as pod_status_of
from cri_proxy.runtime.embedded.state import Container, NodeState, attributes


def container_status(node: NodeState, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
    """Return the state of a container; verbose with containerd's JSON."""
    words = f'an error occurred when try to find container "{request.container_id}"'
    container = node.container(request.container_id, words)
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
        reason=container.reason,
        message=container.message,
        mounts=container.config.mounts,
        log_path=container.config.log_path,
    )
    if node.modern:
        status.image_id = container.image.id
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
    sandbox = node.sandboxes[container.sandbox_id]
    return {
        "ociVersion": "1.0.2",
        "process": {"args": [*container.config.command, *container.config.args], "oomScoreAdj": record.oom_score_adj},
        "annotations": {"io.kubernetes.cri.container-name": container.config.metadata.name},
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
