"""``cri-proxy reset`` on a terminal (pure)."""

from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph
from cri_proxy.node.reset_report import ResetContainer, ResetReport

_LIMITS = (24, 24, 14, 12)


def render_reset(report: ResetReport, *, colours: bool = False) -> str:
    """The report for people: a line per container, then what came of it all."""
    rows = [Cells(("container", "CPUs", "memory nodes", ""), ("dim",) * 4), *map(_cells, report.containers)]
    lines = layout(rows, column_widths(rows, _LIMITS, flexible=0), colours=colours) if report.containers else []
    for each in report.containers:
        if each.problem:
            lines += paragraph(f"{_name(each)}: {each.problem}", "  ")
    return "\n".join([*lines, *([""] if lines else []), *paragraph(_summary(report), "")])


def _cells(each: ResetContainer) -> Cells:
    style = {"refused": "red", "widened": "green"}.get(each.outcome, "")
    cpus = _change(str(each.before.cpus or ""), str(each.after.cpus or ""))
    mems = _change(str(each.before.mems or ""), str(each.after.mems or ""))
    return Cells((_name(each), cpus, mems, each.outcome), ("", "", "", style))


def _name(each: ResetContainer) -> str:
    return "/".join(part for part in (each.namespace, each.pod, each.name) if part)


def _change(before: str, after: str) -> str:
    return f"{before or 'any'} -> {after or 'any'}" if before != after else before or "any"


def _summary(report: ResetReport) -> str:
    """What came of it, as sentences."""
    outcomes = [each.outcome for each in report.containers]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(sorted(outcomes))]
    grants = f"{report.dropped} saved grant{'' if report.dropped == 1 else 's'}"
    dropped = f"{grants} would be dropped" if report.is_dry else f"{grants} dropped"
    found = ", ".join(counts) if counts else "no container runs"
    tail = "" if report.is_complete else "; run it again for those that were refused"
    return f"{found}; {dropped}{tail}."
