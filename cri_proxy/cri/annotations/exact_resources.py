"""Read exact requests and limits from a webhook's annotation, where they agree with the kubelet's CRI figures. Pure.

In CRI a Burstable container's memory request is known to a thousandth of the node only, quotas begin at 10m, and a
kubelet that enforces no quotas sends no CPU limit. The annotation is JSON:
``{"containers": {NAME: {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {…}}}, "initContainers": {…}}``.
The author of the pod may have written it, so a figure counts only where it agrees with what the kubelet sent. CPU
shares end at 256 CPUs, and agree with no request beyond.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cri_proxy.cri.amounts import SHARES, Figures
from cri_proxy.cri.annotations.values import ReadText
from cri_proxy.cri.linux_resources import MAX_SHARES, burstable_oom_score_adj, mcpu_of_shares, quota_of, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass
from sysfs.quantity import parse_bytes, parse_mcpu

KEYS = ("noderesource.dev/resources", "intel.com/resources")  # nri-plugins' and cri-resource-manager's


@dataclass(frozen=True, slots=True)
class Sent:
    """The resources that the kubelet sent, and the figures read from them; ``node_memory_bytes`` 0 = not known."""

    qos: QosClass
    resources: pb.LinuxContainerResources
    figures: Figures
    node_memory_bytes: int


@dataclass(frozen=True, slots=True)
class ExactFigures:
    """(field of ``Request``, figure) of what counts; ``problem``: what does not count and why, '' = nothing."""

    key: str = ""
    figures: tuple[tuple[str, int], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Stated:
    """The figures in the annotation for one container; None = not given."""

    cpu_request_mcpu: int | None
    cpu_limit_mcpu: int | None
    memory_request_bytes: int | None
    memory_limit_bytes: int | None
    is_init: bool


def exact_figures(texts: Mapping[str, ReadText], container: str, sent: Sent) -> ExactFigures:
    """Return a container's exact figures, from the first of ``KEYS`` that is set. Never raises."""
    key = next((k for k in KEYS if k in texts), "")
    if not key:
        return ExactFigures()
    if texts[key].problem:
        return ExactFigures(key, problem=texts[key].problem)
    try:
        stated = _stated(texts[key].value, container)
    except ValueError as error:
        return ExactFigures(key, problem=str(error))
    if stated is None:
        return ExactFigures(key)
    problems = tuple(_problems(stated, sent))
    wrong = {field for field, _ in problems}
    figures = tuple((field, value) for field, value in _better(stated, sent) if field not in wrong)
    return ExactFigures(key, figures, "; ".join(problem for _, problem in problems))


def _stated(value: object, container: str) -> _Stated | None:
    """Return the figures of a container or init container of this name; None without any. Raises ValueError."""
    for part in ("containers", "initContainers"):
        requirements = _entry(_entry(value, part), container)
        if requirements:
            requests, limits = _entry(requirements, "requests"), _entry(requirements, "limits")
            return _Stated(
                cpu_request_mcpu=parse_mcpu(str(requests["cpu"])) if "cpu" in requests else None,
                cpu_limit_mcpu=parse_mcpu(str(limits["cpu"])) if "cpu" in limits else None,
                memory_request_bytes=parse_bytes(str(requests["memory"])) if "memory" in requests else None,
                memory_limit_bytes=parse_bytes(str(limits["memory"])) if "memory" in limits else None,
                is_init=part == "initContainers",
            )
    return None


def _entry(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a map that may hold {key!r:.40}")
    entry = value.get(key) or {}
    if not isinstance(entry, dict):
        raise ValueError(f"expected a map under {key!r:.40}")
    return entry


def _problems(stated: _Stated, sent: Sent) -> Iterator[tuple[str, str]]:
    """Yield (field, why) of each figure that the kubelet's contradict."""
    resources = sent.resources
    mcpu, limit_mcpu = stated.cpu_request_mcpu, stated.cpu_limit_mcpu
    if mcpu is not None and shares_of(mcpu) != resources.cpu_shares:
        yield "cpu_request_mcpu", f"a CPU request of {mcpu}m does not give the cpu_shares of {resources.cpu_shares}"
    # Saturated shares agree with any larger number, which the pod's author may have made up.
    elif mcpu is not None and mcpu > max(mcpu_of_shares(MAX_SHARES), sent.figures.cpu_request_mcpu):
        yield "cpu_request_mcpu", f"a CPU request of {mcpu}m is more than cpu_shares can confirm, which end at 256 CPUs"
    quota = resources.cpu_quota
    if limit_mcpu is not None and quota > 0 and quota_of(limit_mcpu, resources.cpu_period) != quota:
        yield "cpu_limit_mcpu", f"a CPU limit of {limit_mcpu}m does not give the cpu_quota of {quota}"
    elif limit_mcpu is not None and limit_mcpu < sent.figures.cpu_request_mcpu:
        yield "cpu_limit_mcpu", f"a CPU limit of {limit_mcpu}m is less than the request"
    limit_bytes, sent_bytes = stated.memory_limit_bytes, resources.memory_limit_in_bytes
    if limit_bytes is not None and limit_bytes != sent_bytes:
        yield "memory_limit_bytes", f"a memory limit of {limit_bytes} bytes is not the {sent_bytes} that were sent"
    yield from _memory_problems(stated, sent)


def _memory_problems(stated: _Stated, sent: Sent) -> Iterator[tuple[str, str]]:
    """Check a Burstable container's request: for other classes it is the limit, or none."""
    requested_bytes, adj = stated.memory_request_bytes, sent.resources.oom_score_adj
    if requested_bytes is None or sent.qos is not QosClass.BURSTABLE or not sent.node_memory_bytes:
        return
    expected = burstable_oom_score_adj(requested_bytes, sent.node_memory_bytes)
    # A sidecar is killed no sooner than the containers that need it: its own score may be lower (KEP-753).
    if expected != adj and not (stated.is_init and expected > adj):
        yield (
            "memory_request_bytes",
            f"a memory request of {requested_bytes} bytes does not give the oom_score_adj of {adj}",
        )


def _better(stated: _Stated, sent: Sent) -> Iterator[tuple[str, int]]:
    """Yield (field, figure) of each figure that is more exact than the kubelet's."""
    origins = dict(sent.figures.origins)
    if stated.cpu_request_mcpu is not None and origins["cpu_request_mcpu"] == SHARES:
        yield "cpu_request_mcpu", stated.cpu_request_mcpu
    if stated.cpu_limit_mcpu:
        yield "cpu_limit_mcpu", stated.cpu_limit_mcpu
    can_be_confirmed = sent.qos is QosClass.BURSTABLE and bool(sent.node_memory_bytes)
    if stated.memory_request_bytes is not None and can_be_confirmed:
        yield "memory_request_bytes", stated.memory_request_bytes
