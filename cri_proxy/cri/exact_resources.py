"""Exact requests from the annotation that the peers' admission webhooks leave on a pod (pure).

CRI tells a Burstable container's memory request only to a thousandth of the node, and CPU shares end at 256 CPUs. The
annotation is JSON: ``{"containers": {NAME: {"requests": {"cpu": "1500m", "memory": "1Gi"}}}, "initContainers": {…}}``.
Whoever creates the pod may have written it, so a figure counts only where it agrees with what the kubelet sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cri_proxy.cri.annotation_values import parse_text
from cri_proxy.cri.kubelet_numbers import burstable_oom_score_adj, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from sysfs.quantity import parse_bytes, parse_mcpu

KEYS = ("noderesource.dev/resources", "intel.com/resources")  # nri-plugins' and cri-resource-manager's


@dataclass(frozen=True, slots=True)
class ExactRequests:
    """What the annotation says and the kubelet's figures confirm; None = nothing. ``problem`` '' = none."""

    key: str = ""
    cpu_request_mcpu: int | None = None
    memory_request_bytes: int | None = None
    problem: str = ""


def exact_requests(
    annotations: Mapping[str, str], container: str, resources: pb.LinuxContainerResources, *, node_memory_bytes: int
) -> ExactRequests:
    """The exact requests of a container, from the first of ``KEYS`` that is there. Never raises."""
    key = next((k for k in KEYS if k in annotations), "")
    if not key:
        return ExactRequests()
    try:
        requests = _requests(parse_text(annotations[key]), container)
        mcpu = parse_mcpu(str(requests["cpu"])) if "cpu" in requests else None
        memory_bytes = parse_bytes(str(requests["memory"])) if "memory" in requests else None
    except ValueError as error:
        return ExactRequests(key, problem=str(error))
    problems = []
    if mcpu is not None and shares_of(mcpu) != resources.cpu_shares:
        problems.append(f"a CPU request of {mcpu}m does not give the cpu_shares of {resources.cpu_shares}")
        mcpu = None
    adj = resources.oom_score_adj
    if not node_memory_bytes:
        memory_bytes = None  # cannot be confirmed
    if memory_bytes is not None and burstable_oom_score_adj(memory_bytes, node_memory_bytes) != adj:
        problems.append(f"a memory request of {memory_bytes} bytes does not give the oom_score_adj of {adj}")
        memory_bytes = None
    return ExactRequests(key, mcpu, memory_bytes, "; ".join(problems))


def _requests(value: object, container: str) -> Mapping[str, object]:
    """The requests of a container or init container of this name; {} when it has none. Raises ValueError."""
    for part in ("containers", "initContainers"):
        requirements = _entry(_entry(value, part), container)
        if requirements:
            return _entry(requirements, "requests")
    return {}


def _entry(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a map that may hold {key!r:.40}")
    entry = value.get(key) or {}
    if not isinstance(entry, dict):
        raise ValueError(f"expected a map under {key!r:.40}")
    return entry
