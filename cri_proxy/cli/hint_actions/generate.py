"""``cri-proxy hints generate``: print the hints that the CPU, memory and device managers would give for a request."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cri_proxy.cli.documents import Document, DocumentCommand, DocumentOption, flag
from cri_proxy.cli.hint_requests.cpu import read_cpu, read_topology
from cri_proxy.cli.hint_requests.devices import read_devices
from cri_proxy.cli.hint_requests.memory import read_memory
from cri_proxy.cli.hint_requests.offers import HINTS, set_lines
from cri_proxy.yaml_fields import YamlField
from policies.hints import CpuProvider, DeviceProvider, Hints, MemoryAmounts, MemoryProvider, idle_memory, topology_of
from sysfs.documents.forms import FIELD
from sysfs.documents.table import KeyRow, Table
from sysfs.model import Machine
from sysfs.quantity import bytes_text
from sysfs.sources import load_machine
from sysfs.text import plural

EXAMPLE = """\
cri-proxy hints generate configs/hints/request.yaml
cri-proxy hints generate configs/hints/request.yaml -o json
echo '{machine: {packages: 2, cores: 4}, cpu: {request: 2, free: "1-5"}}' | cri-proxy hints generate -"""

PREFERRED_SETS = flag(
    "preferred-allocation-hints",
    "prefer the hints that are exactly the nodes of a set in preferred:, instead of those with the fewest nodes",
)
OPTIONS: tuple[DocumentOption[object], ...] = (PREFERRED_SETS,)
DOCUMENT = Table(
    lambda **given: given,
    KeyRow("topology", FIELD, "the CPUs of nodes, and the nodes of sockets; or `machine`"),
    KeyRow("machine", FIELD, "host, a directory, an archive or a description, as for `topology --machine`"),
    KeyRow("cpu", FIELD, "a request for CPUs"),
    KeyRow("memory", FIELD, "a request for memory and huge pages"),
    KeyRow("devices", FIELD, "requests for devices by resource"),
    KeyRow("options", FIELD, "options of the command by their names, which the command line beats"),
    name="the document",
)


@dataclass(frozen=True, slots=True)
class OfferedHints:
    """The hints of one resource; ``asked`` says for what, ``note`` why there are none or none is preferred."""

    resource: str
    asked: str
    hints: Hints
    note: str = ""


def _answer(document: Document) -> tuple[OfferedHints, ...]:
    root = document.root
    fields = DOCUMENT.fields(root)
    if ("topology" in fields) == ("machine" in fields):
        raise root.refuse("give topology: or machine:, and not both")
    machine = _machine(fields["machine"]) if "machine" in fields else None
    topology = topology_of(machine) if machine else read_topology(fields["topology"])
    counted = topology.counted_nodes
    found: list[OfferedHints] = []
    if "cpu" in fields:
        found += _of_cpu(read_cpu(fields["cpu"], topology))
    if "memory" in fields:
        idle: Mapping[int, MemoryAmounts] = idle_memory(machine) if machine else {}
        found += _of_memory(read_memory(fields["memory"], topology.nodes, idle).within(counted))
    if "devices" in fields:
        has_sets = document.option(PREFERRED_SETS)
        devices = read_devices(fields["devices"], topology.nodes, has_preferred_sets=has_sets)
        found += _of_devices(devices.within(counted))
    return tuple(found)


def _machine(field: YamlField) -> Machine:
    plain = field.plain()
    if not isinstance(plain, str | Mapping):
        raise field.refuse("machine: give host, a path, or a description in braces")
    try:
        return load_machine(plain)
    except OSError as error:
        raise field.refuse(f"machine: {error}") from None


def _of_cpu(provider: CpuProvider) -> Iterator[OfferedHints]:
    offers = provider.offers()
    if offers is None:
        yield OfferedHints("cpu", "no whole CPUs", None, "it gets no CPUs of its own")
        return
    held, usable = provider.allocated, (provider.free | provider.reusable).bit_count()
    note = f"free or reusable: {usable}" if held is None else f"the container has {held.bit_count()}"
    yield OfferedHints("cpu", plural(provider.request, "CPU"), offers["cpu"], "" if offers["cpu"] else note)


def _of_memory(provider: MemoryProvider) -> Iterator[OfferedHints]:
    offers = provider.offers() or {}
    if not provider.request:
        yield OfferedHints("memory", "none", None, "no memory is asked for")
    note = "no set of nodes has room: the kubelet refuses the container when it assigns its memory"
    if provider.allocated is not None:
        note = "the container has a different amount: the kubelet has no hint then"
    for resource, amount in provider.request.items():
        hints = offers.get(resource)
        yield OfferedHints(resource, bytes_text(amount), hints, note if hints is None else "")


def _of_devices(provider: DeviceProvider) -> Iterator[OfferedHints]:
    offers = provider.offers()
    without_preference = provider.without_preference(offers)
    for resource, request in provider.requests.items():
        hints = offers[resource]
        usable = len(request.available | request.reusable)
        note = ""
        if hints is None:
            note = "none of its devices names a NUMA node"
        elif not hints and request.allocated:
            note = f"the container has {len(request.allocated)}"
        elif not hints and usable < request.count:
            note = f"available: {usable}"
        elif not hints:
            note = "a device without a node of this machine counts in no set"
        elif resource in without_preference:
            note = "no set in preferred: can be had; restricted and single-numa-node refuse such a container"
        yield OfferedHints(resource, plural(request.count, "device"), hints, note)


def _text(found: Sequence[OfferedHints]) -> str:
    if not found:
        return "nothing is asked for: give cpu:, memory: or devices:"
    return "\n".join(line for offered in found for line in _lines(offered))


def _lines(offered: OfferedHints) -> Iterator[str]:
    hints, note = offered.hints, f" ({offered.note})" if offered.note else ""
    if hints is None:
        yield f"{offered.resource}: {offered.asked}: no preference{note}"
    elif not hints:
        yield f"{offered.resource}: {offered.asked}: cannot be satisfied{note}"
    else:
        yield f"{offered.resource}: {offered.asked}: {plural(len(hints), 'hint')}{note}"
        yield from set_lines(hints)


def _plain(found: Sequence[OfferedHints]) -> object:
    return {offered.resource: HINTS.write(offered.hints) for offered in found}


COMMAND = DocumentCommand(OPTIONS, _answer, _text, plain=_plain)
register, run = COMMAND.register, COMMAND.run
