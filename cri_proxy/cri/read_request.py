"""Build a policy request from CreateContainer, merge UpdateContainerResources into it, make pods of sandboxes. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from sys import intern

from cri_proxy.cri import linux_resources as linux
from cri_proxy.cri.amounts import Figures, figures_of
from cri_proxy.cri.annotations.cache import AnnotationReader
from cri_proxy.cri.annotations.exact_resources import KEYS, ExactFigures, Sent, exact_figures
from cri_proxy.cri.annotations.forms import AnnotationProblem, cut
from cri_proxy.cri.annotations.pod import PodAnnotations
from cri_proxy.cri.annotations.read import Parsed, pod_devices
from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.cri.device_sources import counting_localities, source_kind
from cri_proxy.cri.pod_amounts import pod_request_mcpu, pod_totals_of, with_own_request
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of
from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import ContainerKey, DeviceLocality, Labels, Pod, QosClass, Request
from policies.device_requests import DeviceAsk
from policies.preferences import Preferences

Origins = tuple[tuple[str, str], ...]
# Kubernetes bounds a pod's labels by its whole size only, 1.5 MiB; sorting 30 000 of them takes 30 ms at each create.
MAX_LABELS = 512
# A pod's containers follow its sandbox: all that is kept of them shares one object.
_pod_with = lru_cache(maxsize=128)(Pod)
_NO_MERGE = TopologyOptions()
_TOPOLOGY = "topology-"  # in the keys about merging hints


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request, the annotations that were not understood, and why device localities are missing, a sentence each.

    ``refusal`` is why it cannot be placed whatever there is room for; '' = it can. ``named`` are containers that the
    pod's annotations name. ``told`` are its devices by the kubelet.
    """

    request: Request
    problems: tuple[AnnotationProblem, ...] = ()
    missing: tuple[str, ...] = ()
    refusal: str = ""
    named: frozenset[str] = frozenset()
    told: ToldDevices = NOTHING_TOLD


def labels_of(labels: Mapping[str, str]) -> Labels:
    """Return a map of CRI as sorted pairs; none of more than ``MAX_LABELS``."""
    if len(labels) > MAX_LABELS:
        return ()
    # The keys are the same in every pod. A map of protobuf has its items() from Python, and is faster without.
    return tuple(sorted([(intern(key), labels[key]) for key in labels]))


def pod_of(
    sandbox: pb.PodSandboxConfig, resources: pb.LinuxContainerResources | None = None, *, sandbox_id: str = ""
) -> Pod:
    """Return the pod of a sandbox.

    Its QoS class is in the cgroup, else in ``resources`` of one of its containers, else in the pod's own sum.
    ``sandbox_id`` replaces a uid that the caller left out (crictl may).
    """
    qos, _ = qos_of(sandbox.linux.cgroup_parent, sandbox.linux.resources if resources is None else resources)
    return _pod(sandbox.metadata, sandbox.labels, qos, sandbox_id)


def _pod(metadata: pb.PodSandboxMetadata, labels: Mapping[str, str], qos: QosClass, sandbox_id: str) -> Pod:
    return _pod_with(metadata.uid or sandbox_id, metadata.name, metadata.namespace, qos, labels_of(labels))


def read_create(
    message: pb.CreateContainerRequest,
    sandbox: pb.PodSandboxConfig,
    *,
    annotations: AnnotationReader | None = None,
    localities: Sequence[DeviceLocality] = (),
    node_memory_bytes: int = 0,
    topology: TopologyOptions = _NO_MERGE,
) -> ReadRequest:
    """Return the request of a container that is about to be created.

    ``sandbox`` is the pod's configuration (the request's own copy, or the one recorded at RunPodSandbox).
    ``annotations`` None: the defaults' domains are read. ``node_memory_bytes`` 0: Burstable memory requests are not
    estimated. ``topology`` holds for containers that say nothing of it.
    """
    config, container = message.config, message.config.metadata.name
    qos, qos_origin = qos_of(sandbox.linux.cgroup_parent, config.linux.resources)
    pod = _pod(sandbox.metadata, sandbox.labels, qos, message.pod_sandbox_id)
    reader = annotations or AnnotationReader()
    read = reader.read(pod.namespace, sandbox.annotations, container)
    of_pod = partial(pod_devices, read[0], pod.namespace, reader.rules)
    fields = ContainerFields(config.linux.resources, *read, node_memory_bytes, sandbox.linux.resources)
    request, problems = build_request(pod, container, fields)
    parsed = fields.parsed
    counting = counting_localities(localities, config, parsed.locality_filter)
    kinds = ", ".join(sorted({source_kind(locality, config) for locality in counting}))
    found = (("localities", kinds),) if kinds else ()
    labelled = replace(
        request,
        labels=labels_of(config.labels),
        localities=counting,
        origins=_merged(found, request.origins, (("qos", qos_origin),)),
        pod_sums=_pod_sums(sandbox.linux.resources, parsed.preferences, topology, of_pod),
    )
    return ReadRequest(labelled, (*problems, *_too_many_labels(sandbox.labels)), named=read[0].named)


def read_pod(
    sandbox: pb.PodSandboxConfig, *, annotations: AnnotationReader, topology: TopologyOptions
) -> Request | None:
    """Return the sums that the containers of a pod ask for; None where their hints are not merged for the pod."""
    by_option = topology.policy is not TopologyPolicy.NONE and topology.scope is TopologyScope.POD
    if not by_option and not any(_TOPOLOGY in key for key in sandbox.annotations):
        return None  # as most are: their annotations are read with the first container
    pod = pod_of(sandbox)
    read, parsed = annotations.read(pod.namespace, sandbox.annotations, "")
    of_pod = partial(pod_devices, read, pod.namespace, annotations.rules)
    sums = _pod_sums(sandbox.linux.resources, parsed.preferences, topology, of_pod)
    if sums is None:
        return None
    return Request(
        ContainerKey(pod.uid, ""),
        pod,
        0,
        preferences=parsed.preferences,
        origins=parsed.origins,
        pod_request_mcpu=pod_request_mcpu(pod.qos, sandbox.linux.resources),
        pod_sums=sums,
    )


def _pod_sums(
    resources: pb.LinuxContainerResources,
    asked: Preferences,
    topology: TopologyOptions,
    devices: Callable[[], tuple[DeviceAsk, ...]],
) -> PodSums | None:
    """Return the sums of a pod; None where they do not count or, as from crictl, are not there.

    ``devices`` reads what its annotations ask for.
    """
    policy, scope = asked.topology_policy or topology.policy, asked.topology_scope or topology.scope
    if policy is TopologyPolicy.NONE or scope is not TopologyScope.POD or not resources.cpu_shares:
        return None
    limit_mcpu = linux.mcpu_of_quota(resources.cpu_quota, resources.cpu_period)
    cpu_mcpu = limit_mcpu or linux.mcpu_of_shares(resources.cpu_shares)
    return PodSums(cpu_mcpu, max(0, resources.memory_limit_in_bytes), devices())


def _too_many_labels(labels: Mapping[str, str]) -> tuple[AnnotationProblem, ...]:
    if len(labels) <= MAX_LABELS:
        return ()
    problem = f"the pod has {len(labels)}, more than {MAX_LABELS}: affinities see none of them"
    return (AnnotationProblem("labels", "", problem),)


@dataclass(frozen=True, slots=True)
class ContainerFields:
    """The description of a container: its resources in CRI, and its pod's annotations, parsed for it.

    ``pod_resources`` are the sums in the sandbox; empty where they are not known.
    """

    resources: pb.LinuxContainerResources
    pod_annotations: PodAnnotations
    parsed: Parsed
    node_memory_bytes: int
    pod_resources: pb.LinuxContainerResources = field(default_factory=pb.LinuxContainerResources)


def build_request(pod: Pod, container: str, fields: ContainerFields) -> tuple[Request, tuple[AnnotationProblem, ...]]:
    """Return the request behind these fields, without labels and localities, and the problems of all annotations."""
    parsed, texts = fields.parsed, fields.pod_annotations.texts
    figures = figures_of(pod.qos, fields.resources, fields.node_memory_bytes)
    totals = pod_totals_of(pod.qos, fields.pod_resources, fields.resources, figures)
    figures = with_own_request(figures, totals, fields.resources)
    sent = Sent(pod.qos, fields.resources, figures, fields.node_memory_bytes)
    exact = exact_figures(texts, container, sent) if any(key in texts for key in KEYS) else ExactFigures()
    better = dict(exact.figures)
    request = Request(
        container=ContainerKey(pod.uid, container),
        pod=pod,
        cpu_request_mcpu=better.get("cpu_request_mcpu", figures.cpu_request_mcpu),
        cpu_limit_mcpu=better.get("cpu_limit_mcpu", figures.cpu_limit_mcpu),
        memory_request_bytes=better.get("memory_request_bytes", figures.memory_request_bytes),
        memory_limit_bytes=figures.memory_limit_bytes,
        huge_pages=figures.huge_pages,
        preferences=parsed.preferences,
        affinities=parsed.affinities,
        origins=_merged(parsed.origins, figures.origins, tuple((name, exact.key) for name in better)),
        pod_totals=totals,
        pod_request_mcpu=pod_request_mcpu(pod.qos, fields.pod_resources),
    )
    problems = parsed.problems
    if exact.problem:
        problems = (*problems, AnnotationProblem(exact.key, cut(texts[exact.key].text), exact.problem))
    return request, problems


@lru_cache(maxsize=64)  # most containers have the same
def _merged(*origins: Origins) -> Origins:
    """Return all origins, each field once, the last one of a field."""
    return tuple({field: origin for some in origins for field, origin in some}.items())


def merge_update(request: Request, resources: pb.LinuxContainerResources, *, node_memory_bytes: int = 0) -> Request:
    """Return the recorded request as an UpdateContainerResources changes it; zero and absent fields change nothing.

    A resize never changes the QoS class (KEP-1287), so a Guaranteed container's request follows its limits. A field
    that the kubelet would send for the recorded figure changes nothing: the record may be more exact.
    """
    patch = figures_of(request.pod.qos, resources, node_memory_bytes)
    limit_bytes = patch.memory_limit_bytes or request.memory_limit_bytes
    merged = replace(
        request,
        cpu_request_mcpu=_patched_cpu(request, resources, patch),
        cpu_limit_mcpu=_patched_limit(request, resources, patch),
        memory_request_bytes=_patched_memory(request, resources, patch, node_memory_bytes),
        memory_limit_bytes=limit_bytes,
        huge_pages=patch.huge_pages if resources.hugepage_limits else request.huge_pages,
    )
    if merged == request:
        return request
    fields = ("cpu_request_mcpu", "cpu_limit_mcpu", "memory_request_bytes", "memory_limit_bytes", "huge_pages")
    changed = {field for field in fields if getattr(merged, field) != getattr(request, field)}
    origins = tuple((field, f"{origin} of a resize") for field, origin in patch.origins if field in changed)
    return replace(merged, origins=_merged(request.origins, origins))


def _patched_cpu(request: Request, resources: pb.LinuxContainerResources, patch: Figures) -> int:
    """Return the CPU request of a patch."""
    # In a pod with resources of its own the quota may be the pod's: the request is below it.
    is_limit = request.cpu_limit_mcpu is None or request.cpu_request_mcpu >= request.cpu_limit_mcpu
    if request.pod.qos is QosClass.GUARANTEED and patch.cpu_limit_mcpu is not None and is_limit:
        return patch.cpu_request_mcpu
    if request.pod.qos is QosClass.GUARANTEED:
        patch = replace(patch, cpu_request_mcpu=linux.mcpu_of_shares(resources.cpu_shares))
    # Saturated shares must not undo an exact figure from a quota or an annotation.
    is_known = linux.shares_of(request.cpu_request_mcpu) == resources.cpu_shares
    return request.cpu_request_mcpu if is_known or not resources.cpu_shares else patch.cpu_request_mcpu


def _patched_limit(request: Request, resources: pb.LinuxContainerResources, patch: Figures) -> int | None:
    """Return the CPU limit of a patch; a negative quota takes it away."""
    recorded = request.cpu_limit_mcpu
    if patch.cpu_limit_mcpu is None:
        return None if resources.cpu_quota < 0 else recorded
    is_known = recorded is not None and linux.quota_of(recorded, resources.cpu_period) == resources.cpu_quota
    return recorded if is_known else patch.cpu_limit_mcpu


def _patched_memory(
    request: Request, resources: pb.LinuxContainerResources, patch: Figures, node_memory_bytes: int
) -> int:
    """Return the memory request of a patch: a Guaranteed container's limit, else the estimate from the new score."""
    recorded, adj = request.memory_request_bytes, resources.oom_score_adj
    if request.pod.qos is QosClass.GUARANTEED:
        return recorded if patch.memory_limit_bytes is None else patch.memory_limit_bytes
    if patch.memory_limit_bytes is not None:
        recorded = min(recorded, patch.memory_limit_bytes)  # no request is above its limit
    # 0 is an absent field: the kubelet gives no Burstable container less than 3.
    if not node_memory_bytes or not 0 < adj <= linux.MAX_BURSTABLE_OOM_SCORE_ADJ:
        return recorded
    return recorded if linux.burstable_oom_score_adj(recorded, node_memory_bytes) == adj else patch.memory_request_bytes
