"""``cri-proxy devices list``: show the devices of an inventory, of a machine's PCI, or of device plugins, as a tree."""

import argparse
import asyncio
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cri_proxy.cli.arguments import add_path, machine_of, root_of
from cri_proxy.cli.device_actions.request import read_document
from cri_proxy.cli.documents import Document, DocumentCommand
from cri_proxy.cli.output import emit
from cri_proxy.cli.render.columns import paragraph
from cri_proxy.cli.render.device_tree import device_tree
from cri_proxy.errors import CommandFailed
from cri_proxy.inventory.driver_names import identified
from cri_proxy.inventory.file import inventory_value, read_inventory
from cri_proxy.inventory.health import DeviceHealth, with_health
from cri_proxy.inventory.health_source import HealthSource, health_of
from cri_proxy.inventory.pci import inventory_of, left_out
from cri_proxy.kubelet.plugin_inventory import PluginHolder, ask_plugins
from cri_proxy.kubelet.pod_resources import SOCKET
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.yaml_fields import DocumentError
from policies.device_grants import DeviceGrant, DeviceKey
from policies.devices import DeviceInventory

EXAMPLE = """\
cri-proxy devices list
cri-proxy devices list --machine tests/golden/machines/2s4n-pci.tar.xz -o yaml > inventory.yaml
cri-proxy devices list inventory.yaml
cri-proxy devices list --kubelet"""

KUBELET_SOCKET = f"/var/lib/kubelet/{SOCKET}"


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """An inventory, what containers hold of it, and resources of device plugins that are of no type in it.

    ``notes`` say what sysfs has of PCI devices that cannot be read. ``holders`` have devices by the kubelet.
    """

    inventory: DeviceInventory
    held: tuple[DeviceGrant, ...] = ()
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    holders: tuple[PluginHolder, ...] = ()


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
    add_path(parser, "--health", "FILE", "a report of which devices are healthy, as devices.health names one")
    parser.add_argument(
        "--kubelet",
        nargs="?",
        const=KUBELET_SOCKET,
        metavar="SOCKET",
        help=f"the devices that plugins have registered with the kubelet, by its pod resources API ({KUBELET_SOCKET})",
    )


def run(args: argparse.Namespace) -> int:
    """Show the devices. Raises CommandFailed and SysfsBaseError."""
    sources = {"FILE": args.file, "--machine": args.machine, "--kubelet": args.kubelet}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise CommandFailed(f"{given[0]} and {given[1]} both name devices; leave one out", 2)
    health = _health(args.health)
    if args.kubelet is not None:
        # YAML is an inventory to edit, which has no holders.
        plain = _with_holders if args.output == "json" else _plain
        found = asyncio.run(_of_kubelet(args.kubelet))
        emit(replace(found, inventory=with_health(found.inventory, health)), args.output, _text, plain=plain)
        return 0
    if args.file is not None:
        return DocumentCommand((), partial(_answer, health), _text, plain=_plain).run(args)
    spec = args.machine or "host"
    machine = machine_of(spec)
    inventory = with_health(identified(inventory_of(machine), root_of(spec)), health)
    emit(ListAnswer(inventory, notes=left_out(machine)), args.output, _text, plain=_plain)
    return 0


async def _of_kubelet(socket: str) -> ListAnswer:
    channel = RuntimeClient(socket)
    try:
        found = await ask_plugins(channel, socket)
    finally:
        await channel.close()
    return ListAnswer(found.inventory, found.held, found.others, holders=found.holders)


def _health(path: Path | None) -> tuple[DeviceHealth, ...]:
    """Return the health that a report tells. Raises CommandFailed."""
    try:
        return () if path is None else health_of(HealthSource(str(path.absolute())))
    except DocumentError as error:
        raise CommandFailed(str(error), 2) from None


def _answer(health: tuple[DeviceHealth, ...], document: Document) -> ListAnswer:
    if "inventory" in document.root.entries("the document"):
        found, _ = read_document(document.root)
        return ListAnswer(with_health(found.inventory, health), found.held)
    return ListAnswer(with_health(read_inventory(document.root), health))


def _text(answer: ListAnswer) -> str:
    others = paragraph(", ".join(answer.others), "  ", first="other resources: ") if answer.others else ()
    notes = [line for note in answer.notes for line in paragraph(note, "  ", first="note: ")]
    containers: dict[DeviceKey, list[str]] = {}
    for holder in answer.holders:
        containers.setdefault(holder.key, []).append(holder.container)
    return "\n".join((device_tree(answer.inventory, answer.held, containers), *others, *notes))


def _plain(answer: ListAnswer) -> object:
    return inventory_value(answer.inventory)


def _with_holders(answer: ListAnswer) -> object:
    return {**inventory_value(answer.inventory), "holders": answer.holders}
