"""Read CPU and memory requests and limits of a scenario, check them by QoS class, and make or resize a container."""

from dataclasses import dataclass, replace

from cri_proxy.cri.amounts import page_bytes_of
from cri_proxy.cri_client.pods import ContainerSpec, PodAmounts, PodSpec
from cri_proxy.simulate.scenario.model import DEFAULT_MEMORY_BYTES, Amounts
from cri_proxy.yaml_fields import YamlField
from policies.base import QosClass
from sysfs.documents.forms import form, scalar
from sysfs.documents.table import KeyRow
from sysfs.quantity import parse_bytes, parse_mcpu


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
    """Return the limits by size, ``{2Mi: 1Gi}``. Raises ScenarioError for what no kubelet would send."""
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


_CPU, _MEMORY = scalar(parse_mcpu), scalar(parse_bytes)
RESIZE_ROWS = (
    KeyRow("cpu", _CPU, "request and limit alike; in a Burstable pod the request", field="cpu_mcpu"),
    KeyRow("cpu_request", _CPU, "instead of `cpu`", field="cpu_request_mcpu"),
    KeyRow("cpu_limit", _CPU, "instead of `cpu`", field="cpu_limit_mcpu"),
    KeyRow("memory", _MEMORY, "as `cpu`; 64Mi in a Guaranteed pod that says nothing of it", field="memory_bytes"),
    KeyRow("memory_request", _MEMORY, "instead of `memory`", field="memory_request_bytes"),
    KeyRow("memory_limit", _MEMORY, "instead of `memory`", field="memory_limit_bytes"),
)
AMOUNT_ROWS = (*RESIZE_ROWS, KeyRow("hugepages", form(_huge_pages), "limits by size: `{2Mi: 1Gi}`", field="huge_pages"))


def contradiction(found: Amounts, qos: QosClass | None) -> str:
    """Return why no container of a pod of this class can request this; '' when one can."""
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
    cpu, memory = amounts.cpu_mcpu, amounts.memory_bytes
    if qos is QosClass.GUARANTEED:
        cpu = cpu or amounts.cpu_limit_mcpu or amounts.cpu_request_mcpu
        memory = memory or amounts.memory_limit_bytes or amounts.memory_request_bytes or DEFAULT_MEMORY_BYTES
        return ContainerSpec(name, cpu or 0, cpu or 0, memory, memory, huge_pages=amounts.huge_pages)
    as_limit = qos is not QosClass.BURSTABLE
    return ContainerSpec(
        name,
        cpu_request_mcpu=amounts.cpu_request_mcpu or cpu or 0,
        cpu_limit_mcpu=amounts.cpu_limit_mcpu or (cpu if as_limit else 0) or 0,
        memory_request_bytes=amounts.memory_request_bytes or memory or 0,
        memory_limit_bytes=amounts.memory_limit_bytes or (memory if as_limit else 0) or 0,
        huge_pages=amounts.huge_pages,
    )


def pod_amounts(amounts: Amounts) -> PodAmounts:
    """Return the resources of a pod as a whole; ``cpu`` and ``memory`` are request and limit alike."""
    asked = container_spec("", amounts, None)
    return PodAmounts(
        asked.cpu_request_mcpu, asked.cpu_limit_mcpu, asked.memory_request_bytes, asked.memory_limit_bytes
    )


def resized(before: ContainerSpec, change: Amounts, qos: QosClass) -> ContainerSpec:
    """Return the container after a resize; amounts that are not given stay, and so does the QoS class (KEP-1287)."""
    cpu, memory = change.cpu_mcpu, change.memory_bytes
    if qos is QosClass.GUARANTEED:
        cpu = cpu or change.cpu_limit_mcpu or change.cpu_request_mcpu or before.cpu_limit_mcpu
        memory = memory or change.memory_limit_bytes or change.memory_request_bytes or before.memory_limit_bytes
        return replace(
            before,
            cpu_request_mcpu=cpu,
            cpu_limit_mcpu=cpu,
            memory_request_bytes=memory,
            memory_limit_bytes=memory,
        )
    return replace(
        before,
        cpu_request_mcpu=change.cpu_request_mcpu or cpu or before.cpu_request_mcpu,
        cpu_limit_mcpu=change.cpu_limit_mcpu or before.cpu_limit_mcpu,
        memory_request_bytes=change.memory_request_bytes or memory or before.memory_request_bytes,
        memory_limit_bytes=change.memory_limit_bytes or before.memory_limit_bytes,
    )
