"""Render plans of manifests as text: the answer in figures, refusals, workloads, differences, the map of each node."""

from collections import Counter
from collections.abc import Iterator, Sequence

from cri_proxy.cli.render.amounts import cpu_text
from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph, terminal_width
from cri_proxy.simulate.plan.compare import differences
from cri_proxy.simulate.plan.result import PlannedNode, PlanResult
from sysfs.cpuset import CpuSet
from sysfs.show.cpu_map import MANY, drawn, legend, lettered, owned_by_letter
from sysfs.text import plural

MOST_REFUSALS = 20
MOST_DIFFERENCES = 40
MOST_MAPS = 4
MOST_MOVES = 10
_LIMITS = (30, 40, 40)


def plan_text(plans: Sequence[PlanResult]) -> str:
    """Return one plan, or two with what differs between them first."""
    width = terminal_width()
    if len(plans) == 1:
        return "\n".join(_plan_lines(plans[0], width))
    first, second = plans
    lines = list(_difference_lines(first, second, width))
    for plan in plans:
        lines += ["", plan.title, *_plan_lines(plan, width)]
    return "\n".join(lines)


def _difference_lines(first: PlanResult, second: PlanResult, width: int) -> Iterator[str]:
    found = differences(first, second)
    if not found:
        yield f"no difference between {first.title} and {second.title}"
        return
    rows = [Cells(("differs", first.title, second.title), ("bold",) * 3)]
    rows += [Cells((each.what, each.first or "-", each.second or "-")) for each in found[:MOST_DIFFERENCES]]
    yield from layout(rows, column_widths(rows, _LIMITS, flexible=2, total=width))
    if len(found) > MOST_DIFFERENCES:
        yield f"and {len(found) - MOST_DIFFERENCES} more; -o json has them all"


def _plan_lines(plan: PlanResult, width: int) -> Iterator[str]:
    yield f"{plan.machine}; {plural(plan.pods, 'pod')} {plan.order}"
    for note in plan.notes:
        yield from paragraph(f"note: {note}", "  ", first="", width=width)
    yield from answer_lines(plan)
    yield from _refusal_lines(plan, width)
    yield ""
    yield from _workload_lines(plan)
    yield ""
    yield from _node_lines(plan)
    for node in plan.nodes[:MOST_MAPS]:
        yield ""
        yield from _map_lines(node, width)
    if len(plan.nodes) > MOST_MAPS:
        yield f"\n{plural(len(plan.nodes) - MOST_MAPS, 'more node')} without a map here; --html draws them all"


def answer_lines(plan: PlanResult) -> Iterator[str]:
    """Yield the answer: placed, refused, spans, memory, moves, what still fits, and how other orders went."""
    refused = plan.refused_pods
    yield f"{plan.pods - refused} of {plural(plan.pods, 'pod')} placed, {refused or 'none'} refused"
    spans = plan.spans
    wide = plural(spans["nodes"], "container")
    yield f"{wide} with own CPUs of several NUMA nodes, {spans['packages']} of several packages"
    yield f"{plural(plan.far_memory, 'container')} with own CPUs and memory of another node"
    yield f"{plural(plan.moves, 'container')} moved to make room"
    yield f"largest Guaranteed container that still fits: {plural(plan.largest_fit, 'CPU')}"
    if plan.worst_of:
        worst, least = max(plan.worst_of), min(plan.worst_of)
        yield f"the worst of {len(plan.worst_of)} orders; {least} to {worst} pods are refused in them"


def _refusal_lines(plan: PlanResult, width: int) -> Iterator[str]:
    found = list(_refusals(plan))
    for sentence in found[:MOST_REFUSALS]:
        yield from paragraph(f"refused {sentence}", "    ", first="  ", width=width)
    if len(found) > MOST_REFUSALS:
        yield f"  and {len(found) - MOST_REFUSALS} more; -o json has them all"


def _refusals(plan: PlanResult) -> Iterator[str]:
    """Yield a sentence for each refusal of a node, and one for all pods of a workload that no node has room for."""
    without_node = Counter((r.workload, r.reason) for r in plan.refused if not r.node)
    for refusal in plan.refused:
        if refusal.node:
            yield f"{refusal.name} on {refusal.node}: {refusal.reason}"
        elif count := without_node.pop((refusal.workload, refusal.reason), 0):
            who = refusal.name if count == 1 else f"{plural(count, 'pod')} of {refusal.workload}"
            yield f"{who}: {refusal.reason}"


def _workload_lines(plan: PlanResult) -> Iterator[str]:
    refused = Counter(refusal.workload for refusal in plan.refused)
    placed: dict[str, list[tuple[str, str, CpuSet]]] = {}
    for node, container in plan.containers():
        kind = container.state.kind or "shared"
        placed.setdefault(container.workload, []).append((node.name, kind, container.state.owned))
    rows = [Cells(("workload", "containers", "refused", "nodes", "placed as"), ("bold",) * 5)]
    for workload in dict.fromkeys((*placed, *refused)):
        found = placed.get(workload, [])
        kinds = Counter(kind for _, kind, _ in found)
        own = {(name, cpu) for name, _, owned in found for cpu in owned}
        shown = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        shown += f": {len(own)} own {'CPU' if len(own) == 1 else 'CPUs'}" if own else ""
        nodes = len({name for name, _, _ in found})
        rows.append(Cells((workload, str(len(found)), str(refused[workload]), str(nodes), shown or "-")))
    yield from layout(rows, column_widths(rows, (40, 10, 10, 10, 60), flexible=0))


def _node_lines(plan: PlanResult) -> Iterator[str]:
    rows = [Cells(("node", "pods", "requested", "moves", "largest fit", "with moves"), ("bold",) * 6)]
    for node in plan.nodes:
        asked = f"{cpu_text(node.requested_mcpu)} of {cpu_text(node.allocatable_mcpu)}"
        fit = ("-", "-") if node.fit is None else (str(node.fit.cpus), str(node.fit.cpus_with_moves))
        rows.append(Cells((node.name, str(node.pods), asked, str(node.all_moves), *fit)))
    yield from layout(rows, column_widths(rows, (30, 10, 30, 10, 12, 12), flexible=0))


def _map_lines(node: PlannedNode, width: int) -> Iterator[str]:
    owners = [(container.name, container.state.owned) for container in node.containers if container.owns_cpus]
    letters = lettered([name for name, _ in owners], {})
    yield node.name
    owned = owned_by_letter(owners, letters)
    there = CpuSet.of_masks(cpus.mask for cpus in node.standing.values())
    yield from drawn(node.map, {**owned, **({MANY: owned.get(MANY, CpuSet()) | there} if there else {})}, width=width)
    yield f"{legend(node.map)}{f'   {MANY} owned before' if there else ''}"
    named = [f"{letter} {name}" for name, letter in letters.items()]
    if named:
        yield from paragraph("   ".join(named), "", width=width)
    for moved in node.moved[:MOST_MOVES]:
        yield from paragraph(f"moves {moved.container}: {moved.before} -> {moved.after}", "    ", width=width, first="")
    if len(node.moved) > MOST_MOVES:
        yield f"and {plural(len(node.moved) - MOST_MOVES, 'more container')} would move; -o json has them all"
