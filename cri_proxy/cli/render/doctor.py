"""Format the report of ``cri-proxy doctor`` as text: what was seen, then the findings in the order to act. Pure."""

from collections.abc import Iterator

from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout, paint, paragraph
from cri_proxy.doctor.catalog import Finding, Severity
from cri_proxy.doctor.report import DoctorReport
from sysfs.text import plural

_TITLES = {
    Severity.MUST: "must be mended, in this order:",
    Severity.SHOULD: "should be changed:",
    Severity.NOTE: "to know:",
}
_STYLES = {Severity.MUST: "red", Severity.SHOULD: "yellow", Severity.NOTE: "cyan"}
_LIMITS = (12, 66)
_INDENT = "     "


def render_doctor(report: DoctorReport, *, colours: bool = False, width: int = WIDTH) -> str:
    """Return the report for people."""
    rows = [Cells((seen.part, seen.state), ("bold", "")) for seen in report.seen]
    lines = layout(rows, column_widths(rows, _LIMITS, flexible=1, total=width), colours=colours)
    number = 0
    for severity, title in _TITLES.items():
        found = [finding for finding in report.findings if finding.severity is severity]
        if found:
            lines += ["", paint(title, "bold", colours=colours)]
        for finding in found:
            number += 1
            lines += _lines(number, finding, colours, width)
    for sentence in report.unseen:
        lines += ["", *paragraph(f"not seen: {sentence}", "  ", first="", width=width)]
    return "\n".join([*lines, "", *paragraph(_verdict(report), "", width=width)])


def render_removal(report: DoctorReport, *, width: int = WIDTH) -> str:
    """Return the report about a removal for people: each reason against it, with what takes it away."""
    lines = [f"{seen.part}: {seen.state}" for seen in report.seen]
    for number, finding in enumerate(report.findings, 1):
        lines += _lines(number, finding, False, width)
    for sentence in report.unseen:
        lines += paragraph(f"not seen: {sentence}", "  ", first="", width=width)
    verdict = "The kubelet depends on cri-proxy." if report.findings else "The kubelet does not depend on cri-proxy."
    unknown = "It is not known whether the kubelet depends on cri-proxy."
    return "\n".join([*lines, unknown if report.unseen and not report.findings else verdict])


def _lines(number: int, finding: Finding, colours: bool, width: int) -> Iterator[str]:
    yield f"{number:3}. {paint(finding.code, _STYLES[finding.severity], colours=colours)}"
    yield from paragraph(finding.text, _INDENT, width=width)
    if finding.remedy:
        yield from paragraph(finding.remedy, f"{_INDENT}   ", first=f"{_INDENT}-> ", width=width)


def _verdict(report: DoctorReport) -> str:
    must = sum(finding.severity is Severity.MUST for finding in report.findings)
    if must:
        return f"{plural(must, 'thing')} must be mended."
    if report.unseen:
        return "No problem was found in the files that could be read."
    return "Nothing must be mended."
