"""Format decisions for a terminal: place, reasons, request, ranking, repinned containers and history. Pure."""

from collections.abc import Sequence

from cri_proxy.cli.render.amounts import devices_text, ids_text, moment_text
from cri_proxy.cli.render.columns import WIDTH, paint, paragraph
from cri_proxy.cli.render.events import event_text
from cri_proxy.cli.render.pool_tree import use_text
from cri_proxy.cli.render.ranking import render_ranking
from cri_proxy.cli.render.request import render_request
from cri_proxy.cli.render.workload import is_workload, render_workload
from cri_proxy.node.status.decision_views import ExplainView, Explanation, PoolHolderView
from cri_proxy.node.status.model import ContainerView
from cri_proxy.state.decisions import DecisionRecord, HistoryEntry, PinningChange
from policies.base import CpuKind, Reason
from sysfs.text import some

# Reasons that have a section of their own; displaced containers are listed by name.
_CPUS = "cpus-picked"
_MEMORY = ("memory-", "hugepages", "cold-start", "no-cold-start")
_TOPOLOGY = "topology-"
_DEVICES = ("devices", "device-costs")
_DISPLACED = "displaced"
_NAMES = 6


def render_explain(view: ExplainView, *, colours: bool = False, width: int = WIDTH) -> str:
    """Return every decision, separated by an empty line; for several pods a list to choose from instead."""
    read_as = paragraph(f"read as {' and as '.join(view.read_as)}", "  ", first="", width=width) if view.read_as else []
    if is_workload(view.decisions):
        return render_workload(view.decisions, colours=colours, width=width)
    if len({each.decision.key.pod_uid for each in view.decisions}) > 1:
        return "\n".join([*read_as, *_choice(view.decisions, width)])
    texts = (render_explanation(each, colours=colours, width=width) for each in view.decisions)
    return "\n\n".join(["\n".join(read_as), *texts] if read_as else texts)


def _choice(explanations: Sequence[Explanation], width: int) -> list[str]:
    """Return a line per container with the pod's uid, the only unique name."""
    lines = paragraph("several pods are meant; choose one with --namespace or by its uid:", "", width=width)
    for each in explanations:
        decision, held = each.decision, each.container
        place = f"{decision.outcome}, holds nothing" if held is None else _place(held)
        lines += paragraph(f"{decision.request.full_name}: {place}", "    ", first="  ", width=width)
        lines.append(f"    uid {decision.key.pod_uid}")
    return lines


def render_explanation(explanation: Explanation, *, colours: bool = False, width: int = WIDTH) -> str:
    """Return one decision in sections, from the container's place to ignored annotations."""
    decision = explanation.decision
    cpus = [reason for reason in decision.reasons if reason.code == _CPUS]
    memory = [reason for reason in decision.reasons if reason.code.startswith(_MEMORY)]
    listed = bool(decision.displaced)
    topology = [reason for reason in decision.reasons if reason.code.startswith(_TOPOLOGY)]
    devices = [reason for reason in decision.reasons if reason.code.startswith(_DEVICES)]
    apart = cpus + memory + topology + devices
    rest = [r for r in decision.reasons if r not in apart and not (listed and r.code == _DISPLACED)]
    sections = (
        ("", _where(explanation, colours, width)),
        ("changed since the decision", _list(explanation.differences, width)),
        ("not exclusive", render_conditions(explanation, width=width)),
        ("what would help", _list(explanation.helps, width)),
        (f"others in {explanation.wanted_pool}", render_holders(explanation.holders, width=width)),
        ("asked for", render_request(decision.request, decision.defaults, width=width)),
        ("why", _reasons(rest, width)),
        ("topology hints", _reasons(topology, width)),
        ("choice of devices", _reasons(devices, width)),
        ("choice of CPUs", _reasons(cpus, width)),
        ("choice of memory", _reasons(memory, width)),
        ("attracted or repelled by", _list(decision.affinity_reasons, width)),
        ("pools, best first", render_ranking(explanation, colours=colours, width=width)),
        ("changes of other containers", render_displaced(decision, width=width)),
        ("history", render_history(decision.history, width=width)),
        ("annotations ignored", _list(decision.problems, width, mark="!")),
        ("annotations known, without effect yet", _list(explanation.without_effect, width)),
    )
    return "\n\n".join(
        "\n".join([paint(title, "bold", colours=colours), *lines] if title else lines)
        for title, lines in sections
        if lines
    )


def _reasons(reasons: Sequence[Reason], width: int) -> list[str]:
    return _list([reason.text for reason in reasons], width)


def _list(texts: Sequence[str], width: int, *, mark: str = "-") -> list[str]:
    return [line for text in texts for line in paragraph(text, "    ", first=f"  {mark} ", width=width)]


def _where(explanation: Explanation, colours: bool, width: int) -> list[str]:
    """Return the container, what it holds now, the outcome of the decision and its time."""
    decision, held = explanation.decision, explanation.container
    place = _place(held) if held is not None else "holds nothing now"
    style = "green" if held is not None else "yellow"
    lines = [paint(str(decision.request.full_name), "bold", colours=colours)]
    lines += [paint(line, style, colours=colours) for line in paragraph(place, "  ", width=width)]
    lines += paragraph(_when(decision), "  ", width=width)
    warnings = [f"not created: {decision.failure}"] if decision.failure else []
    warnings += held.notes if held is not None else ()
    lines += [paint(line, "yellow", colours=colours) for line in _list(warnings, width, mark="!")]
    return lines


def _place(held: ContainerView) -> str:
    parts = [ids_text("CPU", held.cpus), use_text(held)]
    if held.kind == CpuKind.MIXED:
        parts.append(f"{held.exclusive | held.isolated} its own")
    if held.pool and held.kind != CpuKind.RESERVED:
        parts.append(f"in {held.pool}")
    parts.append(ids_text("memory node", held.mems))
    parts += [devices_text(held.devices)] if held.devices else []
    if held.is_cold:
        until = f" until {moment_text(held.warm_at_seconds)} UTC" if held.warm_at_seconds is not None else ""
        parts.append(f"in its cold start{until}")
    return f"{', '.join(parts)} ({held.state})"


def _when(decision: DecisionRecord) -> str:
    if decision.decided_at_seconds is None:
        return f"{decision.outcome}: no record of its decision is left"
    milliseconds = decision.duration_seconds * 1000
    took = f", decided in {milliseconds:.1f} ms" if milliseconds else ""
    return f"{decision.outcome} {moment_text(decision.decided_at_seconds)} UTC{took}"


def render_conditions(explanation: Explanation, *, width: int) -> list[str]:
    """Return what keeps the container from CPUs of its own, each with what to change below it."""
    lines: list[str] = []
    for condition in explanation.not_exclusive:
        by = f": {'; '.join(explanation.not_guaranteed_by)}" if condition.code == "qos" else ""
        lines += _list([f"{condition.text}{by}"], width)
        lines += paragraph(condition.remedy, "      ", first="    > ", width=width)
    return lines


def render_holders(holders: Sequence[PoolHolderView], *, width: int) -> list[str]:
    """Return the others of the pool that it would be in: who owns which CPUs, and how much the others share."""
    owners = [f"{each}: {ids_text('CPU', each.cpus)}" for each in holders if each.cpus]
    sharers = [f"{each} {each.shared_mcpu}m" for each in holders if not each.cpus]
    return _list([*owners, *([f"sharing: {some(sharers, _NAMES)}"] if sharers else [])], width)


def render_displaced(decision: DecisionRecord, *, width: int) -> list[str]:
    """Return other containers whose CPUs or memory nodes changed, grouped by change, and those that moved."""
    groups: dict[str, list[str]] = {}
    for other in decision.displaced:
        groups.setdefault(_change(other), []).append(str(other))
    texts = [f"{some(names, _NAMES)}: {change}" for change, names in groups.items()]
    more = decision.displaced_count - len(decision.displaced)
    texts += [f"and {more} more containers"] if more > 0 else []
    texts += [f"{move.who}: {move.code} {move.text}" for move in decision.moves]
    return _list(texts, width)


def pinning_change_text(other: PinningChange) -> str:
    """Return a container with the change of its pinning."""
    return f"{other}: {_change(other)}"


def render_history(history: Sequence[HistoryEntry], *, width: int) -> list[str]:
    """Return the history, a dated entry each."""
    lines: list[str] = []
    for change in history:
        text = f"{moment_text(change.at_seconds)}  {event_text(change)}"
        lines += paragraph(text, "    ", first="  ", width=width)
    return lines


def _change(other: PinningChange) -> str:
    """Return the CPUs and memory nodes of another container that changed, before and after."""
    parts = []
    if other.cpus_before is None and other.mems_before is None:
        return f"now {ids_text('CPU', other.cpus)}, {ids_text('memory node', other.mems)}"
    if other.cpus_before != other.cpus:
        parts.append(f"{ids_text('CPU', other.cpus_before)} to {ids_text('CPU', other.cpus)}")
    if other.mems_before != other.mems:
        parts.append(f"{ids_text('memory node', other.mems_before)} to {ids_text('memory node', other.mems)}")
    return f"from {', '.join(parts)}" if parts else "nothing that it may use"
