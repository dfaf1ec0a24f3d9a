"""``cri-proxy devices hints``: print the NUMA nodes on which the devices of a request can be had."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field

from cri_proxy.cli.device_actions.allocate import directory_of
from cri_proxy.cli.device_actions.request import read_document, read_question
from cri_proxy.cli.documents import Document, DocumentCommand, add_document_options
from cri_proxy.cli.render.columns import paragraph
from policies.devices.allocate import CannotAllocate, DeviceAllocator
from policies.devices.demand import DemandError
from policies.devices.fields import AnnotationError
from policies.devices.hints import device_hints
from policies.hints.model import Hint
from sysfs.cpuset import NodeSet
from sysfs.text import plural

HELP = "print the NUMA nodes on which the devices of a request can be had, as hints for cri-proxy hints merge"
EXAMPLE = """\
cri-proxy devices hints request.yaml
cri-proxy devices hints request.yaml -o json"""


@dataclass(frozen=True, slots=True)
class DeviceHintsAnswer:
    """The hints of each type; None: its devices say nothing of NUMA nodes. Or the reason of a refusal."""

    hints: Mapping[str, tuple[Hint, ...] | None] = field(default_factory=dict)
    rejected: str = ""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_document_options(parser, ())


def run(args: argparse.Namespace) -> int:
    """Answer every document; return 1 when any is rejected. Raises CommandFailed."""
    return DocumentCommand((), answer, hints_text, is_no=lambda found: bool(found.rejected), plain=json_value).run(args)


def answer(document: Document) -> DeviceHintsAnswer:
    """Return the hints for a document. Raises DocumentError."""
    found, fields = read_document(document.root, directory_of(document.args))
    try:
        hints = device_hints(DeviceAllocator(found.inventory), read_question(document.root, fields), found.held)
    except (AnnotationError, DemandError) as error:
        return DeviceHintsAnswer(rejected=str(error))
    if isinstance(hints, CannotAllocate):
        return DeviceHintsAnswer(rejected=hints.problem)
    return DeviceHintsAnswer(hints)


def json_value(found: DeviceHintsAnswer) -> dict[str, object]:
    """Return the value of ``devices hints -o json``: a provider of ``hints merge``."""
    if found.rejected:
        return {"rejected": found.rejected}
    return {kind: None if hints is None else [_entry(hint) for hint in hints] for kind, hints in found.hints.items()}


def _entry(hint: Hint) -> dict[str, object]:
    return {"nodes": list(NodeSet(hint.nodes or 0)), "preferred": hint.preferred}


def hints_text(found: DeviceHintsAnswer) -> str:
    """Return the hints for people: the preferred sets of each type, then the others."""
    if found.rejected:
        return "\n".join(paragraph(found.rejected, "  ", first="rejected: "))
    lines: list[str] = []
    for kind, hints in found.hints.items():
        if hints is None:
            lines.append(f"{kind}: no preference (none of its devices names a NUMA node)")
            continue
        lines.append(f"{kind}: {plural(len(hints), 'hint')}")
        for label, is_preferred in (("preferred", True), ("other", False)):
            sets = " ".join(f"{{{NodeSet(hint.nodes or 0)}}}" for hint in hints if hint.preferred is is_preferred)
            lines += paragraph(sets, " " * 13, first=f"  {label:<9}  ") if sets else ()
    return "\n".join(lines) or "nothing is asked for"
