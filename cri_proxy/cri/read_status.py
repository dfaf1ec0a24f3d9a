"""Read a ContainerStatus reply of the runtime as an existing container, for adoption, resync and drift checks. Pure.

containerd 1.7 and later have the resources in effect in the status itself; 1.6 only in the verbose ``info`` (JSON:
``pid``, ``config`` as the kubelet sent it, ``runtimeSpec`` as the OCI runtime got it and updates changed it).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from cri_proxy.cri.annotations.cache import AnnotationReader
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.claim import VARIABLE_PREFIX
from cri_proxy.cri.devices.plugin_devices import annotated_devices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of
from cri_proxy.cri.read_request import ContainerFields, build_request, labels_of
from cri_proxy.cri.status_fields import fields_at, has_variable, info_of, known_cdi_names, number_in, text_in
from policies.base import Pod, Request
from sysfs.cpuset import CpuSet, CpuSetError, IdSet, NodeSet

Ids = TypeVar("Ids", bound=IdSet)


@dataclass(frozen=True, slots=True)
class Existing:
    """A container as the runtime reports it.

    ``cpus`` and ``mems`` are the runtime's record (None: none on record), not what the kernel enforces. ``spec_cpus``
    are those of the OCI spec, as NRI plugins left it: containerd's record may keep what it was asked for. ``pid`` 0: no
    process. ``grant_text`` is our annotation ('' = not made through us).
    ``cdi_names`` are the CDI devices that the runtime knows it by. ``may_have_claim``: its process has a variable as a
    CPU DRA driver's devices add it, or as the author of its pod or image wrote it.
    """

    container_id: str
    state: pb.ContainerState
    request: Request
    cpus: CpuSet | None
    mems: NodeSet | None
    pid: int
    grant_text: str
    spec_cpus: CpuSet | None = None
    cdi_names: tuple[str, ...] = ()
    may_have_claim: bool = False


def read_status(
    status: pb.ContainerStatusResponse,
    sandbox: pb.PodSandboxStatus,
    *,
    annotations: AnnotationReader | None = None,
    node_memory_bytes: int = 0,
) -> Existing:
    """Return the runtime's knowledge of a container; ``status`` is of a verbose call, else figures may be missing.

    No part of the verbose ``info`` is required: its format is the runtime's own, and a runtime may leave it out.
    """
    container = status.status
    info = info_of(status.info)
    resources = _resources(container, info)
    cgroup = text_in(fields_at(info, "runtimeSpec", "linux"), "cgroupsPath")
    qos, qos_origin = qos_of(cgroup, resources)
    uid = sandbox.metadata.uid or sandbox.id
    pod = Pod(uid, sandbox.metadata.name, sandbox.metadata.namespace, qos, labels_of(sandbox.labels))
    name, reader = container.metadata.name, annotations or AnnotationReader()
    read = reader.read(pod.namespace, sandbox.annotations, name)
    request, _ = build_request(pod, name, ContainerFields(resources, *read, node_memory_bytes))
    given, _ = annotated_devices(container.annotations)
    origins = (*request.origins, ("qos", qos_origin))
    return Existing(
        container_id=container.id,
        state=container.state,
        request=replace(request, labels=labels_of(container.labels), origins=origins, given=given),
        cpus=_ids(CpuSet, resources.cpuset_cpus),
        mems=_ids(NodeSet, resources.cpuset_mems),
        pid=number_in(info, "pid"),
        grant_text=container.annotations.get(GRANT_KEY, ""),
        spec_cpus=_ids(CpuSet, text_in(fields_at(info, "runtimeSpec", "linux", "resources", "cpu"), "cpus")),
        cdi_names=known_cdi_names(info, container.annotations),
        may_have_claim=has_variable(info, VARIABLE_PREFIX),
    )


def _ids(kind: type[Ids], text: str) -> Ids | None:
    try:
        return kind.parse(text) or None
    except CpuSetError:
        return None  # garbage counts as nothing on record: the set is then written again


def _resources(container: pb.ContainerStatus, info: Mapping[str, object]) -> pb.LinuxContainerResources:
    """Return the figures in effect: those of the status, and those of the OCI spec where it has none."""
    spec = fields_at(info, "runtimeSpec")
    cpu = fields_at(spec, "linux", "resources", "cpu")
    resources = pb.LinuxContainerResources(
        cpu_period=number_in(cpu, "period"),
        cpu_quota=number_in(cpu, "quota"),
        cpu_shares=number_in(cpu, "shares"),
        cpuset_cpus=text_in(cpu, "cpus"),
        cpuset_mems=text_in(cpu, "mems"),
        memory_limit_in_bytes=number_in(fields_at(spec, "linux", "resources", "memory"), "limit"),
        oom_score_adj=number_in(fields_at(spec, "process"), "oomScoreAdj"),
    )
    # protobuf merges the fields that are set: of containerd 1.6 none, so that the spec's stay.
    resources.MergeFrom(container.resources.linux)
    return resources
