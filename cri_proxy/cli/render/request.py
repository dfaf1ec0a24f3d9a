"""Format the request in an explanation: each part with the annotation, CRI field or option behind it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cri_proxy.cli.render.amounts import about_bytes_text, cpu_text, devices_text, ids_text
from cri_proxy.cli.render.columns import paragraph
from cri_proxy.cri.annotations.table import TABLE
from policies.answers import Default
from policies.base import Affinity, Expression, Request
from policies.device_grants import DeviceGrant, by_place, cost_names
from sysfs.quantity import bytes_text

_LABEL = 15
_VALUE = 20
_GROUP = "topologyAware."  # every option of a placement is in it


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A part of a request; ``fields`` are the keys of its sources in ``origins``."""

    label: str
    value: str
    fields: tuple[str, ...] = ()


# The label of a preference that an option decides instead; the first row of a field names it.
LABELS = {field: row.label for row in reversed(TABLE) for field in row.fields if row.label}


def render_request(request: Request, defaults: Sequence[Default], *, width: int) -> list[str]:
    """Return each part of the request with its source, then the defaults that options set."""
    origins = dict(request.origins)
    lines = [line for part in _parts(request) for line in _lines(part.label, part.value, _origin(part, origins), width)]
    for default in defaults:
        label = LABELS.get(default.field, default.field)
        lines += _lines(label, default.value, f"by default: {default.option.removeprefix(_GROUP)}", width)
    return lines


def _lines(label: str, value: str, origin: str, width: int) -> list[str]:
    """Return one part with its source beside it, or below where it does not fit."""
    indent = " " * (_LABEL + 2)
    lines = paragraph(value, indent, first=f"  {label.ljust(_LABEL - 1)} ", width=width)
    if not origin:
        return lines
    beside = f"{lines[-1].ljust(_LABEL + 2 + _VALUE)}  {origin}"
    if len(beside) <= width:
        return [*lines[:-1], beside]
    return [*lines, *paragraph(origin, indent, width=width)]


def _origin(part: RequestLine, origins: dict[str, str]) -> str:
    found = list(dict.fromkeys(origins[field] for field in part.fields if field in origins))
    return f"from {' and '.join(found)}" if found else ""


def _parts(request: Request) -> Iterator[RequestLine]:
    limit = "no limit" if request.cpu_limit_mcpu is None else f"limit {cpu_text(request.cpu_limit_mcpu)}"
    yield RequestLine("CPU", f"{cpu_text(request.cpu_request_mcpu)}, {limit}", ("cpu_request_mcpu", "cpu_limit_mcpu"))
    if request.claim is not None:
        nodes = f", memory of {ids_text('node', request.claim.mems)}" if request.claim.mems else ""
        yield RequestLine("CPUs", f"{request.claim.cpus}{nodes}, decided elsewhere", ("claim",))
    most = "no limit" if request.memory_limit_bytes is None else f"limit {_memory(request.memory_limit_bytes)}"
    amount = _memory(request.memory_request_bytes)
    yield RequestLine("memory", f"{amount}, {most}", ("memory_request_bytes", "memory_limit_bytes"))
    if request.huge_pages:
        pages = ", ".join(f"{_memory(p.limit_bytes)} of {bytes_text(p.page_bytes)}" for p in request.huge_pages)
        yield RequestLine("huge pages", pages, ("huge_pages",))
    yield RequestLine("QoS class", request.pod.qos.value, ("qos",))
    for row in TABLE:
        value = row.shown(request.preferences)
        if value:
            yield RequestLine(row.label, value, row.fields)
    for affinity in request.affinities:
        label = "affinity" if affinity.weight >= 0 else "anti-affinity"
        yield RequestLine(label, _affinity_text(affinity), ("affinities",))
    for locality in request.localities:
        places = (ids_text("CPU", locality.cpus), ids_text("node", locality.nodes) if locality.nodes else "")
        named_by = f", named by {locality.via}" if locality.via else ""
        text = f"{locality.source}: {', '.join(filter(None, places))}{named_by}"
        yield RequestLine("device", text, ("localities", "locality_filter"))
    if request.previous is not None:
        owned = f", CPUs {request.previous.owned}" if request.previous.owned else ""
        devices = f", {_devices_text(request.previous.devices)}" if request.previous.devices else ""
        yield RequestLine("earlier place", f"{request.previous.pool}{owned}{devices}".removeprefix(", "))


def _devices_text(devices: tuple[DeviceGrant, ...]) -> str:
    parts = (devices_text(cost_names(devices)), ", ".join(map(str, by_place(devices))))
    return ", ".join(filter(None, parts))


def _memory(count: int) -> str:
    """An amount as it was written; what was estimated from oom_score_adj is a crooked number, and not exact anyway."""
    exact = bytes_text(count)
    return exact if not exact.isdigit() or count < 1 << 20 else f"about {about_bytes_text(count)}"


def _affinity_text(affinity: Affinity) -> str:
    scope = "in its pod" if affinity.scope is None else f"where {_expression(affinity.scope)}"
    return f"weight {affinity.weight}: {_expression(affinity.match)}, {scope}"


def _expression(expression: Expression) -> str:
    values = f" {', '.join(expression.values)}" if expression.values else ""
    return f"{expression.key} {expression.operator}{values}".strip()
