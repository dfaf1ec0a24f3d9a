"""Read the CPUs that another allocator has chosen for a container: from its CDI devices, or an annotation. Pure.

Sources: kubernetes-sigs/dra-driver-cpu (docs/user/how-it-works.md): its CDI device adds ``DRA_CPUSET_<claim uid>=<CPU
list>``, one for each ResourceClaim of the container. Koordinator's ``ResourceStatus`` (apis/extension/numa_aware.go):
its scheduler writes the CPUs of an LSR or LSE pod, and NUMA nodes, into an annotation, as JSON.

A variable in the pod's environment proves nothing: its author writes it. So may he write the annotation, which counts
where the CPUs that it names are paid for (docs/adr/0015-claims.md).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final

from cri_proxy.cri.annotations.forms import AnnotationProblem, cut
from cri_proxy.cri.annotations.read import WITHOUT_EFFECT
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.rules import AnnotationRules
from cri_proxy.cri.read_request import ReadRequest
from cri_proxy.foreign_text import admit
from policies.base import QosClass, Request
from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

VARIABLE_PREFIX: Final = "DRA_CPUSET_"
MAX_ANNOTATION_CHARACTERS: Final = 1 << 16
MAX_NODES: Final = 1024  # MAX_NUMNODES of the kernel's largest configuration
_SOURCE_BYTES: Final = 256
_NAMED: Final = 3  # variables in a sentence


@dataclass(frozen=True, slots=True)
class ClaimProblem(AnnotationProblem):
    """A variable of a CDI device that does not say which CPUs it is about, as ``AnnotationProblem``."""

    def __str__(self) -> str:
        return admit(f"variable {self.key} of a CDI device: {self.value!r}: {self.problem}")


@dataclass(frozen=True, slots=True)
class ReadClaim:
    """A claim, None without one, and what was not understood: nothing of the same kind counts then."""

    claim: CpuClaim | None = None
    problems: tuple[AnnotationProblem, ...] = ()


def with_claim(
    read: ReadRequest, variables: Sequence[tuple[str, str]], annotations: Mapping[str, str], rules: AnnotationRules
) -> ReadRequest:
    """Return the request with its claim: that of the ``variables`` of its CDI devices, else of its pod's annotation."""
    request = read.request
    found = of_variables(variables)
    if not variables:
        text = annotations.get(RESOURCE_STATUS, "")
        refused = rules.refused_in(request.pod.namespace).get(RESOURCE_STATUS, "") if text else ""
        found = of_annotation(text, request, refused)
    problems = (*read.problems, *found.problems)
    if found.claim is None:
        return replace(read, problems=problems) if found.problems else read
    return replace(read, request=claimed(request, found.claim), problems=problems)


def claimed(request: Request, claim: CpuClaim) -> Request:
    """Return the request with this claim, and with what it comes from."""
    kept = (each for each in request.origins if each[0] not in ("claim", f"{WITHOUT_EFFECT}{claim.source}"))
    return replace(request, claim=claim, origins=(*kept, ("claim", claim.source)))


def of_variables(variables: Sequence[tuple[str, str]]) -> ReadClaim:
    """Return the union of what these variables name; no claim where one of them cannot be read.

    >>> str(of_variables([("DRA_CPUSET_a", "0-1"), ("DRA_CPUSET_b", "4")]).claim.cpus)
    '0-1,4'
    """
    sets: list[CpuSet] = []
    problems: list[AnnotationProblem] = []
    for name, value in variables:
        cpus, problem = _cpus(value)
        sets.append(cpus)
        if problem:
            problems.append(ClaimProblem(name, cut(value), f"{problem}; the container is placed without its claim"))
    if problems or not sets:
        return ReadClaim(None, tuple(problems))
    names = [name for name, _ in variables]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    source = admit(", ".join(names[:_NAMED]), _SOURCE_BYTES) + more
    return ReadClaim(CpuClaim(CpuSet(reduce(or_, (cpus.mask for cpus in sets))), source))


def of_annotation(text: str, request: Request, refused: str = "") -> ReadClaim:
    """Return the claim of Koordinator's annotation for the container of this request, where that is paid for.

    ``refused`` is why the annotation does not count in the pod's namespace, '' = it does. A status without a cpuset
    is that of a pod that shares CPUs.
    """
    if not text:
        return ReadClaim()
    try:
        cpus, mems = _status(text)
    except ValueError as error:
        return _unread(text, str(error))
    if not cpus:
        return ReadClaim()
    if problem := refused or _why_unpaid(len(cpus), request):
        return _unread(text, problem)
    return ReadClaim(CpuClaim(cpus, RESOURCE_STATUS, mems, by_pod=True))


def _why_unpaid(count: int, request: Request) -> str:
    """Return why so many CPUs are not the container's to own, '' = they are.

    In a pod with resources of its own a container without a request has the pod's.
    """
    totals = request.pod_totals
    own_mcpu = request.cpu_request_mcpu if totals is None or not totals.shares_cpu else totals.cpu_request_mcpu
    # Rounded up, a container of 10m could own a whole CPU, and a hundred of them a node.
    if own_mcpu % 1000:
        return f"the CPU request is {own_mcpu}m: only whole CPUs can be a container's own; request 1000m for each"
    # Without its sandbox's figures those of a Burstable container may be a limit of the pod.
    is_own = request.pod.qos is QosClass.GUARANTEED
    # Not the sandbox's quota, which is the sum of limits: nothing counts these against the node.
    requested_mcpu = request.pod_request_mcpu or (own_mcpu if is_own else 0)
    if 1000 * count <= requested_mcpu:
        return ""
    if not requested_mcpu:
        return "the pod requests no CPU, as far as that is known"
    return f"it names {count} CPUs, more than the {requested_mcpu}m that the pod requests; request 1000m for each"


def _unread(text: str, problem: str) -> ReadClaim:
    return ReadClaim(problems=(AnnotationProblem(RESOURCE_STATUS, cut(text), problem),))


def _status(text: str) -> tuple[CpuSet, NodeSet]:
    """Return the CPUs and memory nodes of a ``ResourceStatus``. Raises ValueError."""
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        raise ValueError(f"longer than {MAX_ANNOTATION_CHARACTERS} characters")
    try:
        status = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    fields = _fields(status, "the status")
    listed = fields.get("cpuset") or ""
    if not isinstance(listed, str):
        raise ValueError(f"expected a CPU list as cpuset, got {listed!r:.40}")
    nodes = fields.get("numaNodeResources") or []
    if not isinstance(nodes, list):
        raise ValueError("expected a list as numaNodeResources")
    return CpuSet.parse(listed), NodeSet.of(_node(entry) for entry in nodes)


def _node(entry: object) -> int:
    node = _fields(entry, "an entry of numaNodeResources").get("node", 0)  # Go leaves a zero out
    if isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < MAX_NODES:
        raise ValueError(f"expected the number of a NUMA node, got {node!r:.40}")
    return node


def _fields(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a map as {what}, got {value!r:.40}")
    return value


def _cpus(text: str) -> tuple[CpuSet, str]:
    """Return a CPU list of a variable, and what is wrong with it."""
    try:
        cpus = CpuSet.parse(text)
    except CpuSetError as error:
        return CpuSet(), str(error)
    return cpus, "" if cpus else "it names no CPU"
