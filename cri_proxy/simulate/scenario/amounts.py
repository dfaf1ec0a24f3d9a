"""Read CPU and memory requests and limits of a scenario, check them by QoS class, and make or resize a container."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cri_proxy.cri.amounts import page_bytes_of
from cri_proxy.cri_client.pods import ContainerSpec, PodAmounts, PodSpec
from cri_proxy.yaml_fields import YamlField
from policies.base import QosClass
from sysfs.documents.forms import form, scalar
from sysfs.documents.table import keyed, rows_of
from sysfs.quantity import parse_bytes, parse_mcpu

# The memory of a container of a Guaranteed pod when the scenario gives none.
DEFAULT_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class DeclaredPod(PodSpec):
    """A pod with a declared QoS class, because a scenario need not spell out every container of it.

    ``is_static``: the kubelet created it from a file of the node.
    """

    declared_qos: QosClass = QosClass.BURSTABLE
    is_static: bool = False

    @property
    def qos(self) -> QosClass:
        """The declared class."""
        return self.declared_qos


def _huge_pages(part: YamlField, what: str) -> tuple[tuple[str, int], ...]:
    """Return the limits by size, ``{2Mi: 1Gi}``. Raises DocumentError for what no kubelet would send."""
    found = []
    for size, value in part.entries(what).items():
        page_size = f"{size.removesuffix('i')}B"
        if not size.endswith("i") or not page_bytes_of(page_size):
            raise value.refuse(f"{what}: {size!r} is no size of a page; write 2Mi or 1Gi")
        limit = value.parsed(what, parse_bytes)
        if limit % page_bytes_of(page_size):
            raise value.refuse(f"{what}: {limit} bytes are no multiple of {size}")
        found.append((page_size, limit))
    return tuple(found)


_CPU, _MEMORY, _HUGE_PAGES = scalar(parse_mcpu), scalar(parse_bytes), form(_huge_pages)


@dataclass(frozen=True, slots=True)
class Amounts:
    """The requests of a container by the scenario; None = not given."""

    cpu_mcpu: int | None = keyed(_CPU, "request and limit alike; in a Burstable pod the request", None, name="cpu")
    cpu_request_mcpu: int | None = keyed(_CPU, "instead of `cpu`", None, name="cpu_request")
    cpu_limit_mcpu: int | None = keyed(_CPU, "instead of `cpu`", None, name="cpu_limit")
    memory_bytes: int | None = keyed(
        _MEMORY, "as `cpu`; 64Mi in a Guaranteed pod that says nothing of it", None, name="memory"
    )
    memory_request_bytes: int | None = keyed(_MEMORY, "instead of `memory`", None, name="memory_request")
    memory_limit_bytes: int | None = keyed(_MEMORY, "instead of `memory`", None, name="memory_limit")
    huge_pages: tuple[tuple[str, int], ...] = keyed(_HUGE_PAGES, "limits by size: `{2Mi: 1Gi}`", (), name="hugepages")

    def cpu(self, qos: QosClass | None) -> tuple[int, int]:
        """Return request and limit of CPU in a pod of this class; 0 = not given."""
        return _pair(self.cpu_mcpu, self.cpu_request_mcpu, self.cpu_limit_mcpu, qos)

    def memory(self, qos: QosClass | None) -> tuple[int, int]:
        """Return request and limit of memory in a pod of this class; 0 = not given."""
        return _pair(self.memory_bytes, self.memory_request_bytes, self.memory_limit_bytes, qos)


def _pair(both: int | None, request: int | None, limit: int | None, qos: QosClass | None) -> tuple[int, int]:
    if qos is QosClass.GUARANTEED:
        return (both or limit or request or 0,) * 2
    return request or both or 0, limit or (both if qos is not QosClass.BURSTABLE else 0) or 0


make_amounts: Callable[..., Amounts] = Amounts
AMOUNT_ROWS = rows_of(Amounts)
RESIZE_ROWS = AMOUNT_ROWS[:-1]  # huge pages stay


def contradiction(found: Amounts, qos: QosClass | None) -> str:
    """Return the reason that no container of a pod of this class can request this; '' for none."""
    request, limit = found.cpu_request_mcpu or found.cpu_mcpu, found.cpu_limit_mcpu
    if found.cpu_mcpu is not None and found.cpu_request_mcpu is not None and limit is not None:
        return "cpu says what cpu_request and cpu_limit say as well; leave one out"
    if request is not None and limit is not None and request > limit:
        return f"a request of {request}m is more than the limit of {limit}m"
    if qos is QosClass.BEST_EFFORT and found != Amounts():
        return "a BestEffort pod asks for nothing; leave cpu and memory out, or change qos"
    if qos is QosClass.GUARANTEED and not (request or limit):
        return "a container of a Guaranteed pod asks for CPU; add cpu"
    if qos is QosClass.GUARANTEED and None not in (request, limit) and request != limit:
        return "a Guaranteed pod's cpu_request is its cpu_limit; give cpu alone, or qos: burstable"
    return ""


def container_spec(name: str, amounts: Amounts, qos: QosClass | None) -> ContainerSpec:
    """Return the container of a pod of this class; None = the class follows from the containers."""
    least_bytes = DEFAULT_MEMORY_BYTES if qos is QosClass.GUARANTEED else 0
    request_bytes, limit_bytes = amounts.memory(qos)
    memory = request_bytes or least_bytes, limit_bytes or least_bytes
    return ContainerSpec(name, *amounts.cpu(qos), *memory, huge_pages=amounts.huge_pages)


def pod_amounts(amounts: Amounts) -> PodAmounts:
    """Return the resources of a pod as a whole; ``cpu`` and ``memory`` are request and limit alike."""
    return PodAmounts(*amounts.cpu(None), *amounts.memory(None))


def resized(before: ContainerSpec, change: Amounts, qos: QosClass) -> ContainerSpec:
    """Return the container after a resize; amounts that are not given stay, and so does the QoS class (KEP-1287)."""
    by_class = qos if qos is QosClass.GUARANTEED else QosClass.BURSTABLE
    (cpu_request, cpu_limit), (memory_request, memory_limit) = change.cpu(by_class), change.memory(by_class)
    return replace(
        before,
        cpu_request_mcpu=cpu_request or before.cpu_request_mcpu,
        cpu_limit_mcpu=cpu_limit or before.cpu_limit_mcpu,
        memory_request_bytes=memory_request or before.memory_request_bytes,
        memory_limit_bytes=memory_limit or before.memory_limit_bytes,
    )
