"""``cri-proxy devices cdi``: write CDI specifications of a node's NICs and VFs, as grants name them."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.cli.arguments import ROOT, add_path, argument
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.cli.output import emit
from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph, terminal_width
from cri_proxy.cri.cdi.names import is_kind
from cri_proxy.cri.devices.cdi_files import CdiFile, CdiNaming, SpecifiedFunctions, cdi_files, file_names
from cri_proxy.cri.devices.names import OWN_VENDOR, VF_KIND
from cri_proxy.device_files.cdi_writer import ChangedFile, NotWritten, write_specifications
from cri_proxy.device_files.pci_functions import functions_at
from cri_proxy.errors import CommandFailed, StoreError
from cri_proxy.inventory.file import read_inventory_file
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.numbers import boot_id, find_numbers
from cri_proxy.inventory.pci import inventory_of
from cri_proxy.yaml_fields import DocumentError
from policies.devices import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory
from sysfs.discover import discover
from sysfs.text import plural

EXAMPLE = """\
cri-proxy devices cdi
cri-proxy devices cdi --write ./cdi
cri-proxy devices cdi /etc/cri-proxy/devices.yaml --write /etc/cdi
cri-proxy devices cdi --kind example.com/nic -o json"""

WITHOUT_EFFECT: Final = (
    WithoutEffect(("--scan",), "without FILE: the PCI devices that are here are scanned", lambda args: not args.file),
    WithoutEffect(
        ("--state-dir",),
        "with FILE unless --scan is given: a file has its own numbers",
        lambda args: args.file is not None and not args.scan,
    ),
)

OWN_KINDS = (VF_KIND, *(f"{OWN_VENDOR}/{kind}" for kind in DEVICE_TYPES))


@dataclass(frozen=True, slots=True)
class CdiAnswer:
    """The specifications, and what became of their files in ``directory``; none of it where they are only shown."""

    found: SpecifiedFunctions
    directory: str = ""
    changes: tuple[ChangedFile, ...] = ()


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="the daemon's inventory file (default: the PCI devices that are here)",
    )
    parser.add_argument(
        "--scan", action="store_true", help="with FILE: also the PCI devices that are here, as devices.scan"
    )
    add_path(parser, "--write", "DIR", "write the specifications there, as into /var/run/cdi (default: show them)")
    parser.add_argument(
        "--kind",
        type=argument(_kind),
        metavar="VENDOR/CLASS",
        help="declare all as VENDOR/CLASS=ADDRESS, as cost files name devices (default: the names of grants)",
    )
    parser.add_argument(
        "--net",
        action="store_true",
        help="declare VFs that are network interfaces alone too, for runtimes with CDI 1.1",
    )
    add_path(parser, "--state-dir", "DIR", "the daemon's, for its numbers of scanned devices: /var/lib/cri-proxy")
    add_path(parser, "--sysfs-root", "DIR", "the directory that holds sys and proc (default: /)", default=ROOT)


def run(args: argparse.Namespace) -> int:
    """Write or show the specifications; 1 where a device cannot be declared. Raises CommandFailed, SysfsBaseError."""
    inventory = _inventory(args)
    addresses = [
        bus
        for device in inventory.devices
        for bus in (device.path.bus, *(vf.bus for group in device.vf_groups for vf in group.vfs))
    ]
    naming = CdiNaming(args.kind or "", args.net)
    found = cdi_files(inventory, functions_at(args.sysfs_root, list(filter(None, addresses))), naming)
    answer = CdiAnswer(found)
    if args.write is not None:
        answer = CdiAnswer(found, str(args.write), _written(args.write, found, naming))
    emit(answer, args.output, _text, plain=_plain)
    return 1 if found.refused else 0


def _kind(text: str) -> str:
    if not is_kind(text):
        raise ValueError(f"expected VENDOR/CLASS, as example.com/nic, got {text!r:.80}")
    return text


def _inventory(args: argparse.Namespace) -> DeviceInventory:
    """Return the devices as the daemon knows them, which has their numbers. Raises CommandFailed and SysfsBaseError."""
    try:
        listed = EMPTY_INVENTORY if args.file is None else read_inventory_file(args.file)
        if args.file is not None and not args.scan:
            return listed
        before = EMPTY_INVENTORY
        if args.state_dir is not None:
            before = find_numbers(args.state_dir, boot_id(args.sysfs_root)).beside(before)
        return with_scanned(listed, inventory_of(discover(args.sysfs_root)), before)
    except (DocumentError, StoreError) as error:
        raise CommandFailed(str(error)) from error


def _written(directory: Path, found: SpecifiedFunctions, naming: CdiNaming) -> tuple[ChangedFile, ...]:
    try:
        return write_specifications(directory, found.files, file_names(naming, OWN_KINDS))
    except NotWritten as error:
        raise CommandFailed(f"nothing is written: {error}") from error
    except OSError as error:
        raise CommandFailed(f"{directory}: cannot be written: {error.strerror or error}") from error


def _text(answer: CdiAnswer) -> str:
    found, changes = answer.found, {changed.name: str(changed.change) for changed in answer.changes}
    lines: list[str] = []
    rows = [Cells(("", *row)) for file in found.files for row in _rows(file)]
    widths = column_widths(rows, (0, 60, 12, 20, 40), flexible=4, total=terminal_width())
    for file in found.files:
        state = f", {changes.pop(file.name)}" if file.name in changes else ""
        lines.append(f"{Path(answer.directory, file.name)}: {plural(len(file.devices), 'device')}{state}")
        lines += layout([Cells(("", *row)) for row in _rows(file)], widths)
    lines += [
        f"{Path(answer.directory, name)}: {change}, none of its devices is left" for name, change in changes.items()
    ]
    lines += ["not written: --write /var/run/cdi writes what is shown"] if found.files and not answer.directory else []
    for title, texts in (("refused", found.refused), ("note", found.notes)):
        lines += (line for text in texts for line in paragraph(text, "  ", first=f"{title}: "))
    return "\n".join(lines) or "no device to declare"


def _rows(file: CdiFile) -> Iterator[tuple[str, str, str, str]]:
    for device in file.devices:
        given = (entry.get("path", entry.get("name", "")) for entries in device.edits.values() for entry in entries)
        yield f"{file.kind}={device.name}", device.device, device.driver, " ".join(Path(each).name for each in given)


def _plain(answer: CdiAnswer) -> object:
    changes = {changed.name: str(changed.change) for changed in answer.changes}
    files = [
        {
            "name": file.name,
            **({"change": changes[file.name]} if file.name in changes else {}),
            "content": file.document,
        }
        for file in answer.found.files
    ]
    gone = [name for name in changes if name not in {file.name for file in answer.found.files}]
    return {"files": files, "removed": gone, "refused": answer.found.refused, "notes": answer.found.notes}
