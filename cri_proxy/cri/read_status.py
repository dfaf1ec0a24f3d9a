"""A container that the runtime already has, from its status: for adoption, resync and drift checks (pure).

containerd 1.7 and later tell the resources in effect in the status itself; 1.6 only in the verbose ``info`` (JSON:
``pid``, ``config`` as the kubelet sent it, ``runtimeSpec`` as the OCI runtime got it and updates changed it).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cri_proxy.cri.annotations.forms import AnnotationProblem
from cri_proxy.cri.annotations.read import DOMAINS, GRANT_KEY
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of
from cri_proxy.cri.read import Told, labels_of, understand
from policies.base import Pod, Request
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet


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
    domains: Sequence[str] = DOMAINS,
    node_memory_bytes: int = 0,
) -> Existing:
    """What the runtime knows of a container; ``status`` is of a verbose call, else the figures may be missing.

    Nothing of the verbose part is required: it is the runtime's own format, and a runtime may leave it out.
    """
    container = status.status
    info = _info(status.info)
    resources = _resources(container, info)
    cgroup = _text(_at(info, "runtimeSpec", "linux"), "cgroupsPath")
    qos, qos_origin = qos_of(cgroup, resources)
    uid = sandbox.metadata.uid or sandbox.id
    pod = Pod(uid, sandbox.metadata.name, sandbox.metadata.namespace, qos, labels_of(sandbox.labels))
    told = Told(resources, sandbox.annotations, domains, node_memory_bytes)
    request, parsed = understand(pod, container.metadata.name, told)
    return Existing(
        container_id=container.id,
        sandbox_id=sandbox.id or _text(info, "sandboxID"),
        state=container.state,
        created_at_ns=container.created_at,
        request=replace(request, labels=labels_of(container.labels), origins=(*request.origins, ("qos", qos_origin))),
        cpus=_cpus(resources.cpuset_cpus),
        mems=_mems(resources.cpuset_mems),
        pid=_number(info, "pid"),
        grant_text=container.annotations.get(GRANT_KEY, ""),
        problems=parsed.problems,
        spec_cpus=_cpus(_text(_at(info, "runtimeSpec", "linux", "resources", "cpu"), "cpus")),
    )


def _cpus(text: str) -> CpuSet | None:
    try:
        return CpuSet.parse(text) or None
    except CpuSetError:
        return None  # a runtime that reports garbage reports nothing: the set is then written anew


def _mems(text: str) -> NodeSet | None:
    try:
        return NodeSet.parse(text) or None
    except CpuSetError:
        return None


def _info(info: Mapping[str, str]) -> Mapping[str, object]:
    """The verbose part as containerd and CRI-O give it: one JSON object under "info"; {} when it is anything else."""
    try:
        value = json.loads(info.get("info", ""))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _resources(container: pb.ContainerStatus, info: Mapping[str, object]) -> pb.LinuxContainerResources:
    """The figures in effect: the status where it has them, the OCI spec for each that it has not."""
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
    """The JSON object at this path; {} where there is none."""
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
