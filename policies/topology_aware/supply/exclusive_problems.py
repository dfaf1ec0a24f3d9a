"""List what keeps a container from CPUs of its own, each with what to change; the rule is that of its ``Demand``."""

from collections.abc import Iterator

from policies.answers import Condition
from policies.base import CpuKind, Grant, Request
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.demand import SharingRule, sharing_rule

_ANNOTATE = "annotate it with prefer-shared-cpus: false"
_GROUP = "topologyAware."


def not_exclusive(grant: Grant, options: TopologyAwareOptions, reserved_namespace: str) -> tuple[Condition, ...]:
    """Return what keeps this container from CPUs of its own, or some of what it asks for; nothing if it has them.

    ``reserved_namespace`` is what reserves its namespace, '' = nothing does.
    """
    return tuple(_conditions(grant, options, reserved_namespace))


def _conditions(grant: Grant, options: TopologyAwareOptions, reserved_namespace: str) -> Iterator[Condition]:
    request = grant.request
    if grant.kind is CpuKind.PRESERVE:
        yield Condition(
            "preserved", f"its cpuset is left alone, by {_origin(request, 'preserve_cpu')}", "remove that annotation"
        )
        return
    if not options.pin_cpu:
        yield Condition("not-pinned", f"no cpuset is written: {_GROUP}PinCPU=false", f"set {_GROUP}PinCPU: true")
    if grant.shares_cpus:
        yield Condition(
            "pod-level",
            "its CPUs are its pod's, which all of its containers without a CPU request share (pod-level resources)",
            "give the container CPU requests and limits of its own",
        )
    # There no other rule would give it CPUs of its own.
    if grant.kind is CpuKind.RESERVED or grant.reserved_mcpu:
        yield _on_reserved(request, reserved_namespace)
        return
    yield from _by_rule(request, options)
    yield from _of_amount(grant)
    yield from _for_want_of_room(grant, options)


def _on_reserved(request: Request, reserved_namespace: str) -> Condition:
    if request.preferences.prefer_reserved:
        by = _origin(request, "prefer_reserved")
        return Condition("annotation", f"it runs on the reserved CPUs, by {by}", "remove that annotation")
    text = f"namespace {request.pod.namespace} runs on the reserved CPUs ({reserved_namespace})"
    return Condition("namespace", text, "annotate it with prefer-reserved-cpus: false, or use another namespace")


def _by_rule(request: Request, options: TopologyAwareOptions) -> Iterator[Condition]:
    match sharing_rule(request, options):
        case SharingRule.ANNOTATION as code:
            by = _origin(request, "prefer_shared")
            yield Condition(code, f"it prefers shared CPUs, by {by}", "remove that annotation, or write false")
        case SharingRule.QOS as code:
            text = f"the QoS class of its pod is {request.pod.qos.value}, not Guaranteed"
            equal = "set requests of CPU and memory equal to their limits in all containers of the pod"
            yield Condition(code, text, f"{equal}, or {_ANNOTATE}")
        case SharingRule.OPTION as code:
            text = f"containers share by default: {_GROUP}PreferSharedCPUs=true"
            yield Condition(code, text, f"{_ANNOTATE}, or set {_GROUP}PreferSharedCPUs: false")


def _of_amount(grant: Grant) -> Iterator[Condition]:
    mcpu = grant.booked_for_mcpu
    if not mcpu:
        yield Condition("no-request", "it requests no CPU", "request whole CPUs")
    elif mcpu < 1000:
        yield Condition("fraction", f"it requests {mcpu}m, less than a whole CPU", "request whole CPUs")
    elif mcpu % 1000:
        low = mcpu // 1000
        text = f"it requests {mcpu}m: {mcpu % 1000}m are no whole CPU"
        yield Condition("fraction", text, f"request {low} or {low + 1} CPUs")


def _for_want_of_room(grant: Grant, options: TopologyAwareOptions) -> Iterator[Condition]:
    request, preferences = grant.request, grant.request.preferences
    if grant.is_overcommitted:
        let_in = "it was let in without a reservation (onShortage: admit)"
        text = f"no pool had room for its {grant.booked_for_mcpu}m: {let_in}"
        yield Condition("overcommitted", text, "request less, or end others: status has what fits")
    elif grant.kind is CpuKind.SHARED and sharing_rule(request, options) is None and request.cpu_request_mcpu >= 1000:
        text = "it found no CPUs of its own when it was placed, gave them up later, or was placed under other options"
        yield Condition("no-room", text, "create the pod again; where that many CPUs are not free, end others first")
    wants_isolated = preferences.prefer_isolated or preferences.require_isolated
    if wants_isolated and grant.exclusive and not grant.isolated:
        by = _origin(request, "prefer_isolated", "require_isolated")
        text = f"its CPUs are not isolated by the kernel, which it prefers by {by}: too few were free"
        yield Condition("isolated", text, "isolate more CPUs (isolcpus=), or end a container that has some")


def _origin(request: Request, *fields: str) -> str:
    """Return the annotation that set the first of these fields.

    A cpu.preserve that may only keep the container off owned CPUs sets them too, and is no origin.
    """
    origins = dict(request.origins)
    return next((origins[field] for field in fields if field in origins), "an annotation (see annotations ignored)")
