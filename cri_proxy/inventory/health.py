"""Read which devices are unhealthy from what a file or a command reports: lines of our own, or NVIDIA's tools. Pure.

Sources: ``nvidia-smi --help-query-gpu``, the elements of ``nvidia-smi -q -x``, and messages of NVIDIA's driver in the
kernel log (NVIDIA, "XID Errors").
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from cri_proxy.foreign_text import admit
from cri_proxy.yaml_fields import DocumentError
from policies.devices import DEVICE_TYPES, GPU, DeviceInventory, InventoryDevice, address_in, identities_of, uuid_in
from sysfs.gpu_partitions import is_partition

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_REASON_BYTES: Final = 120
_TYPES: Final = "|".join(DEVICE_TYPES)
_LINE: Final = re.compile(rf"((?:{_TYPES})[ -]\d{{1,5}}|[\w.:-]+):?\s+(ok|healthy|unhealthy)\b:?\s*(.*)", re.ASCII)
_NUMBERED: Final = re.compile(rf"({_TYPES})[ -](\d{{1,5}})", re.ASCII)
_EXPECTED: Final = (
    "expected DEVICE ok or DEVICE unhealthy REASON, where DEVICE is as gpu 0, its PCI address or its uuid; the CSV of "
    "nvidia-smi --query-gpu with pci.bus_id or uuid; or the XML of nvidia-smi -q -x"
)
_XID: Final = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:]+)\): (\d{1,4})")
# Of an application, not of the GPU, by NVIDIA's catalogue; 31 and 13 are its own wild addresses.
_XIDS_OF_APPLICATIONS: Final = frozenset((13, 31, 43, 45, 68, 109))
_LOST: Final = re.compile(r"device handle for GPU\s*([0-9a-fA-F:.]+):\s*(.*)")
_GPU_COLUMNS: Final = ("pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")
_PENDING: Final = (
    *("retired_pages.pending", "retired_pages.pending_retirement", "retired_pages.pending_blacklist"),
    *("remapped_rows.failure", "remapped_rows.remapped_row_failure"),
    *("remapped_rows.pending", "remapped_rows.remapped_row_pending"),
    *("reset_status.reset_required", "gpu_reset_status.reset_required"),
)
_GROUPS_IN_XML: Final = ("ecc_errors", "retired_pages", "remapped_rows", "gpu_reset_status", "gpu_recovery_action")
_XML_LEVELS: Final = 16  # nvidia-smi has three
_NOTHING: Final = frozenset(("", "none", "n/a", "[n/a]", "[not supported]", "no", "0"))
_FAILED: Final = ("is lost", "err!", "unknown error", "requires reset", "fallen off")


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a device; ``name`` is one of its identities, ``problem`` is '' for a healthy one.

    ``is_partial``: its report tells nothing of the devices that it does not name, as a tool failed over this one.
    """

    name: str
    problem: str = ""
    is_partial: bool = False


def read_health(text: str, source: str) -> tuple[DeviceHealth, ...]:
    r"""Return the health of each device that a report names, once. Raises DocumentError; an empty report is an error.

    >>> [(each.name, each.problem) for each in read_health("gpu 0 ok\n0000:2a:00.0 unhealthy fan failed", "/run/h")]
    [('gpu 0', ''), ('0000:2a:00.0', 'fan failed')]
    """
    if not text.strip():
        raise DocumentError(source, 0, f"an empty report: {_EXPECTED}")
    try:
        reported = tuple(_of_xml(text, source) if text.lstrip().startswith("<") else _of_lines(text, source))
    except DocumentError:
        # Where a GPU is lost, nvidia-smi prints words about it in place of the CSV or XML.
        reported = lost_gpus(text)
        if not reported:
            raise
    found: dict[str, DeviceHealth] = {}
    for health in reported:
        before = found.get(health.name)
        # Of several lines about a device a bad one counts.
        if before is None or not before.problem:
            found[health.name] = replace(health, problem=admit(health.problem, _REASON_BYTES))
    return tuple(found.values())


def lost_gpus(text: str) -> tuple[DeviceHealth, ...]:
    """Return the GPUs that NVIDIA's tools cannot reach, as they tell before they fail."""
    found = (_LOST.search(line) for line in text.splitlines())
    return tuple(_of_lost(lost) for lost in found if lost is not None)


def with_last_known(reported: tuple[DeviceHealth, ...], last: Iterable[DeviceHealth]) -> tuple[DeviceHealth, ...]:
    """Return a report, and where it tells of some devices only, what was known ``last`` of the others."""
    # nvidia-smi fails as a whole over a lost GPU: its words alone would make all others healthy again.
    if not any(each.is_partial for each in reported):
        return reported
    named = {each.name for each in reported}
    return (*reported, *(each for each in last if each.name not in named))


def with_health(inventory: DeviceInventory, reported: Iterable[DeviceHealth]) -> DeviceInventory:
    """Return the inventory with these devices as unhealthy, beside those that it has so itself.

    What is wrong with a GPU is wrong with all of its partitions, of which reports name none; what is wrong with one of
    them is its own. A MIG instance is no device here: its GPU has it among what is wrong.
    """
    problems = {health.name: health.problem for health in reported if health.problem}
    of_wholes = problems | _of_wholes(inventory, problems)
    found = {
        device.key: problem
        for device in inventory.devices
        if (problem := _problem_of(device, problems) or of_wholes.get(address_in(device.part_of), ""))
    }
    devices = (_with_problem(device, found.get(device.key, "")) for device in inventory.devices)
    return replace(inventory, devices=tuple(devices)) if found else inventory


def _of_wholes(inventory: DeviceInventory, problems: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with GPUs that are in partitions, by their PCI addresses."""
    parted = {address for device in inventory.of(GPU) if (address := address_in(device.part_of))}
    gpus = {address: gpu for gpu in inventory.of(GPU) if (address := address_in(gpu.path.bus)) in parted}
    found = {address: gpu.ailment or _problem_of(gpu, problems) for address, gpu in gpus.items()}
    return {
        address: problem or f"the GPU {address} is unhealthy"
        for address, problem in found.items()
        if problem or not gpus[address].is_healthy
    }


def unknown_devices(inventory: DeviceInventory, reported: Iterable[DeviceHealth]) -> tuple[str, ...]:
    """Return the names of reported devices by type and number that the inventory does not have."""
    known = {identity for device in inventory.devices for identity in identities_of(device)}
    return tuple(each.name for each in reported if " " in each.name and each.name not in known)


def _problem_of(device: InventoryDevice, problems: Mapping[str, str]) -> str:
    names = identities_of(device)
    of_parts = (f"{part}: {problems[name]}" for part in device.parts if (name := uuid_in(part)) in problems)
    return next((problems[name] for name in names if name in problems), "") or next(of_parts, "")


def _with_problem(device: InventoryDevice, problem: str) -> InventoryDevice:
    return replace(device, is_healthy=False, ailment=device.ailment or problem) if problem else device


def _of_lines(text: str, source: str) -> Iterator[DeviceHealth]:
    columns: Sequence[str] = ()
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        xid, lost = _XID.search(line), _LOST.search(line)
        if not line or line.startswith("#"):
            continue
        if lost is not None:
            yield _of_lost(lost)
        elif xid is not None:
            if int(xid[2]) not in _XIDS_OF_APPLICATIONS:
                # The driver leaves the function out in its messages.
                yield DeviceHealth(address_in(f"{xid[1]}.0"), f"Xid {xid[2]}")
        elif "," in line and _LINE.fullmatch(line) is None:  # a reason may have a comma too
            cells = [cell.strip() for cell in line.split(",")]
            if not columns:
                columns = _columns(cells, source, number)
            else:
                yield _of_row(dict(zip(columns, cells, strict=False)), source, number)
        else:
            yield _of_line(line, source, number)


def _of_lost(lost: re.Match[str]) -> DeviceHealth:
    problem = admit(lost[2].strip() or "lost", _REASON_BYTES)
    return DeviceHealth(address_in(lost[1]), problem, is_partial=True)


def _of_line(line: str, source: str, number: int) -> DeviceHealth:
    found = _LINE.fullmatch(line)
    name = _name(found[1]) if found is not None else ""
    if found is None or not name:
        raise DocumentError(source, number, f"{_EXPECTED}; got {admit(repr(line[:60]))}")
    return DeviceHealth(name, (found[3].strip() or "unhealthy") if found[2] == "unhealthy" else "")


def _name(text: str) -> str:
    """Return the identity of a device that a report calls so, '' for another text."""
    numbered = _NUMBERED.fullmatch(text)
    if numbered is not None:
        return f"{numbered[1]} {int(numbered[2])}"
    if is_partition(text):
        return identities_of(InventoryDevice(GPU, 0, uuid=text))[0]
    return address_in(text) or uuid_in(text)


def _columns(cells: Sequence[str], source: str, number: int) -> Sequence[str]:
    """Return the columns of a CSV by name, without their units."""
    columns = [cell.partition(" [")[0].lower() for cell in cells]
    if not set(columns) & set(_GPU_COLUMNS):
        raise DocumentError(source, number, "no column tells the GPU: query pci.bus_id or uuid too, without noheader")
    return columns


def _of_row(row: Mapping[str, str], source: str, number: int) -> DeviceHealth:
    name = next((found for column in _GPU_COLUMNS if column in row and (found := _name(row[column]))), "")
    if not name:
        raise DocumentError(source, number, f"no PCI address or uuid in {admit(repr(','.join(row.values())[:60]))}")
    return DeviceHealth(name, next(filter(None, (_problem(*pair) for pair in row.items())), ""))


def _of_xml(text: str, source: str) -> Iterator[DeviceHealth]:
    from xml.etree import ElementTree  # only where such a report is read, and there in a helper process

    # Few lines of entities within entities expand to gigabytes.
    if "<!ENTITY" in text:
        raise DocumentError(source, 0, "declares entities, which nvidia-smi does not: give its own output")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DocumentError(source, error.position[0], f"not XML: {error}") from None
    gpus = list(root.iter("gpu"))
    if not gpus:
        raise DocumentError(source, 0, f"no <gpu> in it: {_EXPECTED}")
    for gpu in gpus:
        name = address_in(gpu.get("id") or gpu.findtext("pci/pci_bus_id") or "") or _name(gpu.findtext("uuid") or "")
        if name:
            groups = ((each, group) for group in _GROUPS_IN_XML for each in gpu.findall(group))
            values = (pair for each, group in groups for pair in _values(each, group, source))
            yield DeviceHealth(name, next(filter(None, (_problem(*pair) for pair in values)), ""))


def _values(element: "Element", path: str, source: str, levels: int = _XML_LEVELS) -> Iterator[tuple[str, str]]:
    """Yield the texts below an element by their paths: ``ecc_errors.volatile.dram_uncorrectable``.

    Raises DocumentError where they lie more than so many ``levels`` deep.
    """
    if not levels:
        raise DocumentError(source, 0, f"nested too deeply, which nvidia-smi does not: {admit(path[:60])}")
    if not len(element):
        yield path, (element.text or "").strip()
    for child in element:
        yield from _values(child, f"{path}.{child.tag}", source, levels - 1)


def _problem(name: str, value: str) -> str:
    """Return what is wrong with a GPU by one of its values, '' = nothing."""
    word = value.lower()
    if any(failed in word for failed in _FAILED):
        return f"{name}: {value.strip('[]')}"
    if word in _NOTHING or word.startswith("[n/a"):
        return ""
    # Those since the driver was loaded: what it has met in its whole life may be mended.
    is_uncorrected = name.startswith("ecc") and "volatile" in name and ("uncorrect" in name or "double_bit" in name)
    if is_uncorrected and word.isdecimal():
        return f"{value} uncorrected memory errors ({name})"
    is_pending = name in _PENDING or name.endswith("recovery_action")
    return f"{name}: {value}" if is_pending else ""
