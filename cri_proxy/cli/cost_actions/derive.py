"""``cri-proxy costs derive``: print what the parts of a machine cost each other, in the cost format."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cri_proxy.cli.arguments import add_machine, add_repeated, argument, machine_of, root_of
from cri_proxy.cli.output import emit
from cri_proxy.device_costs import pci_address
from cri_proxy.errors import CommandFailed
from cri_proxy.yaml_fields import YamlField
from policies.devices.costs import (
    PCI_TYPE,
    CostError,
    CostListing,
    MachineCosts,
    compile_costs,
    cost_text,
    costs_of_links,
    names_of,
    nodes_of_gpus,
    ranges_of,
)
from policies.devices.links import LinkError, read_links
from sysfs.cpuset import NodeSet

EXAMPLE = """\
cri-proxy costs derive
cri-proxy costs derive --machine tests/golden/machines/2s4n-pci.tar.xz --device example.com/nic/nic0=0000:13:00.0
cri-proxy costs derive --machine tests/golden/machines/2s4n-pci.tar.xz --topo configs/links/server.txt
cri-proxy costs derive --numa example.com/fpga/fpga0-1=0"""

# The matrix of 16 GPUs with as many NICs has 10 KiB.
MAX_MATRIX_BYTES = 1 << 20


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_machine(parser)
    reached = "only the costs of reaching this PCI device, under a name of its own: an address, or a path of sysfs"
    add_repeated(parser, "--device", "[NAME=]ADDRESS", f"{reached}; repeatable")
    parser.add_argument(
        "--topo",
        metavar="FILE",
        help="GPUs and NICs from the text of nvidia-smi topo -m, rocm-smi or amd-smi, too; - is standard input",
    )
    listed = "devices of which a plugin only lists the NUMA nodes, too: example.com/gpu/gpu0-3=0,1; repeatable"
    add_repeated(parser, "--numa", "NAME=NODES", listed, argument(_listed))


def _listed(text: str) -> tuple[tuple[str, ...], NodeSet]:
    name, equals, nodes = text.rpartition("=")
    if not equals:
        raise ValueError(f"expected NAME=NODES, got {text!r}")
    return names_of(name), NodeSet.parse(nodes)


def run(args: argparse.Namespace) -> int:
    """Print the listing. Raises SysfsBaseError, CostError and CommandFailed."""
    costs = MachineCosts(machine_of(args.machine))
    parts = [costs.of_devices(_addresses(args.device, root_of(args.machine))) if args.device else costs.listing()]
    parts += _of_links(args.topo, costs) if args.topo is not None else ()
    parts.append(costs.of_listed_nodes(_listed_nodes(args.numa)))
    listing = CostListing(
        tuple(line for part in parts for line in part.lines), tuple(name for part in parts for name in part.present)
    )
    compile_costs(listing)  # what stands in two parts has to agree
    emit(listing, args.output, lambda known: cost_text(known).rstrip("\n"), plain=_plain)
    return 0


def _listed_nodes(numa: Sequence[tuple[tuple[str, ...], NodeSet]]) -> dict[str, NodeSet]:
    """Return the nodes of each device. Raises CostError."""
    found: dict[str, NodeSet] = {}
    for names, nodes in numa:
        for name in names:
            if name in found:
                raise CostError(0, name, "--numa names it twice")
            found[name] = nodes
    return found


def _addresses(devices: Sequence[str], root: Path) -> dict[str, str]:
    """Return the address of each device by its name in the listing. Raises CostError."""
    found: dict[str, str] = {}
    for text in devices:
        name, _, device = text.rpartition("=")
        address = pci_address(device, root)
        (single, *more) = names_of(name or f"{PCI_TYPE}/{address}")
        if more:
            raise CostError(0, name, "one device has one name, not a range")
        if single in found or address in found.values():
            raise CostError(0, text, "--device names this one twice")
        found[single] = address
    return found


def _of_links(file: str, costs: MachineCosts) -> Iterator[CostListing]:
    try:
        matrix = read_links(YamlField.read_text(file, MAX_MATRIX_BYTES))
    except LinkError as error:
        raise CommandFailed(f"{file}: {error}") from None
    if not matrix.links and not matrix.gpus:
        raise CommandFailed(f"{file}: it reports that no GPU was found; leave --topo out")
    try:
        listing = costs_of_links(matrix, costs.scale)
    except CostError as error:
        raise CommandFailed(f"{file}: {error}") from None
    yield listing
    yield costs.of_listed_nodes(nodes_of_gpus(matrix))


def _plain(listing: CostListing) -> Mapping[str, object]:
    """Return the listing as ``cri-proxy select`` reads it: source, cost, targets."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in listing.lines:
        for source in ranges_of(line.sources):
            found.setdefault(source, {}).setdefault(str(line.cost), []).extend(ranges_of(line.targets))
    return found
