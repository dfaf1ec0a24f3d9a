"""Read a ContainerStatus reply of the runtime as an existing container, for adoption, resync and drift checks. Pure.

containerd 1.7 and later have the resources in effect in the status itself; 1.6 only in the verbose ``info`` (JSON:
``pid``, ``config`` as the kubelet sent it, ``runtimeSpec`` as the OCI runtime got it and updates changed it).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from cri_proxy.cri.annotations.cache import AnnotationReader
from cri_proxy.cri.annotations.forms import AnnotationProblem
from cri_proxy.cri.annotations.read import GRANT_KEY
from cri_proxy.cri.devices.plugin_devices import annotated_devices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of
from cri_proxy.cri.read_request import ContainerFields, build_request, labels_of
from policies.base import Pod, Request
from sysfs.cpuset import CpuSet, CpuSetError, IdSet, NodeSet

Ids = TypeVar("Ids", bound=IdSet)


@dataclass(frozen=True, slots=True)
class Existing:
    """A container as the runtime reports it.

    ``cpus`` and ``mems`` are the runtime's record (None: none on record), not what the kernel enforces. ``spec_cpus``
    are those of the OCI spec, as NRI plugins left it: containerd's record may keep what it was asked for. ``pid`` 0: no
    process. ``grant_text`` is our annotation ('' = not made through us). Times are in nanoseconds as CRI gives them.
    """

    container_id: str
    sandbox_id: str
    state: pb.ContainerState
    created_at_ns: int
    request: Request
    cpus: CpuSet | None
    mems: NodeSet | None
    pid: int
    grant_text: str
    problems: tuple[AnnotationProblem, ...] = ()
    spec_cpus: CpuSet | None = None


def read_status(
    status: pb.ContainerStatusResponse,
    sandbox: pb.PodSandboxStatus,
    *,
    annotations: AnnotationReader | None = None,
    node_memory_bytes: int = 0,
) -> Existing:
    """Return what the runtime knows of a container; ``status`` is of a verbose call, else figures may be missing.

    No part of the verbose ``info`` is required: its format is the runtime's own, and a runtime may leave it out.
    """
    container = status.status
    info = _info(status.info)
    resources = _resources(container, info)
    cgroup = _text(_at(info, "runtimeSpec", "linux"), "cgroupsPath")
    qos, qos_origin = qos_of(cgroup, resources)
    uid = sandbox.metadata.uid or sandbox.id
    pod = Pod(uid, sandbox.metadata.name, sandbox.metadata.namespace, qos, labels_of(sandbox.labels))
    name, reader = container.metadata.name, annotations or AnnotationReader()
    read = reader.read(sandbox.id, pod.namespace, sandbox.annotations, name)
    request, problems = build_request(pod, name, ContainerFields(resources, *read, node_memory_bytes))
    given, of_devices = annotated_devices(container.annotations)
    origins = (*request.origins, ("qos", qos_origin))
    return Existing(
        container_id=container.id,
        sandbox_id=sandbox.id or _text(info, "sandboxID"),
        state=container.state,
        created_at_ns=container.created_at,
        request=replace(request, labels=labels_of(container.labels), origins=origins, given=given),
        cpus=_ids(CpuSet, resources.cpuset_cpus),
        mems=_ids(NodeSet, resources.cpuset_mems),
        pid=_number(info, "pid"),
        grant_text=container.annotations.get(GRANT_KEY, ""),
        problems=(*problems, *of_devices),
        spec_cpus=_ids(CpuSet, _text(_at(info, "runtimeSpec", "linux", "resources", "cpu"), "cpus")),
    )


def _ids(kind: type[Ids], text: str) -> Ids | None:
    try:
        return kind.parse(text) or None
    except CpuSetError:
        return None  # garbage counts as nothing on record: the set is then written again


def _info(info: Mapping[str, str]) -> Mapping[str, object]:
    """Parse the verbose part of containerd and CRI-O, one JSON object under "info"; {} for anything else."""
    try:
        value = json.loads(info.get("info", ""))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _resources(container: pb.ContainerStatus, info: Mapping[str, object]) -> pb.LinuxContainerResources:
    """Return the figures in effect: those of the status, and those of the OCI spec where it has none."""
    spec = _at(info, "runtimeSpec")
    cpu = _at(spec, "linux", "resources", "cpu")
    resources = pb.LinuxContainerResources(
        cpu_period=_number(cpu, "period"),
        cpu_quota=_number(cpu, "quota"),
        cpu_shares=_number(cpu, "shares"),
        cpuset_cpus=_text(cpu, "cpus"),
        cpuset_mems=_text(cpu, "mems"),
        memory_limit_in_bytes=_number(_at(spec, "linux", "resources", "memory"), "limit"),
        oom_score_adj=_number(_at(spec, "process"), "oomScoreAdj"),
    )
    resources.MergeFrom(container.resources.linux)
    return resources


def _at(value: object, *path: str) -> Mapping[str, object]:
    """Return the JSON object at this path; {} where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _number(fields: Mapping[str, object], key: str) -> int:
    value = fields.get(key)
    limit = 1 << 63
    return value if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit else 0


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
