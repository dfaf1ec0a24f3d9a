"""``cri-proxy devices allocate``: choose the devices of a container, or say why it cannot have them."""

from dataclasses import dataclass, replace

from cri_proxy.cli.device_actions.request import HELD, read_document, read_question
from cri_proxy.cli.documents import Document, DocumentCommand
from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph, terminal_width
from policies.device_grants import WHOLE, DeviceGrant, DeviceKey
from policies.devices import (
    GPU,
    AnnotationError,
    CannotAllocate,
    DemandError,
    DeviceAllocation,
    DeviceAllocator,
    PcieGroup,
)

EXAMPLE = """\
cri-proxy devices allocate configs/devices/joint.yaml
cri-proxy devices allocate configs/devices/joint.yaml -o json
echo '{inventory: {gpu: [{minor: 0}]}, requests: {nvidia.com/gpu: 1}}' | cri-proxy devices allocate -"""


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The grants for a document, each with the place of its device; or the reason of a refusal."""

    grants: tuple[tuple[DeviceGrant, str], ...] = ()
    rejected: str = ""
    warnings: tuple[str, ...] = ()


def answer(document: Document) -> DeviceAnswer:
    """Return the devices for a document. Raises DocumentError."""
    found, fields = read_document(document.root)
    try:
        question = read_question(document.root, fields)
        allocator = DeviceAllocator(found.inventory)
        allocation = allocator.allocate(question, found.held)
    except (AnnotationError, DemandError) as error:
        return DeviceAnswer(rejected=str(error))
    warnings = question.annotations.warnings
    if isinstance(allocation, CannotAllocate):
        return DeviceAnswer(rejected=allocation.problem, warnings=warnings)
    return DeviceAnswer(_placed(allocation, allocator.groups), warnings=warnings)


def _placed(allocation: DeviceAllocation, groups: tuple[PcieGroup, ...]) -> tuple[tuple[DeviceGrant, str], ...]:
    places: dict[DeviceKey, str] = {}
    for group in groups:
        node = "NUMA node unknown" if group.numa is None else f"NUMA node {group.numa}"
        for device in group.devices:
            places[device.key] = f"{node}, PCIe {group.pcie or 'unknown'}"
    return tuple((grant, places[grant.key]) for grant in allocation.grants)


def json_value(found: DeviceAnswer) -> dict[str, object]:
    """Return the value of ``devices allocate -o json`` (docs/devices.md)."""
    listed: dict[str, list[object]] = {}
    for grant, _ in found.grants:
        entry = HELD.write(grant if grant.kind == GPU else replace(grant, resources=()))
        listed.setdefault(grant.kind, []).append(entry)
    more = {"rejected": found.rejected, **listed, "warnings": list(found.warnings)}
    return {key: value for key, value in more.items() if value}


def answer_text(found: DeviceAnswer) -> str:
    """Return the answer for people: a line for each device, or the refusal."""
    lines = paragraph(found.rejected, "  ", first="rejected: ") if found.rejected else []
    rows = [
        Cells((f"{grant.kind} {grant.minor}", _share(grant), place, f"VF {grant.vf}" if grant.vf else ""))
        for grant, place in found.grants
    ]
    if rows:
        lines += layout(rows, column_widths(rows, (20, 30, 40, 20), flexible=2, total=terminal_width()))
    for warning in found.warnings:
        lines += ["", *paragraph(warning, "  ", first="warning: ")]
    return "\n".join(lines) or "nothing is asked for"


def _share(grant: DeviceGrant) -> str:
    share = "whole" if grant.amount == WHOLE else f"{grant.amount} of {WHOLE}"
    return f"{share}, {grant.exclusive}" if grant.exclusive else share


COMMAND = DocumentCommand((), answer, answer_text, is_no=lambda found: bool(found.rejected), plain=json_value)
register, run = COMMAND.register, COMMAND.run
