"""CRI messages as requests of the policy (pure): what a container asks for, and where each figure came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cri_proxy.cri.annotation_forms import AnnotationProblem
from cri_proxy.cri.annotations import DOMAINS, Parsed, parse_annotations
from cri_proxy.cri.exact_resources import ExactRequests, exact_requests
from cri_proxy.cri.hints import hint_kind
from cri_proxy.cri.kubelet_numbers import (
    MAX_BURSTABLE_OOM_SCORE_ADJ,
    MIN_QUOTA_US,
    mcpu_of_quota,
    mcpu_of_shares,
    memory_request_of,
)
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of
from policies.base import ContainerKey, Labels, Pod, QosClass, Request, TopologyHint

Origins = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request as understood, and the annotations that were not."""

    request: Request
    problems: tuple[AnnotationProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Figures:
    """What a container asks for in numbers, and the CRI field behind each."""

    cpu_request_mcpu: int
    cpu_limit_mcpu: int | None
    memory_request_bytes: int
    memory_limit_bytes: int | None
    origins: Origins


def labels_of(labels: Mapping[str, str]) -> Labels:
    """A map of CRI as sorted pairs."""
    return tuple(sorted(labels.items()))


def pod_of(
    sandbox: pb.PodSandboxConfig, resources: pb.LinuxContainerResources | None = None, *, sandbox_id: str = ""
) -> Pod:
    """The pod of a sandbox; ``resources`` of one of its containers tell its QoS class where the cgroup does not.

    Without them the pod's own sum is asked. ``sandbox_id`` stands in for a uid that the caller left out (crictl may).
    """
    qos, _ = qos_of(sandbox.linux.cgroup_parent, sandbox.linux.resources if resources is None else resources)
    return _pod(sandbox.metadata, sandbox.labels, qos, sandbox_id)


def _pod(metadata: pb.PodSandboxMetadata, labels: Mapping[str, str], qos: QosClass, sandbox_id: str) -> Pod:
    return Pod(metadata.uid or sandbox_id, metadata.name, metadata.namespace, qos, labels_of(labels))


def read_create(
    message: pb.CreateContainerRequest,
    sandbox: pb.PodSandboxConfig,
    *,
    domains: Sequence[str] = DOMAINS,
    hints: Sequence[TopologyHint] = (),
    node_memory_bytes: int = 0,
) -> ReadRequest:
    """What a container that is about to be created asks for.

    ``sandbox`` is the pod's configuration (the request's own copy, or the one recorded at RunPodSandbox).
    ``node_memory_bytes`` 0: Burstable memory requests are not estimated.
    """
    config = message.config
    qos, qos_origin = qos_of(sandbox.linux.cgroup_parent, config.linux.resources)
    pod = _pod(sandbox.metadata, sandbox.labels, qos, message.pod_sandbox_id)
    told = Told(config.linux.resources, sandbox.annotations, domains, node_memory_bytes)
    request, parsed = understand(pod, config.metadata.name, told)
    labelled = replace(
        request,
        labels=labels_of(config.labels),
        hints=tuple(h for h in hints if parsed.hint_filter.takes(hint_kind(h.source, config), h.source)),
        origins=(*request.origins, ("qos", qos_origin)),
    )
    return ReadRequest(labelled, parsed.problems)


@dataclass(frozen=True, slots=True)
class Told:
    """What messages tell of one container: its figures, its pod's annotations, and the node's side of reading them."""

    resources: pb.LinuxContainerResources
    annotations: Mapping[str, str]
    domains: Sequence[str]
    node_memory_bytes: int


def understand(pod: Pod, container: str, told: Told) -> tuple[Request, Parsed]:
    """The request behind these figures and annotations, without labels and hints; all problems are in the second."""
    parsed = parse_annotations(told.annotations, container, told.domains)
    figures = _figures(pod.qos, told.resources, told.node_memory_bytes)
    exact = ExactRequests()
    if pod.qos is QosClass.BURSTABLE:  # the figures of the other classes are exact already
        exact = exact_requests(told.annotations, container, told.resources, node_memory_bytes=told.node_memory_bytes)
    request = Request(
        container=ContainerKey(pod.uid, container),
        pod=pod,
        cpu_request_mcpu=figures.cpu_request_mcpu,
        cpu_limit_mcpu=figures.cpu_limit_mcpu,
        memory_request_bytes=figures.memory_request_bytes,
        memory_limit_bytes=figures.memory_limit_bytes,
        wishes=parsed.wishes,
        affinities=parsed.affinities,
        origins=tuple((dict(parsed.origins + figures.origins) | _exact_origins(exact)).items()),
    )
    if exact.problem:
        problem = AnnotationProblem(exact.key, told.annotations[exact.key][:80], exact.problem)
        parsed = replace(parsed, problems=(*parsed.problems, problem))
    return _with_exact(request, exact), parsed


def _with_exact(request: Request, exact: ExactRequests) -> Request:
    if exact.cpu_request_mcpu is not None:
        request = replace(request, cpu_request_mcpu=exact.cpu_request_mcpu)
    if exact.memory_request_bytes is not None:
        request = replace(request, memory_request_bytes=exact.memory_request_bytes)
    return request


def _exact_origins(exact: ExactRequests) -> dict[str, str]:
    told = {"cpu_request_mcpu": exact.cpu_request_mcpu, "memory_request_bytes": exact.memory_request_bytes}
    return {name: exact.key for name, value in told.items() if value is not None}


def _figures(qos: QosClass, resources: pb.LinuxContainerResources, node_memory_bytes: int) -> _Figures:
    cpu_request_mcpu, cpu_origin = _cpu_request(qos, resources)
    limit_bytes = resources.memory_limit_in_bytes if resources.memory_limit_in_bytes > 0 else None
    memory_request_bytes, memory_origin = _memory_request(qos, resources, limit_bytes, node_memory_bytes)
    return _Figures(
        cpu_request_mcpu=cpu_request_mcpu,
        cpu_limit_mcpu=mcpu_of_quota(resources.cpu_quota, resources.cpu_period),
        memory_request_bytes=memory_request_bytes,
        memory_limit_bytes=limit_bytes,
        origins=(("cpu_request_mcpu", cpu_origin), ("memory_request_bytes", memory_origin)),
    )


def _cpu_request(qos: QosClass, resources: pb.LinuxContainerResources) -> tuple[int, str]:
    """The CPU request and its field. For Guaranteed the quota is exact and has no upper end, where the shares do.

    Only at its lower end (the kernel takes no quota below 1 ms) do the shares know better.
    """
    by_shares = mcpu_of_shares(resources.cpu_shares)
    by_quota = mcpu_of_quota(resources.cpu_quota, resources.cpu_period)
    if qos is not QosClass.GUARANTEED or by_quota is None:
        return by_shares, "cpu_shares"
    if resources.cpu_quota <= MIN_QUOTA_US and resources.cpu_shares and by_shares < by_quota:
        return by_shares, "cpu_shares"
    return by_quota, "cpu_quota, cpu_period"


def _memory_request(
    qos: QosClass, resources: pb.LinuxContainerResources, limit_bytes: int | None, node_memory_bytes: int
) -> tuple[int, str]:
    if qos is QosClass.GUARANTEED:
        return limit_bytes or 0, "memory_limit_in_bytes"
    if qos is QosClass.BEST_EFFORT:
        return 0, "QoS class"
    estimated_bytes = memory_request_of(resources.oom_score_adj, node_memory_bytes)
    return min(estimated_bytes, limit_bytes or estimated_bytes), "oom_score_adj"


def merge_update(request: Request, resources: pb.LinuxContainerResources, *, node_memory_bytes: int = 0) -> Request:
    """The recorded request as an UpdateContainerResources changes it; zero and absent fields leave it as it is.

    A resize never changes the QoS class (KEP-1287), so a Guaranteed container's request follows its limits.
    """
    patch = _figures(request.pod.qos, resources, node_memory_bytes)
    guaranteed = request.pod.qos is QosClass.GUARANTEED
    merged = request
    if patch.cpu_limit_mcpu is not None:
        merged = replace(merged, cpu_limit_mcpu=patch.cpu_limit_mcpu)
    elif resources.cpu_quota < 0:
        merged = replace(merged, cpu_limit_mcpu=None)
    if resources.cpu_shares or (guaranteed and patch.cpu_limit_mcpu is not None):
        merged = replace(merged, cpu_request_mcpu=_patched_cpu(merged, resources, patch))
    if patch.memory_limit_bytes is not None:
        merged = replace(merged, memory_limit_bytes=patch.memory_limit_bytes)
        if guaranteed:
            merged = replace(merged, memory_request_bytes=patch.memory_limit_bytes)
    if not guaranteed and node_memory_bytes and 0 < resources.oom_score_adj <= MAX_BURSTABLE_OOM_SCORE_ADJ:
        merged = replace(merged, memory_request_bytes=patch.memory_request_bytes)
    return merged


def _patched_cpu(request: Request, resources: pb.LinuxContainerResources, patch: _Figures) -> int:
    """The CPU request of a patch; saturated shares must not undo what an earlier quota told exactly."""
    if request.pod.qos is QosClass.GUARANTEED and resources.cpu_quota == 0 and request.cpu_limit_mcpu is not None:
        told = mcpu_of_shares(resources.cpu_shares)
        return max(told, request.cpu_request_mcpu) if told >= 256_000 else told
    return patch.cpu_request_mcpu
