"""The status of the embedded runtime's containers, with containerd's verbose JSON, and the event made of it."""

import json

from google.protobuf.json_format import MessageToDict

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.pods import status_of as pod_status_of
from cri_proxy.runtime.embedded.state import Container, Node


def container_status(node: Node, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
    """The state of a container; verbose with containerd's JSON."""
    words = f'an error occurred when try to find container "{request.container_id}"'
    container = node.container(request.container_id, words)
    reply = pb.ContainerStatusResponse(status=status_of(node, container))
    if request.verbose:
        reply.info["info"] = json.dumps(_info(node, container))
    return reply


def status_of(node: Node, container: Container) -> pb.ContainerStatus:
    """A container as status and events show it; an older runtime tells no resources."""
    config = container.config
    status = pb.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=container.state,
        created_at=container.created_at_ns,
        started_at=container.started_at_ns,
        finished_at=container.finished_at_ns,
        exit_code=container.exit_code,
        image=pb.ImageSpec(image=container.image.reference),
        image_ref=container.image.repo_digest,
        reason=container.reason,
        message=container.message,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=config.log_path,
    )
    if node.modern:
        status.image_id = container.image.id
        status.resources.linux.CopyFrom(container.record)
    return status


def _info(node: Node, container: Container) -> dict[str, object]:
    """The verbose part, as far as this proxy or a person would read it."""
    return {
        "sandboxID": container.sandbox_id,
        "pid": container.pid,
        "removing": False,
        "runtimeType": "io.containerd.runc.v2",
        "config": MessageToDict(container.config, preserving_proto_field_name=True),
        "runtimeSpec": _oci_spec(node, container),
    }


def _oci_spec(node: Node, container: Container) -> dict[str, object]:
    record = container.record
    cpu = {
        "shares": record.cpu_shares,
        "quota": record.cpu_quota,
        "period": record.cpu_period,
        "cpus": record.cpuset_cpus,
        "mems": record.cpuset_mems,
    }
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
    """The OCI spec's cgroupsPath: SLICE:PREFIX:NAME for the systemd driver, a path for cgroupfs."""
    last = parent.rpartition("/")[2]
    if last.endswith(".slice"):
        return f"{last}:cri-containerd:{container_id}"
    return f"{parent.rstrip('/')}/{container_id}"


def event(node: Node, kind: pb.ContainerEventType, container_id: str, sandbox_id: str) -> pb.ContainerEventResponse:
    """A change as GetContainerEvents tells it: with the state of the whole pod after it."""
    sandbox = node.sandboxes.get(sandbox_id)
    return pb.ContainerEventResponse(
        container_id=container_id,
        container_event_type=kind,
        created_at=node.now_ns(),
        pod_sandbox_status=pod_status_of(sandbox) if sandbox else None,
        containers_statuses=[status_of(node, c) for c in node.containers_of(sandbox_id)],
    )
