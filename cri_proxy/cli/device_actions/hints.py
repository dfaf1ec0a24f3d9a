"""``cri-proxy devices hints``: print the NUMA nodes on which the devices of a request are available."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cri_proxy.cli.device_actions.request import read_document, read_question
from cri_proxy.cli.documents import Document, DocumentCommand
from cri_proxy.cli.hint_requests.offers import HINTS, set_lines
from cri_proxy.cli.render.columns import paragraph
from policies.devices import AnnotationError, CannotAllocate, DemandError, DeviceAllocator, device_hints
from policies.hints import Hint
from sysfs.text import plural

EXAMPLE = """\
cri-proxy devices hints configs/devices/joint.yaml
cri-proxy devices hints configs/devices/joint.yaml -o json"""


@dataclass(frozen=True, slots=True)
class DeviceHintsAnswer:
    """The hints of each type; None: its devices say nothing of NUMA nodes. Or the reason of a refusal."""

    hints: Mapping[str, tuple[Hint, ...] | None] = field(default_factory=dict)
    rejected: str = ""


def answer(document: Document) -> DeviceHintsAnswer:
    """Return the hints for a document. Raises DocumentError."""
    found, fields = read_document(document.root)
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
    return {kind: HINTS.write(hints) for kind, hints in found.hints.items()}


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
        lines += set_lines(hints)
    return "\n".join(lines) or "nothing is asked for"


COMMAND = DocumentCommand((), answer, hints_text, is_no=lambda found: bool(found.rejected), plain=json_value)
register, run = COMMAND.register, COMMAND.run
