"""Render plans of manifests as one HTML page that needs no other file; all words are escaped. Pure."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from cri_proxy.cli.render.plan import answer_lines
from cri_proxy.foreign_text import visible
from cri_proxy.simulate.plan.compare import differences
from cri_proxy.simulate.plan.result import PlannedNode, PlanResult
from sysfs.cpuset import CpuSet
from sysfs.text import plural

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: .6rem 0 1.4rem; }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
.package, .node, .core { display: inline-flex; flex-wrap: wrap; gap: 3px; border: 1px solid #8886; padding: 3px;
  margin: 2px; border-radius: 3px; align-items: center; }
.cpu { width: 1.1rem; height: 1.1rem; border-radius: 2px; background: #8883; }
.owned { background: hsl(var(--hue) 65% 55%); }
.reserved { background: #888; } .isolated { background: none; outline: 1px dashed #888; }
.no { color: #c22; }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_GOLDEN_ANGLE: Final = 137  # neighbouring containers get hues far apart


def plan_page(plans: Sequence[PlanResult]) -> str:
    """Return the page of one plan, or of two with what differs first."""
    body = [*(_difference_table(plans[0], plans[1]) if len(plans) > 1 else ())]
    for plan in plans:
        body += _plan(plan)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>cri-proxy plan</title><style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _text(words: object) -> str:
    return escape(visible(str(words)))


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = "".join(f"<th>{_text(word)}</th>" for word in head)
    lines = ("".join(f"<td>{_text(word)}</td>" for word in row) for row in rows)
    return f"<table><tr>{cells}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _difference_table(first: PlanResult, second: PlanResult) -> Iterator[str]:
    found = differences(first, second)
    yield f"<h1>What differs</h1>{'' if found else '<p>Nothing.</p>'}"
    if found:
        rows = [(each.what, each.first or "-", each.second or "-") for each in found]
        yield _table(("", first.title, second.title), rows)


def _plan(plan: PlanResult) -> Iterator[str]:
    pods = plural(plan.pods, "pod")
    yield f"<h1>{_text(plan.title or 'Plan')}</h1><p>{_text(plan.machine)}; {pods} {_text(plan.order)}</p>"
    lines = "".join(f"<li>{_text(line)}</li>" for line in answer_lines(plan))
    notes = "".join(f"<li>note: {_text(note)}</li>" for note in plan.notes)
    yield f"<ul>{lines}{notes}</ul>"
    if plan.refused:
        yield '<h2 class="no">Refused</h2>'
        yield _table(
            ("pod", "workload", "node", "why"),
            [(refusal.name, refusal.workload, refusal.node or "-", refusal.reason) for refusal in plan.refused],
        )
    for node in plan.nodes:
        yield from _node(node)


def _node(node: PlannedNode) -> Iterator[str]:
    yield f"<h2>{_text(node.name)}</h2>"
    owners = [container for container in node.containers if container.owns_cpus]
    hues = {container.name: index * _GOLDEN_ANGLE % 360 for index, container in enumerate(owners)}
    owner_of = {cpu: container.name for container in owners for cpu in container.state.owned}
    yield "".join(_package(node, owner_of, hues))
    rows = [
        (c.name, c.workload, c.state.kind, c.state.owned or c.state.cpus, c.nodes, c.state.mems, c.far or "-")
        for c in node.containers
    ]
    head = ("container", "workload", "kind", "CPUs", "NUMA nodes", "memory nodes", "far memory")
    yield f"<details><summary>{plural(len(rows), 'container')}</summary>{_table(head, rows)}</details>"


def _package(node: PlannedNode, owner_of: dict[int, str], hues: dict[str, int]) -> Iterator[str]:
    for package in node.map.packages:
        yield f'<div class="package" title="package {package.id}">'
        for numa in package.nodes:
            yield f'<div class="node" title="NUMA node {numa.id}">'
            for domain in numa.l3:
                for core in domain.cores:
                    yield f'<div class="core">{"".join(_cpu(node, cpu, owner_of, hues) for cpu in core)}</div>'
            yield "</div>"
        yield "</div>"


def _cpu(node: PlannedNode, cpu: int, owner_of: dict[int, str], hues: dict[str, int]) -> str:
    owner = owner_of.get(cpu)
    if owner is not None:
        return f'<div class="cpu owned" style="--hue:{hues[owner]}" title="CPU {cpu}: {_text(owner)}"></div>'
    there = next((name for name, cpus in node.standing.items() if cpu in cpus), "")
    if there:
        return f'<div class="cpu reserved" title="CPU {cpu}: {_text(there)}, which was there"></div>'
    kinds: tuple[tuple[CpuSet, str], ...] = (
        (node.map.reserved, "reserved"),
        (node.map.isolated, "isolated"),
        (node.map.unavailable, "reserved"),
    )
    kind = next((word for cpus, word in kinds if cpu in cpus), "")
    return f'<div class="cpu {kind}" title="CPU {cpu}{f": {kind}" if kind else ": shared"}"></div>'
