"""Captured nodes: a machine in an archive with the state of its daemon, and a runtime in which containers stand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.runtime.embedded.state import Container, Image, Sandbox
from cri_proxy.state.capture import STATE, read_state
from cri_proxy.state.rows import Row, Saved
from sysfs.archives.tar import read_member, split_archive
from sysfs.errors import MachineSourceError
from sysfs.model import Machine
from sysfs.sources import load_machine

MAX_STATE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class CapturedNode:
    """A node as it was captured: its machine, the options of its daemon, and the containers that stood on it."""

    name: str
    machine: Machine
    options: Mapping[str, object]
    saved: Saved


def read_captured(path: Path) -> CapturedNode:
    """Return the node in an archive of ``capture --state``. Raises MachineSourceError and SysfsError."""
    archive = split_archive(str(path))
    if archive is None:
        raise MachineSourceError(str(path), "expected an archive FILE.tar.xz of capture --state")
    text = read_member(archive[0], STATE, MAX_STATE_BYTES)
    if text is None:
        raise MachineSourceError(str(path), "it has no state of a daemon; capture it with --state")
    name = path.name.partition(".tar")[0]
    try:
        options, saved = read_state(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MachineSourceError(str(path), f"its {STATE} cannot be read: {error}") from None
    return CapturedNode(name, load_machine(str(path)), options, saved)


def let_stand(runtime: EmbeddedRuntime, saved: Saved) -> None:
    """Put the captured pods and containers into a runtime, under their ids and with the sets that it acknowledged."""
    node, image = runtime.node, Image.named(IMAGE)
    for each in saved.sandboxes:
        config = pb.PodSandboxConfig.FromString(each.config)
        if not config.HasField("metadata"):
            pod = each.pod
            config.metadata.CopyFrom(pb.PodSandboxMetadata(name=pod.name, uid=pod.uid, namespace=pod.namespace))
        node.sandboxes[each.sandbox_id] = Sandbox(each.sandbox_id, config, each.pod.name, "", node.now_ns())
    for row in saved.rows:
        if row.sandbox_id in node.sandboxes:
            node.containers[row.container_id] = _container(row, image, runtime)


def _container(row: Row, image: Image, runtime: EmbeddedRuntime) -> Container:
    pod, name, pinning = row.grant.request.pod, row.key.name, row.known
    labels = {
        "io.kubernetes.container.name": name,
        "io.kubernetes.pod.name": pod.name,
        "io.kubernetes.pod.namespace": pod.namespace,
        "io.kubernetes.pod.uid": row.key.pod_uid,
    }
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name=name), labels=labels)
    record = pb.LinuxContainerResources(cpuset_cpus=str(pinning.cpus or ""), cpuset_mems=str(pinning.mems or ""))
    node = runtime.node
    container = Container(row.container_id, row.sandbox_id, config, f"{name}_{pod.name}", image, node.now_ns(), record)
    container.kernel_cpus, container.kernel_mems = record.cpuset_cpus, record.cpuset_mems
    if row.state == "running":
        container.state, container.pid, container.started_at_ns = pb.CONTAINER_RUNNING, node.new_pid(), node.now_ns()
    return container
