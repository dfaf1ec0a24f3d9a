"""Why a container sits where it sits, for a terminal. Pure: a view in, text out."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from cri_proxy.cli.columns import WIDTH, Cells, column_widths, layout, paint, paragraph
from cri_proxy.cli.render_status import cpu_text, use_text
from cri_proxy.cri.annotations import without_effect
from cri_proxy.http.view import ContainerView, DecisionView, ExplainView
from policies.base import Affinity, CpuKind, Expression, Ranked, Request
from sysfs.cpuset import CpuSet, NodeSet

# What the fields of a key say; in each, the larger value is better.
MEANINGS = {
    "fits": "1: can give what is asked",
    "previous": "the container's earlier place",
    "isolated": "1: has the kernel-isolated CPUs that are wanted",
    "affinity": "pull of other containers, minus push",
    "hints": "nearness to the container's devices, 0 to 1",
    "hint_depth": "depth, among pools at the devices",
    "memory": "1: its memory nodes have the requested memory left",
    "burst_mcpu": "how much of the CPU limit it could give, in 1/1000 CPU",
    "few_nodes": "minus the number of memory nodes",
    "depth": "deeper pools are smaller and closer",
    "quiet": "minus the containers that share it",
    "cores": "how many of its own CPUs can be on wholly free cores",
    "left": "what is left in it afterwards",
    "first": "minus its place in the tree: decides the last tie",
}
_MAX_POOLS = 12
_GAP = 2
_LABEL = 15
_VALUE = 20


def render_explain(view: ExplainView, *, colours: bool = False) -> str:
    """Every decision, separated by an empty line."""
    return "\n\n".join(render_decision(decision, colours=colours) for decision in view.decisions)


def render_decision(decision: DecisionView, *, colours: bool = False) -> str:
    """One decision in sections: where, what was asked, why, the ranking, what it moved, what was not understood."""
    sections = [
        _where(decision, colours),
        _section("asked for", _asked(decision.request), colours),
        _section("why", [line for r in decision.reasons for line in paragraph(r.text, "    ", first="  - ")], colours),
        _section("pools, best first", _ranking(decision.ranking, colours), colours),
        _section("others changed by it", _displaced(decision), colours),
        _section("not understood, and ignored", _problems(decision.problems), colours),
        _section("known, without effect yet", _idle(decision.request), colours),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _section(title: str, lines: Sequence[str], colours: bool) -> list[str]:
    return [paint(title, "bold", colours=colours), *lines] if lines else []


def _ids(what: str, ids: CpuSet | NodeSet | None) -> str:
    if ids is None:
        return f"any {what}"
    return f"{what} {ids}" if len(ids) == 1 else f"{what}s {ids}"


def _where(decision: DecisionView, colours: bool) -> list[str]:
    """Who, what it holds now, and when that was decided."""
    request = decision.request
    name = f"{request.pod.namespace}/{request.pod.name}/{request.container.name}"
    held = decision.container
    place = _place(held) if held is not None else "holds nothing now"
    style = "green" if held is not None else "yellow"
    lines = [paint(name, "bold", colours=colours)]
    lines += [paint(line, style, colours=colours) for line in paragraph(place, "  ")]
    lines += paragraph(_when(decision), "  ")
    for note in held.notes if held is not None else ():
        lines += [paint(line, "yellow", colours=colours) for line in paragraph(note, "    ", first="  ! ")]
    return lines


def _place(held: ContainerView) -> str:
    parts = [_ids("CPU", held.cpus), use_text(held)]
    if held.kind == CpuKind.MIXED:
        parts.append(f"{held.exclusive | held.isolated} its own")
    if held.pool and held.kind != CpuKind.RESERVED:
        parts.append(f"in {held.pool}")
    return f"{', '.join([*parts, _ids('memory node', held.mems)])} ({held.state})"


def _when(decision: DecisionView) -> str:
    if decision.decided_at_seconds is None:
        return f"{decision.outcome}: decided before the daemon started, the ranking is not kept"
    moment = datetime.fromtimestamp(decision.decided_at_seconds, UTC)
    milliseconds = decision.duration_seconds * 1000
    return f"{decision.outcome} {moment:%Y-%m-%d %H:%M:%S} UTC, decided in {milliseconds:.1f} ms"


def bytes_text(count: int) -> str:
    """A number of bytes in the largest unit that shows it in full.

    >>> bytes_text(100 * 1024**2), bytes_text(1500)
    ('100Mi', '1500')
    """
    for power, unit in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{unit}"
    return str(count)


def _asked(request: Request) -> list[str]:
    """Each part of the request and where it came from."""
    origins = dict(request.origins)
    return [
        line for label, value, keys in _parts(request) for line in _part_lines(label, value, _origin(keys, origins))
    ]


def _part_lines(label: str, value: str, origin: str) -> list[str]:
    """One part of the request; its origin stands beside it, or below where it does not fit."""
    indent = " " * (_LABEL + 2)
    lines = paragraph(value, indent, first=f"  {label.ljust(_LABEL)}")
    beside = f"{lines[-1].ljust(_LABEL + 2 + _VALUE)}  {origin}"
    if not origin:
        return lines
    return [*lines[:-1], beside] if len(beside) <= WIDTH else [*lines, f"{indent}{origin}"]


def _origin(keys: Sequence[str], origins: dict[str, str]) -> str:
    found = list(dict.fromkeys(origins[key] for key in keys if key in origins))
    return f"from {' and '.join(found)}" if found else ""


def _parts(request: Request) -> Iterable[tuple[str, str, tuple[str, ...]]]:
    """(label, value, names under which ``origins`` may hold where it came from)."""
    limit = "no limit" if request.cpu_limit_mcpu is None else f"limit {cpu_text(request.cpu_limit_mcpu)}"
    yield "CPU", f"{cpu_text(request.cpu_request_mcpu)}, {limit}", ("cpu_request_mcpu",)
    most = request.memory_limit_bytes
    memory = bytes_text(request.memory_request_bytes)
    yield (
        "memory",
        f"{memory}, {'no limit' if most is None else f'limit {bytes_text(most)}'}",
        ("memory_request_bytes",),
    )
    yield "QoS class", request.pod.qos.value, ("qos",)
    wishes = request.wishes
    for label, field, value in (
        ("isolated CPUs", "prefer_isolated", _preference(wishes.prefer_isolated)),
        ("isolated CPUs", "require_isolated", "required" if wishes.require_isolated else ""),
        ("shared CPUs", "prefer_shared", _preference(wishes.prefer_shared)),
        ("levels up", "levels_up", str(wishes.levels_up) if wishes.levels_up else ""),
        ("reserved CPUs", "prefer_reserved", _preference(wishes.prefer_reserved)),
        ("CPUs", "preserve_cpu", "left alone" if wishes.preserve_cpu else ""),
        ("memory nodes", "preserve_memory", "left alone" if wishes.preserve_memory else ""),
    ):
        if value:
            yield label, value, _names(field)
    for affinity in request.affinities:
        yield _affinity_label(affinity), _affinity_text(affinity), ("affinity", "anti-affinity", "affinities")
    for hint in request.hints:
        yield "device", f"{hint.source}: {_ids('CPU', hint.cpus)}, {_ids('node', hint.nodes)}", ("hints",)
    if request.previous is not None:
        owned = f", CPUs {request.previous.owned}" if request.previous.owned else ""
        yield "earlier place", f"{request.previous.pool}{owned}", ("previous",)


def _names(field: str) -> tuple[str, ...]:
    """Names of a wish's origin: the field, or the annotation's key as it is written."""
    key = field.replace("_", "-")
    written = {"levels-up": "prefer-shared-cpus", "preserve-cpu": "cpu.preserve", "preserve-memory": "memory.preserve"}
    return (field, written.get(key, f"{key}-cpus"))


def _preference(value: bool | None) -> str:
    return "" if value is None else ("preferred" if value else "not wanted")


def _affinity_label(affinity: Affinity) -> str:
    return "affinity" if affinity.weight >= 0 else "anti-affinity"


def _affinity_text(affinity: Affinity) -> str:
    scope = "in its pod" if affinity.scope is None else f"where {_expression(affinity.scope)}"
    return f"weight {affinity.weight}: {_expression(affinity.match)}, {scope}"


def _expression(expression: Expression) -> str:
    values = f" {', '.join(expression.values)}" if expression.values else ""
    return f"{expression.key} {expression.operator}{values}".strip()


def _ranking(ranking: Sequence[Ranked], colours: bool) -> list[str]:
    """The pools with the key fields in which they differ, and below what these fields mean."""
    if not ranking:
        return []
    shown = ranking[:_MAX_POOLS]
    names = [name for name, _ in ranking[0].key]
    fields = _fitting([name for name in names if name in _deciding(shown)], shown)
    rows = [Cells(("pool", *fields, "outcome"), ("dim",) * (len(fields) + 2))]
    for row in shown:
        key = dict(row.key)
        style = "green" if row.outcome == "chosen" else ""
        values = [_value(key.get(name, "")) for name in fields]
        rows.append(Cells((row.pool, *values, row.outcome), (style,) * (len(fields) + 2)))
    widths = column_widths(rows, (24, *(12 for _ in fields), 24), flexible=len(fields) + 1, total=WIDTH - 2)
    lines = [f"  {line}" for line in layout(rows, widths, colours=colours)]
    if len(ranking) > len(shown):
        lines.append(f"  ... and {len(ranking) - len(shown)} more, all worse")
    return lines + _legend(fields, names)


def _deciding(rows: Sequence[Ranked]) -> set[str]:
    """The fields that put one of these pools before the next."""
    deciding = set()
    for better, worse in pairwise(rows):
        other = dict(worse.key)
        deciding.add(next((name for name, value in better.key if other.get(name) != value), ""))
    return deciding


def _value(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fitting(fields: Sequence[str], rows: Sequence[Ranked]) -> list[str]:
    """The first of these fields, the most important ones, that fit beside pool and outcome."""
    left = WIDTH - 2 - min(24, max(len(row.pool) for row in rows)) - _GAP - 24
    fitting: list[str] = []
    for name in fields:
        left -= _GAP + max(len(name), *(len(_value(dict(row.key).get(name, ""))) for row in rows))
        if left < 0:
            break
        fitting.append(name)
    return fitting


def _legend(fields: Sequence[str], names: Sequence[str]) -> list[str]:
    if not fields:
        return []
    lines = [
        "",
        *paragraph("compared from left to right, the larger value wins; other fields decided nothing", "  "),
    ]
    width = max(map(len, fields))
    for name in fields:
        if name in MEANINGS:
            lines += paragraph(MEANINGS[name], " " * (width + 4), first=f"  {name.ljust(width)}  ")
    return lines


def _displaced(decision: DecisionView) -> list[str]:
    lines: list[str] = []
    for other in decision.displaced:
        name = f"{other.namespace}/{other.pod}/{other.name}"
        lines += paragraph(
            f"{name}: now {_ids('CPU', other.cpus)}, {_ids('memory node', other.mems)}", "    ", first="  - "
        )
    for name in decision.moved:
        lines += paragraph(f"{name}: moved to a wider pool to make room", "    ", first="  - ")
    return lines


def _idle(request: Request) -> list[str]:
    keys = without_effect(request.origins)
    return [line for key in keys for line in paragraph(f"annotation {key}", "    ", first="  - ")]


def _problems(problems: Sequence[str]) -> list[str]:
    return [line for problem in problems for line in paragraph(problem, "    ", first="  ! ")]
