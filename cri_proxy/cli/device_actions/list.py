"""``cri-proxy devices list``: show the devices of an inventory, or of this machine's PCI, as a tree."""

import argparse
from dataclasses import dataclass

from cri_proxy.cli.device_actions.allocate import directory_of
from cri_proxy.cli.device_actions.request import read_document
from cri_proxy.cli.documents import Document, DocumentCommand
from cri_proxy.cli.output import emit
from cri_proxy.cli.render.device_tree import device_tree, inventory_value
from cri_proxy.errors import CommandFailed
from cri_proxy.inventory.file import read_inventory
from cri_proxy.inventory.pci import inventory_of
from policies.device_grants import DeviceGrant
from policies.devices.model import DeviceInventory
from sysfs.sources import load_machine

HELP = "show devices by NUMA node and PCIe: of an inventory, of a request with what is in use, or of a machine"
EXAMPLE = """\
cri-proxy devices list
cri-proxy devices list inventory.yaml
cri-proxy devices list --machine report.tar.xz -o yaml > inventory.yaml"""


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """An inventory, and what containers hold of it."""

    inventory: DeviceInventory
    held: tuple[DeviceGrant, ...] = ()


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="an inventory, or a document of devices allocate; - is standard input"
    )
    parser.add_argument(
        "--machine",
        metavar="SPEC",
        help="the PCI devices of host (the default without FILE), a directory that holds sys/, an archive "
        "FILE.tar.xz[:ROOT], or a description",
    )


def run(args: argparse.Namespace) -> int:
    """Show the devices. Raises CommandFailed and SysfsBaseError."""
    if args.file is not None:
        if args.machine is not None:
            raise CommandFailed("FILE and --machine both name devices; leave one out", 2)
        return DocumentCommand((), _answer, _text, is_no=lambda _: False, plain=_plain).run(args)
    try:
        machine = load_machine(args.machine or "host")
    except OSError as error:
        raise CommandFailed(str(error)) from error
    emit(ListAnswer(inventory_of(machine)), args.output, _text, plain=_plain)
    return 0


def _answer(document: Document) -> ListAnswer:
    if "inventory" in document.root.entries("the document"):
        found, _ = read_document(document.root, directory_of(document.args))
        return ListAnswer(found.inventory, found.held)
    return ListAnswer(read_inventory(document.root))


def _text(answer: ListAnswer) -> str:
    return device_tree(answer.inventory, answer.held)


def _plain(answer: ListAnswer) -> object:
    return inventory_value(answer.inventory)
